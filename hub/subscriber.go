package hub

import (
	"net/netip"
	"slices"
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

	member atomic.Pointer[member] // what the directory knows it as; nil without active subscriptions and after the end
	ending atomic.Int32           // endReason once somebody asked the stream to end
	events atomic.Uint32          // what the poller saw, for the shard

	// guarded by mu
	mu        sync.Mutex
	queue     []*frame // in the order of their positions; only late ones when lagged
	queued    int      // bytes in queue, late ones apart
	lateBytes int      // of the late ones
	lagged    bool
	rewound   bool               // when lagged: what was beyond lagPos has left the log, something else took its place
	lagPos    transport.Position // when lagged: all up to here was taken or was not for it
	ready     bool               // the consumer has been told and has not looked yet
	shard     *shard             // the consumer; nil = the goroutine that listens to wake
	wake      chan struct{}      // capacity 1; nil while a shard has the stream

	// owned by the consumer
	pos      transport.Position // of the last update taken in the order of the log, or before which nothing is wanted
	past     past
	lastSent time.Time
	ack      ackWatch
	cutAt    time.Time // once the end was asked for: nothing more is waited for after this
	torn     bool      // a write was given up half way: the body cannot end as planned
	resuming bool      // what the log brings is the answer to the cursor that the stream was opened with
	shardState
}

// endReason says why a stream ends; its name is a metric label.
type endReason int32

const (
	endNone         endReason = iota
	endClient                 // the client went away
	endLifetime               // --max-connection-lifetime
	endExpired                // the token's exp
	endDrain                  // the node shuts down
	endStalled                // no progress within the write time-out (SUB-35)
	endTrimmed                // its position has left the log (SUB-36)
	endUnavailable            // the log could not be read for too long
	endFailed                 // a defect, contained
	endLate                   // too many late entries wait for it
	endDisconnected           // an operator sent it away
)

// String returns the label.
func (r endReason) String() string {
	return [...]string{
		"none", "client", "lifetime", "expired", "drain", "stalled", "trimmed", "unavailable", "failed", "late", "disconnected",
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
	if f.late {
		s.offerLate(f)
		return
	}
	if s.lagged {
		return
	}
	if s.queued > 0 && s.queued+f.size() > s.hub.o.SubscriberBuffer {
		s.fallBehindLocked(f.pos)
		return
	}
	s.queue = append(s.queue, f)
	s.queued += f.size()
	s.notifyLocked()
}

// fallBehind drops the queue: the subscriber goes on from the log, with the update at pos or an earlier
// one. Called under the fan-out lock.
func (s *subscriber) fallBehind(pos transport.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lagged {
		s.fallBehindLocked(pos)
	}
}

func (s *subscriber) fallBehindLocked(pos transport.Position) {
	var late []*frame // the log is read again, but perhaps not where these stand
	for _, f := range s.queue {
		if f.late {
			late = append(late, f)
		} else {
			pos = min(pos, f.pos)
		}
	}
	s.lagged, s.lagPos = true, pos-1
	s.queue, s.queued = late, 0
	s.hub.metrics.Lagged.Inc()
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

// shardHas reports whether a shard has the stream: then its connection is the shard's alone, which writes to the
// descriptor itself. Closing it from elsewhere could let another connection have that number.
func (s *subscriber) shardHas() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shard != nil
}

func (s *subscriber) endingWhy() endReason { return endReason(s.ending.Load()) }

// rewind makes the subscriber go on from the log with what now stands after pos, also if it is beyond already.
// Called under the fan-out lock.
func (s *subscriber) rewind(pos transport.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lagged {
		s.fallBehindLocked(pos + 1)
	}
	s.lagPos, s.rewound = min(s.lagPos, pos), true
	s.queue, s.lateBytes = nil, 0 // of what is gone
}

// resetQueue clears the lagged mark, so that frames are queued again, and moves the position to where the
// log has to be read from. Late frames stay. Called by the consumer, under the fan-out lock.
func (s *subscriber) resetQueue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pos = max(s.pos, s.lagPos)
	if s.rewound {
		s.pos = s.lagPos
		s.past.rewind(s.pos)
	}
	s.lagged, s.rewound = false, false
}

// take moves queued frames worth about maxBytes (at least one) to dst. It reports whether the subscriber has
// lagged; then there are only late frames that stand before what it will read from the log. Called by the
// consumer.
func (s *subscriber) take(dst []*frame, maxBytes int) (frames []*frame, lagged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, bytes, late := 0, 0, 0
	for n < len(s.queue) && (n == 0 || bytes+s.queue[n].size() <= maxBytes) {
		f := s.queue[n]
		if s.lagged && f.pos > max(s.pos, s.lagPos) {
			break
		}
		if bytes += f.size(); f.late {
			late += f.size()
		}
		n++
	}
	dst = append(dst, s.queue[:n]...)
	s.queued -= bytes - late
	s.lateBytes -= late
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

// selects reports whether an update read from the log is for this subscriber, with the grant applied
// afresh (REC-07).
func (s *subscriber) selects(u *spec.Update) bool {
	if u.Private && !s.grant.Allows(u.Topics) {
		return false
	}
	for _, m := range s.matchers {
		if slices.ContainsFunc(u.Topics, m.Match) {
			return true
		}
	}
	return false
}
