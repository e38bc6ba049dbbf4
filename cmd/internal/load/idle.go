package load

import (
	"context"
	"time"
)

// Idle has subscribers that wait for updates that never come.
type Idle struct {
	Subscribers int
	Topics      int // spread over these
	Prefix      string
	Hold        time.Duration // how long they are held once they are open
}

// idleTolerance is how many streams may fail before no more are tried: the run is to find how many a hub takes.
const idleTolerance = 100

// RunIdle is RunFanout for Idle. Streams that could not be opened are counted in the result, and no error unless
// there is none at all.
func RunIdle(ctx context.Context, t Target, o Idle) (*Result, error) {
	r, err := newRun("idle", t)
	if err != nil {
		return nil, err
	}
	if err := checkSubscribers(o.Subscribers); err != nil {
		return nil, err
	}
	if err := checkTopics(o.Topics); err != nil {
		return nil, err
	}
	if o.Hold <= 0 {
		return nil, badOption("--hold %v: more than 0", o.Hold)
	}
	r.result.Settings = Settings{Subscribers: o.Subscribers, Topics: o.Topics, Hold: o.Hold.Seconds()}
	s, err := newSwarm(r, o.Subscribers, 0, r.numbered(o.Prefix, o.Topics), false)
	if err != nil {
		return nil, err
	}
	before := r.measure(ctx)
	if t.Meter.used() && before.err != nil {
		return nil, before.err
	}
	defer s.close()
	r.notify("opening %d streams", o.Subscribers)
	opened := s.open(ctx, idleTolerance)
	if opened.opened == 0 && opened.first != nil {
		return nil, opened.first
	}
	r.result.Streams = opened.streams()
	r.notify("holding %d streams for %v", opened.opened, o.Hold)
	beats, begun := r.tally.heartbeats.Load(), time.Now()
	pause(ctx, o.Hold)
	r.result.Streams.Heartbeats = new(r.tally.heartbeats.Load() - beats)
	r.result.Seconds = time.Since(begun).Seconds()
	after := r.measure(ctx)
	s.stay()
	s.close()
	r.used(before, after, 0, 0)
	if m := r.result.Server; m != nil && m.Error == "" && opened.opened > 0 {
		m.RSSPerConnection = new((m.RSSAfter - m.RSSBefore) / float64(opened.opened))
	}
	r.result.Interrupted = ctx.Err() != nil
	return r.result, nil
}
