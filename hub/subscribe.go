package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// heartbeat is a comment: it opens a stream and breaks its silence (SUB-26, SUB-28).
var heartbeat = []byte(":\n")

// streamRequest is what a request for a stream turned out to ask for.
type streamRequest struct {
	selectors []topic.Selector
	matchers  []topic.Matcher
	grant     *auth.Grant
	cursor    string
	asked     bool
}

// subscribe answers GET, HEAD and QUERY: authorisation, selectors, limits, then the stream.
func (h *Hub) subscribe(w http.ResponseWriter, r *http.Request) error {
	req, err := h.readStreamRequest(w, r)
	if err != nil {
		return err
	}
	if h.bans.away(req.grant.Subject, time.Now()) {
		return h.sendAway(w, r)
	}
	if h.Draining() {
		return h.refuseForNow(w, r, req, unavailable("draining", "this node is shutting down", nil))
	}
	// Whether the transport is ready, that is takes publications, does not matter here: a stream is served as long as
	// the log can be read. What cannot be read refuses it below, for now.
	if h.following() == nil {
		return h.refuseForNow(w, r, req, notReady())
	}
	if r.Method == http.MethodHead {
		return h.head(w, r, req)
	}
	addr := clientAddr(r)
	if err := h.admit(addr, req.grant.Holder()); err != nil {
		return h.refuseForNow(w, r, req, err)
	}
	if err := h.stream(w, r, req); err != nil { // before the stream began
		return h.refuseForNow(w, r, req, err)
	}
	return nil
}

func (h *Hub) readStreamRequest(w http.ResponseWriter, r *http.Request) (*streamRequest, error) {
	if r.Method == spec.MethodQuery && r.ContentLength > h.o.Limits.BodyBytes {
		return nil, h.bodyTooLarge()
	}
	grant, err := h.o.Authorizer.Authorize(r, spec.ActionSubscribe)
	if err != nil {
		return nil, err
	}
	query, body, err := h.parameters(w, r)
	if err != nil {
		return nil, err
	}
	req := &streamRequest{grant: grant}
	if req.selectors, err = spec.ReadSelectors(append(query, body...), h.o.Limits, !h.o.NoClassic); err != nil {
		return nil, err
	}
	req.matchers = make([]topic.Matcher, len(req.selectors))
	for i, sel := range req.selectors {
		if req.matchers[i], err = h.compiled.Compile(sel); err != nil {
			return nil, h.selectorProblem(sel, err)
		}
	}
	req.cursor, req.asked = h.cursor(r, query, body)
	return req, nil
}

// selectorProblem refuses a selector that does not compile, in our words (SUB-17, MAT-06, MAT-13).
func (h *Hub) selectorProblem(sel topic.Selector, err error) *spec.Problem {
	p := &spec.Problem{Status: http.StatusBadRequest, Reason: "invalid_selector", Cause: err}
	if errors.Is(err, topic.ErrLimit) {
		p.Reason = "selector_limit"
		p.Detail = fmt.Sprintf("the parameter %q has a selector that is too complex: at most %d bytes and %d variables or groups are allowed: %s",
			parameterOf(sel.Kind), h.o.Limits.SelectorBytes, h.o.Limits.Variables, excerpt(sel.Pattern))
		return p
	}
	p.Detail = fmt.Sprintf("the parameter %q has a selector that is not a valid URL pattern, or one that is not supported: %s", parameterOf(sel.Kind), excerpt(sel.Pattern))
	return p
}

// parameterOf names the parameter that selectors of kind k come in.
func parameterOf(k topic.Kind) string {
	switch k {
	case topic.URLPattern:
		return spec.ParamMatchURLPattern
	case topic.Exact:
		return spec.ParamMatch
	default:
		return spec.FieldTopic
	}
}

// excerpt quotes the beginning of a selector, which is clean text, for the client that sent it.
func excerpt(pattern string) string {
	const most = 80
	for i := range pattern { // a whole rune
		if i >= most {
			return strconv.Quote(pattern[:i]) + "…"
		}
	}
	return strconv.Quote(pattern)
}

// head answers HEAD: the head of the stream that GET would open (SUB-05).
func (h *Hub) head(w http.ResponseWriter, r *http.Request, req *streamRequest) error {
	res, err := h.resume(r.Context(), req.cursor, req.asked)
	if err != nil {
		return err
	}
	streamHead(w.Header(), r)
	h.announce(w.Header(), res)
	w.WriteHeader(http.StatusOK)
	return nil
}

// stream joins an admitted subscriber, answers, and serves it. An error means that nothing has been
// written and that the subscriber is forgotten.
func (h *Hub) stream(w http.ResponseWriter, r *http.Request, req *streamRequest) error {
	s := &subscriber{
		hub: h, selectors: req.selectors, matchers: req.matchers, grant: req.grant,
		addr: clientAddr(r), requestID: requestID(r.Context()), wake: make(chan struct{}, 1),
	}
	began, added := false, false
	defer func() {
		if began {
			return
		}
		h.fanout.leave(s) // refused, or a panic on the way
		if added {
			h.removeInterest(s.selectors)
		}
		h.dismiss(s.addr, s.grant.Holder())
	}()
	if err := h.enter(); err != nil {
		return err
	}
	staying := false
	defer func() {
		if !staying {
			h.streams.Done()
		}
	}()
	// Registering takes no longer than interestPatience; a look at the log ends when the client leaves.
	ctx, cancel := h.lifeOf(), func() {} //nolint:contextcheck // see above
	if req.asked {
		ctx, cancel = h.within(r.Context())
	}
	defer cancel()
	from, err := h.addInterest(ctx, s.selectors)
	if err != nil {
		return err
	}
	added = true
	// From `from` on everything will reach this node, but the follower need not have come so far: its head may be
	// anywhere before or behind. What is at or before either is read from the log, if the client lacks it. The
	// client's own position stays the floor even when it is ahead of both (REC-22).
	upto := max(from, h.fanout.join(s))
	res, err := h.resume(ctx, req.cursor, req.asked)
	if err != nil {
		return err
	}
	s.pos, s.fromEarliest = res.after, res.echo == spec.Earliest
	s.resuming = res.asked && !res.live
	if res.live {
		// What was acknowledged before the request is not for it, even if the follower has yet to bring it.
		s.pos = max(upto, transport.Position(h.fanout.appended.Load()))
	}
	s.past.floor = s.pos
	s.endAt, s.endWhy = h.lifetime(req.grant.Expires)
	if err := h.openSink(w, r, s, res); err != nil {
		return err
	}
	began = true
	if h.presence != nil && s.endingWhy() == endNone {
		h.presence.join(s)
	}
	h.metrics.SubscribersOpened.Inc()
	if res.asked {
		h.metrics.Resumes.WithLabelValues(res.outcome).Inc()
	}
	h.log.Debug("stream opened", "request_id", s.requestID, "selectors", len(s.selectors), "asked", res.asked,
		"outcome", res.outcome, "position", s.pos, "anonymous", s.grant.Anonymous)
	if h.drain.phase.Load() == phaseEmptying || h.stopping() { // the end came meanwhile and may have missed it
		s.end(endDrain)
	}
	if h.bans.away(s.grant.Subject, time.Now()) { // likewise
		s.end(endDisconnected)
	}
	staying = true
	cancel()
	h.stay(r, s, upto)
	return nil
}

func notReady() error {
	return unavailable("not_ready", "this node does not follow the log", nil)
}

// enter counts a stream in.
func (h *Hub) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.interest == nil || h.stopped {
		return notReady()
	}
	h.streams.Add(1)
	return nil
}

// within is a context that ends with the request or the hub.
func (h *Hub) within(request context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(request)
	unlink := context.AfterFunc(h.lifeOf(), cancel)
	return ctx, func() { unlink(); cancel() }
}

// interestPatience is how long a stream waits for the transport to take note of its selectors.
const interestPatience = 5 * time.Second

// addInterest tells the transport what a stream wants; the answer is the position from which it will come.
func (h *Hub) addInterest(ctx context.Context, selectors []topic.Selector) (transport.Position, error) {
	in := h.following()
	if in == nil {
		return 0, notReady()
	}
	ctx, cancel := context.WithTimeout(ctx, interestPatience)
	defer cancel()
	return in.Add(ctx, selectors...)
}

// removeInterest undoes addInterest.
func (h *Hub) removeInterest(selectors []topic.Selector) {
	h.mu.Lock()
	in := h.interest
	h.mu.Unlock()
	in.Remove(selectors...)
}

// lifetime is when a stream has to end: a random 80 to 100 % of the lifetime, so that reconnections
// spread out (SUB-31), or just before the token expires, whichever comes first (SUB-32 … SUB-34).
func (h *Hub) lifetime(expires time.Time) (time.Time, endReason) {
	var at time.Time
	why := endNone
	now := time.Now()
	if l := h.o.MaxLifetime; l > 0 {
		at, why = now.Add(l-rand.N(l/5+1)), endLifetime //nolint:gosec // spreads load, keeps no secret
	}
	if expires.IsZero() {
		return at, why
	}
	margin := min(expiryMargin, expires.Sub(now)/4) // never so early that the client would reconnect in a loop
	if end := expires.Add(-margin); at.IsZero() || end.Before(at) {
		at, why = end, endExpired
	}
	return at, why
}

// expiryMargin is how long before exp a stream ends: within the last second, with room to say so.
const expiryMargin = 500 * time.Millisecond

// streamHead sets the head of a stream (SUB-27).
func streamHead(head http.Header, r *http.Request) {
	head.Set("Content-Type", "text/event-stream")
	head.Set("Cache-Control", "private, no-cache, no-store, must-revalidate, max-age=0")
	head.Set("Pragma", "no-cache")
	head.Set("Expires", "0")
	head.Set("X-Accel-Buffering", "no")
	if r.ProtoMajor == 1 && r.ProtoMinor >= 1 {
		head.Set("Connection", "keep-alive")
	}
	harden(head)
}

// openSink writes the head and the first bytes, before any event (SUB-28, SSE-W12). A plain HTTP/1.x
// connection is taken over where shards can serve it.
func (h *Hub) openSink(w http.ResponseWriter, r *http.Request, s *subscriber, res resumption) error {
	streamHead(w.Header(), r)
	h.announce(w.Header(), res)
	opening := append([]byte(nil), heartbeat...)
	if h.o.Retry > 0 {
		opening = appendRetry(opening, h.o.Retry)
	}
	s.lastSent = time.Now()
	if h.takesOver(r) {
		if err := h.takeOver(w, r, s, opening); !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	k := newStreamSink(w, r, s)
	s.sink = k
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		s.watchAcks(c)
	}
	w.WriteHeader(http.StatusOK)
	if err := k.send(opening, len(opening)); err != nil { // the head may be on its way: too late for another answer
		s.end(endClient)
	}
	return nil
}

// takesOver reports whether the connection of a stream is to be taken over.
func (h *Hub) takesOver(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.TLS == nil && h.shards.available() && !h.noHijack
}

func (h *Hub) takeOver(w http.ResponseWriter, r *http.Request, s *subscriber, opening []byte) error {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("take over the connection: %w", err)
	}
	chunk := r.ProtoAtLeast(1, 1)
	head := w.Header()
	reuse := h.recycle
	// A request sent ahead would be lost, and a body that nobody has read would be taken for a request.
	unread := r.Method != spec.MethodQuery && r.ContentLength != 0
	if !chunk || r.Close || unread || rw.Reader.Buffered() > 0 {
		reuse = nil
		head.Set("Connection", "close")
	}
	head.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	var b bytes.Buffer
	b.Grow(1 << 10) // more than a head commonly takes
	if chunk {
		head.Set("Transfer-Encoding", "chunked")
		b.WriteString("HTTP/1.1 200 OK\r\n")
	} else {
		b.WriteString("HTTP/1.0 200 OK\r\n")
	}
	_ = head.Write(&b)
	b.WriteString("\r\n")

	k := newH1Sink(conn, s, chunk, reuse)
	s.sink = k
	s.watchAcks(conn)
	if err := k.send(appendRaw(b.Bytes(), opening, chunk), b.Len()); err != nil {
		s.end(endClient)
	}
	return nil
}

// refuseForNow refuses a stream that cannot be served at the moment. An EventSource gives up for good on
// anything but 200, so it gets an empty stream and a later time to come back (SUB-41). Whoever sends a QUERY and says
// that it wants an event stream reads it likewise.
func (h *Hub) refuseForNow(w http.ResponseWriter, r *http.Request, req *streamRequest, err error) error {
	p := asProblem(err)
	temporary := p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests
	if !temporary || !h.o.SoftRefusal || r.Method == http.MethodHead || !accepts(r, "text/event-stream") {
		return p
	}
	h.metrics.SoftRefused.Inc()
	h.metrics.Refused.WithLabelValues("subscribe", p.Reason).Inc()
	h.log.InfoContext(r.Context(), "stream refused softly", "request_id", requestID(r.Context()), "reason", p.Reason,
		"cause", causeText(p.Cause))
	// The cursor is answered truthfully or, when that cannot be found out, not at all.
	if res, err := h.resume(r.Context(), req.cursor, req.asked); err == nil {
		h.announce(w.Header(), res)
	}
	streamHead(w.Header(), r)
	body := append([]byte("retry: "), strconv.FormatInt(h.comeBack(p).Milliseconds(), 10)...)
	body = append(body, '\n')
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body)
	return nil
}

// comeBack is after which time a client that is refused for now should come back. Where only this node is on its way
// out, another one takes the client as soon as the load balancer picks it, so it does not wait long.
func (h *Hub) comeBack(p *spec.Problem) time.Duration {
	if p.Reason == "draining" && h.drain.elsewhere.Load() {
		usual := max(h.o.Retry, time.Second)
		return usual + rand.N(usual) //nolint:gosec // spreads load, keeps no secret
	}
	return jitter(softRetry(h.o.Retry))
}

// softRetry is when a client that is refused for now should come back, before jitter.
func softRetry(retry time.Duration) time.Duration { return max(3*retry, 10*time.Second) }
