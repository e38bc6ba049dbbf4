package hub

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// shard owns live HTTP/1.x streams without a goroutine each: it joins what is queued for a stream into
// one write that does not wait, keeps what the socket did not take, and goes on when the poller says
// that there is room. One wheel of due times serves heartbeats, write time-outs, lifetimes and expiries.
type shard struct {
	hub    *Hub
	poller *poller
	wake   chan struct{} // capacity 1
	slack  time.Duration // a heartbeat may be sent so much sooner, together with others

	mu      sync.Mutex
	waiting []*subscriber // told to look; guarded by mu
	closed  bool          // takes no more streams; guarded by mu

	// owned by the loop
	stopping bool
	due      *dueWheel
	scratch  []byte
	frames   []*frame
}

// shardState is the part of a subscriber that only its shard uses.
type shardState struct {
	rest     []byte    // what the socket has not taken yet, whole events from where it stopped
	progress time.Time // when the client last made progress, while rest is not empty
	taken    int       // bytes the socket has taken since
	unacked  int       // bytes the kernel held for the client at that time
	need     int       // bytes that are progress
	at       time.Time // when the shard looks at the stream next
	prev     *subscriber
	next     *subscriber // in a slot of the shard's wheel
	place    int32       // in the wheel's heap, or absent or inSlot
	slot     int32       // when inSlot
	token    uint64      // the poller's name for it
	fd       int         // its descriptor
	closing  bool        // rest ends with the end of the body
}

// maxSlack spares a shard with many silent streams a wake-up for each of their heartbeats.
const maxSlack = 20 * time.Millisecond

func newShard(h *Hub, p *poller) *shard {
	return &shard{
		hub: h, poller: p, wake: make(chan struct{}, 1), slack: min(maxSlack, h.o.Heartbeat/100), due: newDueWheel(time.Now()),
	}
}

// adopt takes over a live stream from its goroutine, which must not touch it afterwards. It returns
// false, and changes nothing, when the shard has stopped.
func (sh *shard) adopt(s *subscriber) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.mu.Lock()
	closed := sh.closed
	if !closed {
		s.place, s.rest, s.closing = absent, nil, false
		s.shard, s.wake, s.ready = sh, nil, true
		sh.waiting = append(sh.waiting, s)
	}
	sh.mu.Unlock()
	if closed {
		return false
	}
	select {
	case sh.wake <- struct{}{}:
	default:
	}
	return true
}

// enqueue tells the loop to look at s. The subscriber's lock is held.
func (sh *shard) enqueue(s *subscriber) {
	sh.mu.Lock()
	sh.waiting = append(sh.waiting, s)
	sh.mu.Unlock()
	select {
	case sh.wake <- struct{}{}:
	default:
	}
}

// run serves until ctx ends and every stream has left.
func (sh *shard) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	done := ctx.Done()
	var batch []*subscriber
	for {
		if at, ok := sh.due.next(); ok {
			timer.Reset(time.Until(at))
		} else {
			timer.Reset(time.Hour)
			if sh.stopping && sh.close() {
				return
			}
		}
		select {
		case <-sh.wake:
		case <-timer.C:
		case <-done:
			done, sh.stopping = nil, true
			for _, s := range sh.due.all() {
				s.end(endDrain)
				sh.due.schedule(s, sh.nextLook(s, time.Now())) // sooner than was planned
			}
		}
		sh.mu.Lock()
		batch, sh.waiting = sh.waiting, batch[:0]
		sh.mu.Unlock()
		for i, s := range batch {
			sh.serve(s) //nolint:contextcheck // a goroutine that takes over lives in the hub's
			batch[i] = nil
		}
		sh.lookAtTheTime(time.Now())
	}
}

// lookAtTheTime does what is due, and heartbeats that are about to be.
func (sh *shard) lookAtTheTime(now time.Time) {
	for s := sh.due.advance(now); s != nil; s = sh.due.first() {
		switch {
		case !now.Before(s.at):
			sh.onTime(s, now)
		case s.at.Sub(now) <= sh.slack && len(s.rest) == 0 && s.endingWhy() == endNone && s.heartbeatDue(s.at):
			sh.beat(s, now)
		default:
			return
		}
	}
}

// close makes the shard refuse streams, unless some are waiting.
func (sh *shard) close() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.closed = len(sh.waiting) == 0
	return sh.closed
}

// serve looks at one stream: something was offered, the socket has room, the client left, or an end
// was asked for.
func (sh *shard) serve(s *subscriber) {
	if !sh.look(s) { // it has left meanwhile
		return
	}
	defer sh.contain(s)
	if s.place == absent && !sh.begin(s) {
		return
	}
	events := s.events.Swap(0)
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		sh.drop(s, endClient)
		return
	}
	for range 16 { // then let others have a turn
		if len(s.rest) > 0 && !sh.writeRest(s) {
			return
		}
		if s.closing { // and all of the body is written
			sh.leave(s, nil)
			s.sink.(*h1Sink).release()
			sh.hub.forget(s, s.endingWhy())
			return
		}
		now := time.Now()
		why := s.over(now)
		if why != endNone && s.endsAtOnce(why, now) {
			sh.beginEnd(s, now)
			continue
		}
		frames, lagged := s.take(sh.frames[:0], batchBytes)
		sh.frames = frames
		switch {
		case len(frames) > 0:
			sh.join(s, frames, now)
		case why == endNone && lagged:
			sh.release(s)
			return
		case why != endNone:
			sh.beginEnd(s, now)
		default:
			return
		}
		clear(frames)
	}
	s.notify()
}

// look reports whether the stream is this shard's, and lets the next event tell the shard again: what
// happens from here on is not missed.
func (sh *shard) look(s *subscriber) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shard != sh {
		return false
	}
	s.ready = false
	return true
}

// begin registers a stream with the poller and the wheel.
func (sh *shard) begin(s *subscriber) bool {
	if err := sh.poller.add(s); err != nil {
		sh.hub.log.Error("watching a connection failed", "err", err, "request_id", s.requestID)
		sh.drop(s, endFailed)
		return false
	}
	s.at = s.nextDue()
	sh.due.add(s)
	if sh.stopping {
		s.end(endDrain)
	}
	return true
}

// onTime is called when a stream's time has come.
func (sh *shard) onTime(s *subscriber, now time.Time) {
	defer sh.contain(s)
	why := s.over(now)
	switch {
	case why != endNone && !now.Before(s.cut(now)):
		sh.drop(s, why)
		return
	case len(s.rest) > 0 && sh.stalled(s, now), len(s.rest) == 0 && why == endNone && s.vanished(now):
		sh.drop(s, endStalled)
		return
	case why == endNone && len(s.rest) == 0 && s.heartbeatDue(now):
		sh.beat(s, now)
		return
	}
	sh.due.schedule(s, sh.nextLook(s, now))
}

// beat sends a heartbeat on a stream that has nothing left to write.
func (sh *shard) beat(s *subscriber, now time.Time) {
	defer sh.contain(s)
	sh.hub.metrics.Heartbeats.Inc()
	b := heartbeat
	if s.sink.chunked() {
		b = chunkedHeartbeat
	}
	sh.put(s, b, now, false, len(b))
	sh.due.schedule(s, sh.nextLook(s, now))
}

var chunkedHeartbeat = appendRaw(nil, heartbeat, true)

// nextLook is when s needs attention next.
func (sh *shard) nextLook(s *subscriber, now time.Time) time.Time {
	var at time.Time
	switch {
	case s.endingWhy() != endNone:
		at = s.cut(now)
	case len(s.rest) > 0:
		at = s.endAt
	default:
		return s.nextDue()
	}
	if len(s.rest) > 0 {
		at = earlier(at, s.progress.Add(sh.hub.o.WriteTimeout))
	}
	return at
}

// beginEnd writes the end of the body; the stream is dropped when the socket has taken it.
func (sh *shard) beginEnd(s *subscriber, now time.Time) {
	s.closing = true
	b := s.sink.(*h1Sink).ending(sh.hub.farewell())
	if len(b) > 0 {
		sh.put(s, b, now, false, len(b))
	}
}

// drop cuts s here and now.
func (sh *shard) drop(s *subscriber, why endReason) {
	sh.leave(s, nil)
	s.sink.abort()
	sh.hub.forget(s, why)
}

// release gives a lagging stream to a goroutine that reads the log for it.
func (sh *shard) release(s *subscriber) {
	wake := make(chan struct{}, 1)
	wake <- struct{}{}
	sh.leave(s, wake)
	sh.hub.spawn(s)
}

// leave lets go of s; wake is what its next consumer, if any, listens to.
func (sh *shard) leave(s *subscriber, wake chan struct{}) {
	sh.due.remove(s)
	sh.poller.remove(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shard, s.wake = nil, wake
}

// contain keeps a defect in one stream from ending the others.
func (sh *shard) contain(s *subscriber) {
	v := recover()
	if v == nil {
		return
	}
	sh.hub.metrics.Panics.Inc()
	sh.hub.log.Error("panic while serving a stream", "panic", v, "request_id", s.requestID, "stack", string(debug.Stack()))
	sh.drop(s, endFailed)
}
