package hub

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// recycler serves further requests on connections whose stream has ended as planned. Their streams were
// announced as keep-alive (SUB-27), so a client may put such a connection back into its pool and publish on it:
// closing it would lose that request.
type recycler struct {
	conns  chan net.Conn
	done   chan struct{} // closed by Close
	once   sync.Once
	server *http.Server
}

const (
	recycleQueue = 256             // connections waiting to be served; more are closed
	recycleIdle  = 2 * time.Minute // without a request; net/http counts the wait for the first one as its head
)

func newRecycler(h *Hub) *recycler {
	r := &recycler{conns: make(chan net.Conn, recycleQueue), done: make(chan struct{})}
	r.server = &http.Server{
		Handler: h.handler, ReadHeaderTimeout: recycleIdle, IdleTimeout: recycleIdle, MaxHeaderBytes: h.o.Limits.HeadBytes,
		ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	return r
}

// run serves until stop has been called.
func (r *recycler) run() { _ = r.server.Serve(r) }

// stop lets requests under way end, for a second, and closes what is left.
func (r *recycler) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if r.server.Shutdown(ctx) != nil {
		_ = r.server.Close()
	}
	for {
		select {
		case c := <-r.conns:
			_ = c.Close()
		default:
			return
		}
	}
}

// give takes over a connection, or closes it. It never waits.
func (r *recycler) give(c net.Conn) {
	select {
	case <-r.done:
		_ = c.Close()
		return
	default:
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		_ = c.Close()
		return
	}
	select {
	case r.conns <- c:
	default:
		_ = c.Close()
	}
}

// Accept hands a connection to the server; with Close and Addr it makes a net.Listener.
func (r *recycler) Accept() (net.Conn, error) {
	select {
	case c := <-r.conns:
		return c, nil
	case <-r.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (r *recycler) Close() error {
	r.once.Do(func() { close(r.done) })
	return nil
}

// Addr is nobody's address: the connections come from another listener.
func (r *recycler) Addr() net.Addr { return &net.TCPAddr{} }
