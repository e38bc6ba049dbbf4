// Package hub is the Mercure hub: an HTTP handler that takes publications, appends them to a
// transport's log, and streams every entry to the subscribers whose selectors match.
//
// A publication is authorised, validated and appended; its publisher never touches a subscriber. One
// follower goroutine receives the log in order and offers each entry, encoded once, to the short queues
// of the subscribers it is for. A subscriber is a position in the log: when its queue overflows, the
// queue is dropped and the log is read again from there.
package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/hub/metrics"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
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
	// PublicOrigins are the origins (scheme://host[:port]) under which clients reach the hub, beside PublicURL's; what
	// is sent to others is refused: 421 (DIS-06). nil = whatever it was sent to.
	PublicOrigins []string

	NoClassic         bool   // serve draft-08 alone (G-22)
	DefaultGeneration string // "classic" or "draft-08", where a request says neither (G-17); empty = classic
	BothEvents        bool   // tell of each subscription in both generations' forms, not in its own alone (G-15)
	// Metadata is published for OAuth clients, and challenges point there; nil = no metadata (DIS-03, DIS-08). New takes
	// an empty Resource to be PublicURL and sets Subscriptions.
	Metadata *spec.ResourceMetadata

	Directory   transport.Directory // who is subscribed, on all nodes; nil = no active subscriptions: no events, no API (ACT-01)
	RejoinGrace time.Duration       // how long a subscriber with a token subject may be away without being told of, 0 = off

	Limits                   spec.Limits
	MaxConnections           int // streams at a time, 0 = no limit
	MaxConnectionsPerIP      int // 0 = no limit; an IPv6 client is its /64
	MaxConnectionsPerSubject int // per token subject (LIM-10), 0 = no limit
	SoftRefusal              bool
	ReplayOnUnknownCursor    bool // replay everything when the cursor is unknown (REC-13)
	LegacyCursorParams       bool // REC-04

	Heartbeat        time.Duration // 0 = none
	Retry            time.Duration // centre of the jittered retry field, 0 = none
	MaxLifetime      time.Duration // of a stream, jittered downwards; 0 = none
	WriteTimeout     time.Duration // 0 = 5s
	SubscriberBuffer int           // bytes, 0 = 1 MiB
}

// Hub serves the protocol on one node. Use New, then Run beside an HTTP server with Handler. All
// methods are safe for concurrent use.
type Hub struct {
	// static after construction
	o           Options
	log         *slog.Logger
	metrics     *metrics.Metrics
	base        *url.URL
	namespace   *spec.Namespace
	public      publicOrigins // nil = all
	crossOrigin corsRules
	metadata    *metadata // nil = none is published
	compiled    *topic.Cache
	fanout      *fanout
	handler     http.Handler
	shards      shards
	recycler    *recycler
	replayed    replays
	presence    *presence     // nil without active subscriptions
	lists       chan struct{} // a place for each list that is being read
	answers     chan struct{} // a place for each list that is being written
	bodyTimeout time.Duration
	noHijack    bool // tests: every stream keeps its handler, no goroutine waits for a descriptor

	drain      drainState
	publishing atomic.Int64 // publications being appended
	published  atomic.Int64 // when the last one came, in nanoseconds since 1970
	bans       bans

	// guarded by mu
	mu       sync.Mutex
	interest transport.Interest // nil until the follower is established
	stopped  bool               // no new streams
	ctx      context.Context    //nolint:containedctx // ends with Run; streams taken over from handlers live in it
	streams  sync.WaitGroup     // goroutines of streams
	open     openStreams
}

// New checks o and makes a Hub.
func New(o Options) (*Hub, error) {
	if o.Transport == nil || o.Authorizer == nil {
		return nil, errors.New("hub: Transport and Authorizer are required")
	}
	if o.Path == "" {
		o.Path = spec.DefaultHubPath
	}
	if !strings.HasPrefix(o.Path, "/") || strings.ContainsAny(o.Path, "{}*?# %") {
		return nil, fmt.Errorf("hub: path %q: want an absolute path without wildcards, query or escapes", o.Path)
	}
	if g := o.DefaultGeneration; g != "" && g != spec.Classic.Name && g != spec.Draft08.Name {
		return nil, fmt.Errorf("hub: default generation %q: want %s or %s", g, spec.Classic.Name, spec.Draft08.Name)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New(nil)
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 5 * time.Second
	}
	if o.SubscriberBuffer <= 0 {
		o.SubscriberBuffer = 1 << 20
	}
	o.Limits = o.Limits.WithDefaults()
	base := o.PublicURL
	if base == nil {
		base = &url.URL{Scheme: "http", Host: "localhost", Path: o.Path}
	}
	ns, err := spec.NewNamespace(base)
	if err != nil {
		return nil, fmt.Errorf("hub: public URL: %w", err)
	}
	h := &Hub{
		o: o, log: o.Logger, metrics: o.Metrics, base: base, namespace: ns,
		compiled: topic.NewCache(compiledSelectors, base, topic.Limits{PatternBytes: o.Limits.SelectorBytes, Variables: o.Limits.Variables}),
		fanout:   newFanout(o.Logger, o.Metrics), bodyTimeout: bodyTimeout,
		crossOrigin: newCORSRules(&o),
		open:        openStreams{perIP: map[netip.Addr]int{}, perSubject: map[auth.Holder]int{}},
	}
	if o.Directory != nil {
		h.presence = newPresence(h)
		h.lists, h.answers = make(chan struct{}, maxLists), make(chan struct{}, maxAnswers)
	}
	if h.public, err = parsePublicOrigins(o.PublicOrigins, o.PublicURL); err != nil {
		return nil, err
	}
	if h.metadata, err = newMetadata(h); err != nil {
		return nil, err
	}
	h.handler = h.routes()
	h.recycler = newRecycler(h)
	return h, nil
}

// compiledSelectors bounds the cache of compiled selectors (MAT-20).
const compiledSelectors = 8192

// Handler serves the hub path, what is below it, and the resource metadata; everything else is 404.
func (h *Hub) Handler() http.Handler { return h.handler }

// Run follows the log and serves streams until ctx ends; it returns when every goroutine of the hub
// has. Ready fails until the follower is established. Run may be called once.
func (h *Hub) Run(ctx context.Context) error {
	// The follower outlives ctx a little, so that streams end after what they were offered.
	follow, stopFollow := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFollow()
	interest, err := h.o.Transport.Follow(follow, h.fanout.deliver)
	if err != nil {
		return fmt.Errorf("hub: follow the log: %w", err)
	}
	if !h.noHijack {
		if err := h.shards.start(h); err != nil {
			return err
		}
	}
	span, err := h.o.Transport.Span(ctx)
	if err == nil {
		h.fanout.appended.Store(uint64(span.Last))
	}
	h.mu.Lock()
	h.interest, h.ctx = interest, ctx
	h.mu.Unlock()

	recycling := make(chan struct{})
	go func() {
		defer close(recycling)
		h.recycler.run()
	}()
	defer func() { h.recycler.stop(context.WithoutCancel(ctx)); <-recycling }()

	defer h.startPresence(context.WithoutCancel(ctx))()

	h.shards.run(ctx) // until ctx ends and the shards' streams have left
	<-ctx.Done()
	for _, s := range h.fanout.snapshot() {
		s.end(endDrain)
		if k, ok := s.sink.(*h1Sink); ok { // a goroutine may wait in a write
			_ = k.conn.SetWriteDeadline(time.Now().Add(stopPatience))
		}
	}
	h.mu.Lock()
	h.stopped = true
	h.mu.Unlock()
	h.streams.Wait()
	return nil
}

// endPatience is how long the hub takes at its end to tell that its subscriptions are over.
const endPatience = 10 * time.Second

// startPresence begins to keep the directory; the function it returns tells what is left to tell and ends that.
func (h *Hub) startPresence(ctx context.Context) (stop func()) {
	if h.presence == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { h.presence.run(ctx) })
	return func() {
		patience, done := context.WithTimeout(ctx, endPatience)
		defer done()
		h.presence.settle(patience, true)
		cancel()
		running.Wait()
	}
}

// Ready returns nil when the hub can serve both publishers and subscribers, or the reason why not.
func (h *Hub) Ready(ctx context.Context) error {
	if h.drain.notReady.Load() {
		return errors.New("draining or shutting down")
	}
	if h.following() == nil {
		return errors.New("not following the log yet")
	}
	if err := h.o.Transport.Ready(ctx); err != nil {
		return fmt.Errorf("transport: %w", err)
	}
	if h.presence != nil && !h.presence.ready() {
		return errors.New("the list of subscribers is not complete yet")
	}
	return nil
}

// following returns the follower's interest, nil when the hub does not run.
func (h *Hub) following() transport.Interest {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return nil
	}
	return h.interest
}

// stopping reports whether Run's context has ended.
func (h *Hub) stopping() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx != nil && h.ctx.Err() != nil
}

// lifeOf is the context that ends with Run. For callers that know that the hub runs.
func (h *Hub) lifeOf() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx
}

// adopt gives a live stream to a shard, if it can have one; its goroutine then has no more part in it.
func (h *Hub) adopt(s *subscriber) bool {
	k, ok := s.sink.(*h1Sink)
	return ok && h.shards.take(s, k)
}

// recycle serves further requests on a connection whose stream has ended as planned, unless the node is
// on its way out.
func (h *Hub) recycle(c net.Conn) {
	if h.Draining() || h.stopping() {
		_ = c.Close()
		return
	}
	h.recycler.give(c)
}

// spawn gives a stream that has fallen behind a goroutine of its own again.
func (h *Hub) spawn(s *subscriber) {
	h.streams.Go(func() {
		s.consume(h.ctx, h.fanout.rejoin(s)).run()
	})
}

// contain keeps a defect in one stream from ending the process.
func (h *Hub) contain(s *subscriber) {
	if v := recover(); v != nil {
		h.panicked("stream", v, s.requestID)
		if s.shardHas() { // which alone closes the connection
			s.end(endFailed)
			return
		}
		s.sink.abort()
		h.forget(s, endFailed)
	}
}

// farewell is what a stream ends with: when to come back (SUB-38).
func (h *Hub) farewell() []byte {
	if h.o.Retry <= 0 {
		return nil
	}
	return appendRetry(nil, h.o.Retry)
}

// appendRetry appends a retry field with a random value around d, at least a millisecond.
func appendRetry(dst []byte, d time.Duration) []byte {
	ms := max(jitter(d).Milliseconds(), 1)
	dst = append(dst, "retry: "...)
	return append(strconv.AppendInt(dst, ms, 10), '\n')
}

// jitter returns a random duration between half of d and one and a half.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d) //nolint:gosec // spreads load, keeps no secret
}
