package load

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Reconnect has subscribers that leave, miss updates, and come back all at once with the cursor they left with.
type Reconnect struct {
	Subscribers int
	Missed      int // updates that each misses
	History     int // updates of other topics published first, for the hub to look through
	Size        int
	Private     bool
	Topic       string // empty = one of its own
}

// RunReconnect is RunFanout for Reconnect.
func RunReconnect(ctx context.Context, t Target, o Reconnect) (*Result, error) {
	r, err := newRun("reconnect", t)
	if err != nil {
		return nil, err
	}
	p := Publishing{Publishers: 1, Size: o.Size, Private: o.Private, Duration: 1}
	if err := errors.Join(p.check(), checkSubscribers(o.Subscribers)); err != nil {
		return nil, err
	}
	switch {
	case o.Missed < 1 || o.Missed > 1_000_000:
		return nil, badOption("--missed %d: 1 to 1000000 updates", o.Missed)
	case o.History < 0 || o.History > 100_000_000:
		return nil, badOption("--history %d: 0 to 100000000 updates", o.History)
	}
	topic := o.Topic
	if topic == "" {
		topic = r.named(defaultPrefix, 1)
	}
	r.topics = []string{topic}
	r.result.Settings = Settings{
		Subscribers: o.Subscribers, Topics: 1, Publishers: 1, Size: o.Size, Private: o.Private, Missed: o.Missed, History: o.History,
	}
	s, err := newSwarm(r, o.Subscribers, 1, r.topics, false)
	if err != nil {
		return nil, err
	}
	if err := r.ready(ctx, p.form()); err != nil {
		return nil, err
	}
	defer s.close()
	return r.reconnect(ctx, s, o, p.form())
}

// reconnect is the course of the run. What cannot be measured because of an interruption is left out.
func (r *run) reconnect(ctx context.Context, s *swarm, o Reconnect, f form) (*Result, error) {
	if err := r.fillHistory(ctx, o.History, f); err != nil {
		return nil, err
	}
	if err := s.openAll(ctx); err != nil {
		return nil, err
	}
	publishers := r.newPublishers(1)
	if err := r.learnCursors(ctx, s, publishers, f); err != nil {
		return nil, err
	}
	r.notify("publishing %d updates while nobody is there", o.Missed)
	r.tally.phase.Store(measured)
	begun := time.Now()
	r.publishAll(ctx, publishers, stretch{form: f, count: int64(o.Missed)})
	before := r.measure(ctx)
	if ctx.Err() == nil {
		r.tally.goalFrom, r.tally.goal = time.Now(), publishers[0].accepted[0]
		r.tally.ledger.due.Store(int64(o.Subscribers) * r.tally.goal)
		r.notify("%d subscribers come back", o.Subscribers)
		opened := s.open(ctx, 0)
		r.result.Streams = opened.streams()
		if opened.failed == 0 {
			r.tally.ledger.settle(ctx, r.target.Patience)
		}
	}
	after := r.measure(ctx)
	r.result.Interrupted = ctx.Err() != nil
	s.stay()
	s.close()
	r.published(publishers, begun, time.Time{})
	r.delivered(s, publishers, &histogram{})
	if r.result.Interrupted {
		r.result.Deliveries.Lost = 0 // what has not arrived was not waited for
	}
	r.caughtUp(s)
	r.used(before, after, r.result.Deliveries.Received, 0)
	return r.result, nil
}

// fillHistory publishes n updates of other topics.
func (r *run) fillHistory(ctx context.Context, n int, f form) error {
	if n == 0 {
		return nil
	}
	r.notify("publishing a history of %d updates", n)
	topics := r.topics
	r.topics = r.numbered("", 100)
	defer func() { r.topics = topics }()
	const connections = 16
	publishers := r.newPublishers(connections)
	r.publishAll(ctx, publishers, stretch{form: f, count: int64(n)})
	for _, p := range publishers {
		if p.first != nil {
			return fmt.Errorf("publish the history: %w", p.first)
		}
	}
	return nil
}

// learnCursors has every subscriber receive an update, leave, and keep its id.
func (r *run) learnCursors(ctx context.Context, s *swarm, publishers []*publisher, f form) error {
	r.publishAll(ctx, publishers, stretch{form: f, count: 1, fan: s.fan})
	if err := publishers[0].first; err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	all := r.tally.ledger.settle(ctx, r.target.Patience)
	s.close()
	if ctx.Err() != nil {
		return nil //nolint:nilerr // no failure: the result says that the run was interrupted
	}
	if !all {
		return errors.New("the update before the interruption did not reach every subscriber")
	}
	for i := range s.subs {
		if s.subs[i].cursor == "" {
			return errors.New("the hub gives no ids to come back with")
		}
	}
	return nil
}

// caughtUp writes how long coming back took.
func (r *run) caughtUp(s *swarm) {
	t := r.tally
	c := &CatchUp{Each: t.caughtUp.summary(), Never: int64(len(s.subs)) - int64(t.caughtUp.total.Load())} //nolint:gosec // a count
	c.All = time.Duration(t.caughtUp.max.Load()).Seconds()
	r.result.CatchUp = c
	d := r.result.Deliveries
	for i := range s.subs {
		d.Received += max(0, s.subs[i].got-1) // but for the one that gave the cursor
	}
	r.result.Seconds = c.All
	d.PerSecond = float64(d.Received) / max(c.All, 1e-9)
}
