package hub

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

type connKey struct{}

// ConnContext is for http.Server.ConnContext of a server that serves a hub. It bounds what the kernel holds
// for a client that does not read, and lets the hub cut an HTTP/2 connection that makes no progress.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	BoundSendBuffer(c)
	return context.WithValue(ctx, connKey{}, plainConn(c))
}

// plainConn is the connection below TLS.
func plainConn(c net.Conn) net.Conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return c
}

// connGuard cuts an HTTP/2 connection whose client has stopped reading. The deadline of one stream cannot: its
// reset waits behind the frame that is stuck. A connection on which other streams move is left alone.
type connGuard struct {
	conn    net.Conn
	timeout time.Duration
	before  atomic.Uint64 // bytes acknowledged when the write began
}

// newConnGuard returns nil for HTTP/1, whose connection is the stream, and where progress cannot be seen.
func newConnGuard(r *http.Request, timeout time.Duration) *connGuard {
	conn, ok := r.Context().Value(connKey{}).(net.Conn)
	if !ok || r.ProtoMajor < 2 {
		return nil
	}
	if _, ok := acknowledged(conn); !ok {
		return nil
	}
	return &connGuard{conn: conn, timeout: timeout}
}

// watch guards a write until the function that it returns is called.
func (g *connGuard) watch() (end func()) {
	if g == nil {
		return func() {}
	}
	n, _ := acknowledged(g.conn)
	g.before.Store(n)
	timer := time.AfterFunc(g.timeout, g.check) // not kept: most streams are quiet
	return func() { timer.Stop() }
}

func (g *connGuard) check() {
	if n, ok := acknowledged(g.conn); ok && n-g.before.Load() < progressBytes {
		_ = g.conn.Close()
	}
}
