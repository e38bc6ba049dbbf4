package hub

import (
	"context"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// consumer is what a goroutine has of a stream that is its own. It takes turns: in each it does all there is to do, and
// then it waits.
type consumer struct {
	s      *subscriber
	ctx    context.Context    //nolint:containedctx // the request's or the hub's, which last as long
	upto   transport.Position // when behind: the end of what is only in the log
	behind bool
	over   bool // the stream has ended, or a shard has it

	timer  *time.Timer // wakes it when it is due; nil until it waits
	due    time.Time
	unlink func() bool // from ctx, whose end wakes it as well
}

// consume begins with what is only in the log: its end is upto.
func (s *subscriber) consume(ctx context.Context, upto transport.Position) *consumer {
	return &consumer{s: s, ctx: ctx, upto: upto, behind: true}
}

// run goes on until the stream has ended or a shard has it. It blocks.
func (c *consumer) run() {
	for c.turn(); !c.over; c.turn() {
		<-c.s.wake // and nothing else: a select takes too much of the stack, see shallow
	}
	if c.timer != nil {
		c.timer.Stop()
		c.unlink()
	}
}

func (c *consumer) turn() {
	c.over = true // unless it turns out that there is more to come
	defer c.s.hub.contain(c.s)
	out := newWriter(c.s)
	defer out.release()
	why, waits := c.work(out)
	switch {
	case why != endNone:
		c.s.finish(why)
	case waits:
		c.over = false
		c.arm()
	}
}

// arm sees to it that the goroutine wakes when the stream is due or its context ends.
func (c *consumer) arm() {
	c.due = c.s.nextDue()
	if c.timer != nil {
		c.timer.Reset(time.Until(c.due))
		return
	}
	c.timer = time.AfterFunc(time.Until(c.due), c.s.notify)
	c.unlink = context.AfterFunc(c.ctx, c.s.notify) // which a failed write ends, too: the turn that wrote says why
}

// work does what there is to do. The stream is to end, or waits, or a shard has it.
func (c *consumer) work(out *writer) (why endReason, waits bool) {
	s := c.s
	if why = s.endingWhy(); why == endClient { // perhaps before the stream began
		return why, false
	}
	if c.timer != nil && c.ctx.Err() != nil {
		return s.contextReason(), false
	}
	if why = c.onTime(out); why != endNone {
		return why, false
	}
	for {
		if c.behind {
			if why = c.read(out); why != endNone {
				return why, false
			}
			out.release()
			if c.behind = false; s.hub.adopt(s) {
				return endNone, false
			}
		}
		var lagged bool
		if why, lagged = s.live(out); !lagged {
			// The end of the context may have told while this turn was under way, before it listened: no other turn comes of that.
			if why == endNone && c.ctx.Err() != nil {
				why = s.contextReason()
			}
			return why, why == endNone
		}
		c.upto, c.behind = s.hub.fanout.rejoin(s), true
	}
}

// onTime does what a stream is due for that has waited.
func (c *consumer) onTime(out *writer) endReason {
	s, now := c.s, time.Now()
	if c.timer == nil || now.Before(c.due) {
		return endNone
	}
	if s.vanished(now) {
		return endStalled
	}
	if s.over(now) == endNone && s.heartbeatDue(now) {
		if err := out.comment(); err != nil {
			return s.sinkReason(err)
		}
		s.awaitAck(now)
	}
	return endNone
}

// read catches up.
func (c *consumer) read(out *writer) endReason {
	if c.s.pos >= c.upto {
		return c.s.catchUp(c.ctx, out, c.upto)
	}
	ctx, cancel := c.s.hub.within(c.ctx)
	defer cancel()
	return c.s.catchUp(ctx, out, c.upto)
}

// live writes what is offered until nothing is left, the stream is to end or the subscriber lags.
func (s *subscriber) live(out *writer) (why endReason, lagged bool) {
	var few [8]*frame
	frames := few[:0]
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
		case why == endNone && lagged:
			return endNone, true
		default:
			return why, false
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
