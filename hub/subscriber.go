package hub

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// subscriber is one open stream: a position in the log and a short queue of frames that come after it.
//
//	joined ─► catching up ─► live ─► ended
//	              ▲            │
//	              └── lagged ──┘   the queue overflowed: drop it, read the log from the position
//
// While it catches up, and on sinks that need one for good, it has a goroutine (run). A live plain
// HTTP/1.1 stream has none: it belongs to a shard. Whoever has it is called its consumer.
type subscriber struct {
	// static after construction
	hub       *Hub
	selectors []topic.Selector
	matchers  []topic.Matcher
	grant     *auth.Grant
	addr      netip.Addr
	requestID string
	sink      sink
	endAt     time.Time // zero = never
	endWhy    endReason // what endAt stands for
	// fromEarliest: the client knows that something may be missing before the first event.
	fromEarliest bool

	// guarded by fanout.mu
	round uint64
	slots []watchSlot

	ending atomic.Int32  // endReason once somebody asked the stream to end
	events atomic.Uint32 // what the poller saw, for the shard

	// guarded by mu
	mu     sync.Mutex
	queue  []*frame
	queued int // bytes in queue
	lagged bool
	ready  bool          // the consumer has been told and has not looked yet
	shard  *shard        // the consumer; nil = the goroutine that listens to wake
	wake   chan struct{} // capacity 1; nil while a shard has the stream

	// owned by the consumer
	pos      transport.Position // of the last update whose bytes were begun, or before which nothing is wanted
	lastSent time.Time
	shardState
}

// endReason says why a stream ends; its name is a metric label.
type endReason int32

const (
	endNone        endReason = iota
	endClient                // the client went away
	endLifetime              // --max-connection-lifetime
	endExpired               // the token's exp
	endDrain                 // the node shuts down
	endStalled               // no progress within the write time-out (SUB-35)
	endTrimmed               // its position has left the log (SUB-36)
	endUnavailable           // the log could not be read for too long
	endFailed                // a defect, contained
)

// String returns the label.
func (r endReason) String() string {
	return [...]string{
		"none", "client", "lifetime", "expired", "drain", "stalled", "trimmed", "unavailable", "failed",
	}[r]
}

// graceful reports whether the client is there to be told when to come back.
func (r endReason) graceful() bool {
	return r != endClient && r != endStalled && r != endFailed
}

// offer queues f without blocking. A frame that does not fit marks the subscriber as lagged and empties
// the queue; one frame always fits (SUB-36). Called under the fan-out lock.
func (s *subscriber) offer(f *frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lagged {
		return
	}
	if len(s.queue) > 0 && s.queued+f.size() > s.hub.o.SubscriberBuffer {
		s.lagged = true
		s.queue, s.queued = nil, 0
		s.hub.metrics.Lagged.Inc()
	} else {
		s.queue = append(s.queue, f)
		s.queued += f.size()
	}
	s.notifyLocked()
}

// fallBehind drops the queue: the subscriber goes on from the log. Called under the fan-out lock.
func (s *subscriber) fallBehind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lagged = true
	s.queue, s.queued = nil, 0
	s.notifyLocked()
}

// notifyLocked tells the consumer once that there is something to look at.
func (s *subscriber) notifyLocked() {
	if s.ready {
		return
	}
	s.ready = true
	if s.shard != nil {
		s.shard.enqueue(s)
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// notify is notifyLocked for callers without the lock.
func (s *subscriber) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notifyLocked()
}

// end asks the consumer to end the stream after its last whole event. The first reason counts.
func (s *subscriber) end(why endReason) {
	if s.ending.CompareAndSwap(int32(endNone), int32(why)) {
		s.notify()
	}
}

func (s *subscriber) endingWhy() endReason { return endReason(s.ending.Load()) }

// resetQueue empties the queue and clears the lagged mark. Called under the fan-out lock.
func (s *subscriber) resetQueue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue, s.queued, s.lagged = nil, 0, false
}

// take moves queued frames worth about maxBytes (at least one) to dst. It reports whether the
// subscriber has lagged, in which case there are none.
func (s *subscriber) take(dst []*frame, maxBytes int) (frames []*frame, lagged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, bytes := 0, 0
	for n < len(s.queue) && (n == 0 || bytes+s.queue[n].size() <= maxBytes) {
		bytes += s.queue[n].size()
		n++
	}
	dst = append(dst, s.queue[:n]...)
	s.queued -= bytes
	switch rest := len(s.queue) - n; {
	case rest > 0:
		copy(s.queue, s.queue[n:])
		clear(s.queue[rest:])
		s.queue = s.queue[:rest]
	case cap(s.queue) > 16: // an idle stream keeps nothing big
		s.queue = nil
	default:
		clear(s.queue)
		s.queue = s.queue[:0]
	}
	return dst, s.lagged
}

// listen lets the next event wake the goroutine again: what happens from here on is not missed.
func (s *subscriber) listen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = false
}

// wants reports whether a live frame goes to the client: late ones always, others only if they are
// beyond the position.
func (s *subscriber) wants(f *frame) bool { return f.late || f.pos > s.pos }

// selects reports whether an update read from the log is for this subscriber, with the grant applied
// afresh (REC-07).
func (s *subscriber) selects(u *spec.Update) bool {
	if u.Private && !s.grant.Allows(u.Topics) {
		return false
	}
	for _, m := range s.matchers {
		for _, t := range u.Topics {
			if m.Match(t) {
				return true
			}
		}
	}
	return false
}

// run consumes the stream from `upto`, the end of what is only in the log, until it ends or a shard
// takes it over. It blocks; the caller's goroutine is the consumer.
func (s *subscriber) run(ctx context.Context, upto transport.Position) {
	why := s.follow(ctx, upto)
	if why == endNone {
		return // a shard has it
	}
	s.finish(why)
}

func (s *subscriber) follow(ctx context.Context, upto transport.Position) endReason {
	out := newWriter(s)
	for {
		if why := s.catchUp(ctx, out, upto); why != endNone {
			return why
		}
		if s.hub.adopt(s) {
			return endNone
		}
		why, lagged := s.live(ctx, out)
		if !lagged {
			return why
		}
		upto = s.hub.fanout.rejoin(s)
	}
}

// catchUp reads the log from the position to upto at the speed of the client. It returns endNone once
// everything up to there has been written.
func (s *subscriber) catchUp(ctx context.Context, out *writer, upto transport.Position) endReason {
	patience := retryLog{give: logPatience}
	seen := 0
	for s.pos < upto {
	scan:
		for e, err := range s.hub.o.Transport.Scan(ctx, s.pos, upto, s.selectors) {
			if err != nil {
				switch {
				case ctx.Err() != nil:
					return s.contextReason()
				case errors.Is(err, transport.ErrTrimmed):
					if s.fromEarliest && out.count == 0 && s.toEarliest(ctx) {
						patience.again = true
						break scan
					}
					return endTrimmed
				}
				if sendErr := out.flush(); sendErr != nil {
					return sinkReason(sendErr)
				}
				s.hub.log.Warn("reading the log failed", "err", err, "position", s.pos, "request_id", s.requestID)
				if !patience.wait(ctx, s) {
					return s.why(endUnavailable)
				}
				break
			}
			patience.reset()
			if s.selects(e.Update) {
				s.hub.metrics.Replayed.Inc()
				if err := out.entry(e); err != nil {
					return sinkReason(err)
				}
			}
			if e.Pos > s.pos {
				s.pos = e.Pos
			}
			seen++
			if why, err := s.onTheWay(out, seen); why != endNone || err != nil {
				return why
			}
		}
		if patience.failed() {
			continue
		}
		s.pos = max(s.pos, upto) // what is not there any more was deleted singly
	}
	if err := out.flush(); err != nil {
		return sinkReason(err)
	}
	return endNone
}

// toEarliest moves the position of a subscriber that was told `earliest` to what is retained now.
func (s *subscriber) toEarliest(ctx context.Context) bool {
	span, err := s.hub.o.Transport.Span(ctx)
	if err != nil || span.First == 0 || span.First-1 <= s.pos {
		return false
	}
	s.pos = span.First - 1
	return true
}

// onTheWay looks, between two entries of a long catch-up, after what a live stream has timers for.
func (s *subscriber) onTheWay(out *writer, seen int) (endReason, error) {
	if s.ending.Load() == 0 && seen%64 != 0 {
		return endNone, nil
	}
	now := time.Now()
	if !s.endAt.IsZero() && !now.Before(s.endAt) {
		s.end(s.endWhy)
	}
	if why := s.endingWhy(); why != endNone {
		if err := out.flush(); err != nil {
			return sinkReason(err), err
		}
		return why, nil
	}
	if hb := s.hub.o.Heartbeat; hb > 0 && now.Sub(s.lastSent) >= hb {
		if err := out.comment(); err != nil {
			return sinkReason(err), err
		}
	}
	return endNone, nil
}

// live writes what is offered until the stream ends or the subscriber lags.
func (s *subscriber) live(ctx context.Context, out *writer) (why endReason, lagged bool) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var frames []*frame
	for {
		s.listen()
		frames, lagged = s.take(frames[:0], out.batch())
		for _, f := range frames {
			if err := out.frame(f); err != nil {
				return sinkReason(err), false
			}
		}
		clear(frames)
		if err := out.flush(); err != nil {
			return sinkReason(err), false
		}
		switch {
		case lagged:
			return endNone, true
		case len(frames) > 0:
			continue
		case s.endingWhy() != endNone:
			return s.endingWhy(), false
		}
		timer.Reset(time.Until(s.nextDue()))
		select {
		case <-s.wake:
		case <-ctx.Done():
			return s.contextReason(), false
		case <-timer.C:
			now := time.Now()
			if !s.endAt.IsZero() && !now.Before(s.endAt) {
				s.end(s.endWhy)
			} else if s.heartbeatDue(now) {
				if err := out.comment(); err != nil {
					return sinkReason(err), false
				}
			}
		}
	}
}

// nextDue is when the stream next needs attention without being offered anything.
func (s *subscriber) nextDue() time.Time {
	due := s.endAt
	if s.hub.o.Heartbeat > 0 {
		if hb := s.lastSent.Add(s.hub.o.Heartbeat - s.heartbeatJitter()); due.IsZero() || hb.Before(due) {
			due = hb
		}
	}
	if due.IsZero() {
		due = time.Now().Add(time.Hour)
	}
	return due
}

func (s *subscriber) heartbeatDue(now time.Time) bool {
	return s.hub.o.Heartbeat > 0 && !now.Before(s.lastSent.Add(s.hub.o.Heartbeat-s.heartbeatJitter()))
}

// heartbeatJitter takes up to a fifth off the interval. It is derived from the last write, so that it
// needs no memory and is the same whenever it is asked for.
func (s *subscriber) heartbeatJitter() time.Duration {
	span := s.hub.o.Heartbeat / 5
	if span <= 0 {
		return 0
	}
	x := uint64(s.lastSent.UnixNano()) * 0x9E3779B97F4A7C15 >> 1
	return time.Duration(x % uint64(span))
}

// why returns the reason somebody gave for ending the stream, or fallback.
func (s *subscriber) why(fallback endReason) endReason {
	if w := s.endingWhy(); w != endNone {
		return w
	}
	return fallback
}

// contextReason tells a client that left from a hub that stops.
func (s *subscriber) contextReason() endReason {
	if s.hub.stopping() {
		return s.why(endDrain)
	}
	return endClient
}

// finish ends the body and forgets the subscriber. Called once, by the consumer.
func (s *subscriber) finish(why endReason) {
	if why.graceful() {
		s.sink.close(s.hub.farewell())
	} else {
		s.sink.abort()
	}
	s.hub.forget(s, why)
}

// logPatience is how long a subscriber waits for a log that cannot be read.
const logPatience = 15 * time.Second

// retryLog spaces attempts to read a log that fails.
type retryLog struct {
	give  time.Duration
	since time.Time
	step  time.Duration
	again bool
}

func (r *retryLog) reset() { r.since, r.step = time.Time{}, 0 }

// failed reports, once, whether the last pass ended in an error.
func (r *retryLog) failed() bool {
	again := r.again
	r.again = false
	return again
}

// wait sleeps before the next attempt; it returns false when patience or the stream has ended.
func (r *retryLog) wait(ctx context.Context, s *subscriber) bool {
	now := time.Now()
	if r.since.IsZero() {
		r.since = now
	}
	if now.Sub(r.since) > r.give || s.endingWhy() != endNone {
		return false
	}
	r.again = true
	r.step = min(max(2*r.step, 50*time.Millisecond), time.Second)
	t := time.NewTimer(r.step)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
