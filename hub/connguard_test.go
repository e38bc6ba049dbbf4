package hub

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Stream opens a stream over cleartext HTTP/2 on a connection of its own, with windows that never close, and
// leaves the connection to be read, or not, by the caller.
func (n *node) h2Stream(query string) net.Conn {
	n.t.Helper()
	conn := n.dial()
	_ = conn.(*net.TCPConn).SetReadBuffer(8 << 10)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		n.t.Fatal(err)
	}
	f := http2.NewFramer(conn, conn)
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/.well-known/mercure?" + query}} {
		if err := enc.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			n.t.Fatal(err)
		}
	}
	const window = 1<<31 - 1<<17
	for _, err := range []error{
		f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}),
		f.WriteWindowUpdate(0, window),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}),
	} {
		if err != nil {
			n.t.Fatal(err)
		}
	}
	return conn
}

// Covers: SUB-35.
func TestHTTP2ClientWithoutProgress(t *testing.T) {
	for name, step := range map[string]time.Duration{"reads nothing": 0, "reads a little": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			const timeout = time.Second
			n := startNode(t, func(o *Options) { o.WriteTimeout = timeout })
			conn := n.h2Stream("topic=a")
			eventually(t, "open", func() bool { return testutil.ToFloat64(n.metrics.Subscribers) == 1 })
			done := make(chan struct{})
			go func() {
				defer close(done)
				b := make([]byte, 50)
				for step > 0 {
					time.Sleep(step)
					if _, err := conn.Read(b); err != nil {
						return
					}
				}
			}()
			for range 8 {
				n.publish("topic", "a", "data", strings.Repeat("x", 500<<10))
			}
			start := time.Now()
			eventually(t, "cut", func() bool { return testutil.ToFloat64(n.metrics.Subscribers) == 0 })
			if took := time.Since(start); took > 15*timeout { // of a busy machine; without the guard it is never cut
				t.Errorf("cut after %v", took)
			}
			_ = conn.Close()
			<-done
		})
	}
}
