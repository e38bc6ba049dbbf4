package hub

import (
	"net/http"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// A stream over HTTP/2 or TLS keeps its handler's goroutine for as long as it lasts, and with it the stack that this has
// needed: opening a stream takes 8 KB, waiting takes 2. So the stream is opened by a goroutine that lasts no longer than
// that, and the handler waits with next to nothing on its stack. What it writes from there makes the stack grow again, but
// the garbage collector halves it while the stream waits. To write aside, too, was tried: that took a quarter more time for
// a delivery.

// shallow is the outermost wrapper: streams that keep their goroutine are opened aside, and then wait here.
type shallow struct {
	hub  *Hub
	next http.Handler
}

func (o *shallow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := o.hub
	if r.URL.Path != h.o.Path || r.Method != http.MethodGet && r.Method != spec.MethodQuery || h.takesOver(r) {
		o.next.ServeHTTP(w, r)
		return
	}
	if c := serveAside(o.next, w, r); c != nil {
		defer h.streams.Done()
		c.run() //nolint:contextcheck // it has the request's
	}
}

// serveAside answers r; if that is a stream, it returns its consumer. Of the request nothing stays on the stack.
func serveAside(next http.Handler, w http.ResponseWriter, r *http.Request) (c *consumer) {
	aside(func() {
		r, in := receive(r)
		in.aside = true
		next.ServeHTTP(w, r)
		c = in.stream
	})
	return c
}

// stay serves a stream that has begun until it ends, or leaves that to shallow.
func (h *Hub) stay(r *http.Request, s *subscriber, upto transport.Position) {
	if in := incomingOf(r.Context()); in != nil && in.aside {
		in.stream = s.consume(in.Context, upto) //nolint:contextcheck // as net/http knows it: what the hub has found out can go
		return
	}
	defer h.streams.Done()
	s.consume(r.Context(), upto).run() //nolint:contextcheck // it has it
}

// aside runs f in a goroutine of its own and waits for it. A panic of f becomes the caller's.
func aside(f func()) {
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		f()
	}()
	if v := <-done; v != nil {
		panic(v)
	}
}
