package hub

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/google/uuid"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// incoming is what the hub finds out about a request, and the request's context at the same time: one allocation for
// all of it. It belongs to the request's handlers; streams keep none of it.
type incoming struct {
	context.Context            //nolint:containedctx // it is one
	id              string     // ours, for the answer and the log
	client          netip.Addr // whom the caps count, see perClient; invalid until it is resolved, and for a unix socket
	url             url.URL    // the request's, as the client sees it
	aside           bool       // see Hub.aside
	stream          *consumer  // of a stream that has begun and is to be served by shallow
}

type incomingKey struct{}

// Value returns the incoming itself for its key; see context.Context.
func (in *incoming) Value(key any) any {
	if key == (incomingKey{}) {
		return in
	}
	return in.Context.Value(key)
}

// incomingOf returns what is known of a request, nil if it did not come through receive.
func incomingOf(ctx context.Context) *incoming {
	in, _ := ctx.Value(incomingKey{}).(*incoming)
	return in
}

// receive returns a copy of r that carries an incoming, which handlers may change; r itself if it does already.
func receive(r *http.Request) (*http.Request, *incoming) {
	if in := incomingOf(r.Context()); in != nil {
		return r, in
	}
	in := &incoming{Context: r.Context(), url: *r.URL}
	r = r.WithContext(in) //nolint:contextcheck // in is of that context
	r.URL = &in.url
	return r, in
}

// withRequestID gives each request an id of ours and puts it into the answer. One sent by the client is
// ignored: it could be anything.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, in := receive(r)
		in.id = newRequestID()
		w.Header().Set(spec.HeaderRequestID, in.id)
		next.ServeHTTP(w, r)
	})
}

// newRequestID makes a random UUID (version 4). It names a request and keeps no secret.
func newRequestID() string {
	var u uuid.UUID
	for i, half := range [2]uint64{rand.Uint64(), rand.Uint64()} { //nolint:gosec // see above
		for j := range 8 {
			u[8*i+j] = byte(half >> (8 * j)) //nolint:gosec // one byte at a time
		}
	}
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u.String()
}

func requestID(ctx context.Context) string {
	if in := incomingOf(ctx); in != nil {
		return in.id
	}
	return ""
}
