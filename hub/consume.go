package hub

import (
	"context"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

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
	if why := s.endingWhy(); why == endClient { // it left before the stream began
		return why
	}
	out := newWriter(s)
	for {
		why := s.catchUp(ctx, out, upto)
		out.release()
		if why != endNone {
			return why
		}
		if s.hub.adopt(s) {
			return endNone
		}
		var lagged bool
		if why, lagged = s.live(ctx, out); !lagged {
			return why
		}
		upto = s.hub.fanout.rejoin(s)
	}
}

// live writes what is offered until the stream ends or the subscriber lags.
func (s *subscriber) live(ctx context.Context, out *writer) (why endReason, lagged bool) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var frames []*frame
	for {
		s.listen()
		now := time.Now()
		why = s.over(now)
		if why != endNone && s.endsAtOnce(why, now) {
			return why, false
		}
		frames, lagged = s.take(frames[:0], out.batch())
		for _, f := range frames {
			if err := out.frame(f); err != nil {
				return s.sinkReason(err), false
			}
		}
		clear(frames)
		if err := out.flush(); err != nil {
			return s.sinkReason(err), false
		}
		switch {
		case len(frames) > 0:
			s.awaitAck(s.lastSent)
			continue
		case why == endNone && lagged:
			return endNone, true
		case why != endNone:
			return why, false
		}
		timer.Reset(time.Until(s.nextDue()))
		select {
		case <-s.wake:
		case <-ctx.Done():
			return s.contextReason(), false
		case <-timer.C:
			now := time.Now()
			if s.vanished(now) {
				return endStalled, false
			}
			if s.heartbeatDue(now) {
				if err := out.comment(); err != nil {
					return s.sinkReason(err), false
				}
				s.awaitAck(now)
			}
		}
	}
}

// over asks for the end when its time has come, and returns why the stream is to end, if it is.
func (s *subscriber) over(now time.Time) endReason {
	if !s.endAt.IsZero() && !now.Before(s.endAt) {
		s.end(s.endWhy)
	}
	return s.endingWhy()
}

// endsAtOnce reports whether a stream that ends for this reason gets nothing more of what is queued for
// it. A node that shuts down still hands out what it has; an expired token gets nothing.
func (s *subscriber) endsAtOnce(why endReason, now time.Time) bool {
	return why != endDrain || !now.Before(s.cut(now))
}

// cut is when a stream that is to end is cut if the client has not taken the end by then: never later
// than the token's exp. Called by the consumer, once the end has been asked for.
func (s *subscriber) cut(now time.Time) time.Time {
	if s.cutAt.IsZero() {
		s.cutAt = now.Add(s.hub.o.WriteTimeout)
		if exp := s.grant.Expires; !exp.IsZero() && exp.Before(s.cutAt) {
			s.cutAt = exp
		}
	}
	if s.hub.stopping() {
		s.cutAt = earlier(s.cutAt, now.Add(stopPatience))
	}
	return s.cutAt
}

// stopPatience is how long a stream may take to end when the hub itself ends.
const stopPatience = time.Second

// patience is until when the consumer may wait for the client in one write; zero means as long as the
// client makes progress. over tells that the stream is to end and that the time is the last.
func (s *subscriber) patience(now time.Time) (until time.Time, over bool) {
	if s.over(now) != endNone {
		return s.cut(now), true
	}
	return s.endAt, false
}

// earlier returns the earlier of two times; zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// nextDue is when the stream next needs attention without being offered anything.
func (s *subscriber) nextDue() time.Time {
	due := s.endAt
	if s.hub.o.Heartbeat > 0 {
		if hb := s.lastSent.Add(s.hub.o.Heartbeat - s.heartbeatJitter()); due.IsZero() || hb.Before(due) {
			due = hb
		}
	}
	if due = earlier(due, s.ack.at); due.IsZero() {
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
	return time.Duration(x % uint64(span)) //nolint:gosec // below span
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
	if why.graceful() && !s.torn {
		s.sink.close(s.hub.farewell())
	} else {
		s.sink.abort()
	}
	s.hub.forget(s, why)
}
