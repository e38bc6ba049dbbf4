package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Fanout has every subscriber on one topic.
type Fanout struct {
	Publishing
	Subscribers int
	Topic       string // empty = one of its own
}

// Topics has subscribers spread over many topics, one each, and updates going to topics at random.
type Topics struct {
	Publishing
	Subscribers int
	Topics      int
	// Prefix begins every topic; empty = https://cinnabar.example/bench/. A part that only this run has follows.
	Prefix string
	// SelectorTemplate, if not empty, is what is subscribed to instead: a URI template, or a URL pattern for draft-08,
	// in which %d is the number of the topic. Every update goes to a topic that matches it and is new to the hub.
	SelectorTemplate string
}

// Publish has updates published that nobody has subscribed to.
type Publish struct {
	Publishing
	Topics int // published to in turn
	Prefix string
}

const defaultPrefix = "https://cinnabar.example/bench/"

// RunFanout measures o at t. The error is an *OptionError, or what kept the run from beginning; ctx ending is none: the
// result then says what was measured so far.
func RunFanout(ctx context.Context, t Target, o Fanout) (*Result, error) {
	r, err := newRun("fanout", t)
	if err != nil {
		return nil, err
	}
	topic := o.Topic
	if topic == "" {
		topic = r.named(defaultPrefix, 1)
	}
	return r.spread(ctx, o.Publishing, o.Subscribers, []string{topic}, []string{topic}, false)
}

// RunTopics is RunFanout for Topics.
func RunTopics(ctx context.Context, t Target, o Topics) (*Result, error) {
	r, err := newRun("topics", t)
	if err != nil {
		return nil, err
	}
	if err := checkTopics(o.Topics); err != nil {
		return nil, err
	}
	if o.Topics > o.Subscribers {
		return nil, badOption("--topics %d: more than the %d subscribers, which have one each", o.Topics, o.Subscribers)
	}
	if o.SelectorTemplate == "" {
		topics := r.numbered(o.Prefix, o.Topics)
		return r.spread(ctx, o.Publishing, o.Subscribers, topics, topics, false)
	}
	selectors, topics, err := places(o.SelectorTemplate, o.Topics, t.Draft08)
	if err != nil {
		return nil, err
	}
	r.result.Settings.SelectorTemplate = o.SelectorTemplate
	return r.spread(ctx, o.Publishing, o.Subscribers, selectors, topics, true)
}

// RunPublish is RunFanout for Publish.
func RunPublish(ctx context.Context, t Target, o Publish) (*Result, error) {
	r, err := newRun("publish", t)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(o.check(), checkTopics(o.Topics)); err != nil {
		return nil, err
	}
	r.topics = r.numbered(o.Prefix, o.Topics)
	r.result.Settings = o.settings()
	r.result.Settings.Topics = o.Topics
	if err := r.ready(ctx, o.form()); err != nil {
		return nil, err
	}
	publishers := r.newPublishers(o.Publishers)
	before, after, begun := r.timed(ctx, &o.Publishing, publishers, nil, false)
	r.published(publishers, begun, time.Time{})
	r.used(before, after, 0, r.result.Publishing.Accepted)
	r.result.Interrupted = ctx.Err() != nil
	return r.result, nil
}

func checkTopics(n int) error {
	if n < 1 || n > maxTopics {
		return badOption("--topics %d: 1 to %d", n, maxTopics)
	}
	return nil
}

func (r *run) numbered(prefix string, n int) []string {
	if prefix == "" {
		prefix = defaultPrefix
	}
	all := make([]string, n)
	for i := range all {
		all[i] = r.named(prefix, i)
	}
	return all
}

func (p *Publishing) form() form { return form{size: p.Size, private: p.Private} }

func (p *Publishing) settings() Settings {
	s := Settings{
		Publishers: p.Publishers, Rate: p.Rate, Size: p.Size, Private: p.Private,
		Warmup: p.Warmup.Seconds(), Duration: p.Duration.Seconds(),
	}
	if p.Rate == 0 {
		s.Window = p.Window
	}
	return s
}

// ready makes sure that the meter reads and the hub takes updates.
func (r *run) ready(ctx context.Context, f form) error {
	if r.target.Meter.used() {
		if _, err := r.target.Meter.read(ctx); err != nil {
			return err
		}
	}
	return r.try(ctx, f)
}

// spread is the course of both modes with subscribers that stay: subscriber i selects selectors[i mod their number],
// and updates to the topic of that number are for it.
func (r *run) spread(ctx context.Context, p Publishing, subscribers int, selectors, topics []string, template bool) (*Result, error) {
	if err := errors.Join(p.check(), checkSubscribers(subscribers)); err != nil {
		return nil, err
	}
	template0 := r.result.Settings.SelectorTemplate
	r.topics = topics
	r.result.Settings = p.settings()
	r.result.Settings.Subscribers, r.result.Settings.Topics, r.result.Settings.SelectorTemplate = subscribers, len(topics), template0
	s, err := newSwarm(r, subscribers, p.Publishers, selectors, template)
	if err != nil {
		return nil, err
	}
	if err := r.ready(ctx, p.form()); err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.openAll(ctx); err != nil {
		return nil, err
	}
	publishers := r.newPublishers(p.Publishers)
	before, after, begun := r.timed(ctx, &p, publishers, s.fan, true)
	s.stay()
	s.close()
	latency, last := r.tally.latency()
	r.published(publishers, begun, last)
	r.delivered(s, publishers, latency)
	r.used(before, after, int64(latency.total.Load()), r.result.Publishing.Accepted) //nolint:gosec // a count
	r.result.Interrupted = ctx.Err() != nil
	return r.result, nil
}

// openAll opens every stream or fails, but for an interruption.
func (s *swarm) openAll(ctx context.Context) error {
	s.run.notify("opening %d streams", len(s.subs))
	o := s.open(ctx, 0)
	s.run.result.Streams = o.streams()
	if o.failed > 0 {
		return fmt.Errorf("after %d streams: %w", o.opened, o.first)
	}
	pause(ctx, settlePause)
	return nil
}

func (o *opening) streams() *Streams {
	s := &Streams{Opened: o.opened, Failed: o.failed, Took: o.took.Seconds(), Open: o.each.summary()}
	s.PerSecond = float64(o.opened) / max(s.Took, 1e-9)
	if o.first != nil {
		s.FirstError = o.first.Error()
	}
	return s
}

// stay notes how many streams are open now, before they are closed.
func (s *swarm) stay() {
	s.run.result.Streams.Alive, s.run.result.Streams.Ended = s.alive.Load(), s.ended.Load()
}

// timed publishes: first to warm up, then measured from begun on. It returns when all is answered and delivered, or
// nothing arrives any more. before and after enclose what is measured.
func (r *run) timed(ctx context.Context, p *Publishing, publishers []*publisher, fan []atomic.Int64, choose bool) (before, after use, begun time.Time) {
	s := stretch{form: p.form(), rate: p.Rate, fan: fan, choose: choose}
	if p.Rate == 0 {
		s.limit = window(p.Window, fan)
	}
	r.notify("publishing for %v after %v to warm up", p.Duration, p.Warmup)
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	var working sync.WaitGroup
	working.Go(func() { r.publishAll(publishing, publishers, s) })
	lasted := pause(ctx, p.Warmup)
	before = r.measure(ctx)
	if lasted {
		r.tally.phase.Store(measured)
	}
	begun = time.Now()
	pause(ctx, p.Duration)
	stop()
	working.Wait()
	r.tally.ledger.settle(context.WithoutCancel(ctx), r.target.Patience)
	return before, r.measure(ctx), begun
}

// window is updates in deliveries, with the average number of subscribers; 0 = no limit.
func window(updates int, fan []atomic.Int64) int64 {
	var all int64
	for i := range fan {
		all += fan[i].Load()
	}
	if updates == 0 || all == 0 {
		return 0
	}
	return max(1, int64(float64(updates)*float64(all)/float64(len(fan))))
}

// published writes how publications fared. The measured time began at begun, and ended with the last answer or at last.
func (r *run) published(publishers []*publisher, begun, last time.Time) {
	latency := &histogram{}
	out := &Published{Stalls: r.tally.ledger.stalls.Load()}
	var behind time.Duration
	answered := begun
	for _, p := range publishers {
		latency.merge(&p.latency)
		out.Accepted += p.taken
		out.Failed += p.failed
		if p.first != nil && out.First == "" {
			out.First = p.first.Error()
		}
		behind = max(behind, p.behind)
		if p.lastAnswer.After(answered) {
			answered = p.lastAnswer
		}
	}
	end := answered
	if last.After(end) {
		end = last
	}
	r.result.Seconds = end.Sub(begun).Seconds()
	out.Latency, out.Behind = latency.summary(), ms(behind)
	out.PerSecond = float64(out.Accepted) / max(answered.Sub(begun).Seconds(), 1e-9)
	r.result.Publishing = out
}

// delivered writes what reached subscribers, whose streams are closed.
func (r *run) delivered(s *swarm, publishers []*publisher, latency *histogram) {
	accepted := make([][]int64, len(publishers))
	for i, p := range publishers {
		accepted[i] = p.accepted
	}
	t := r.tally
	r.result.Deliveries = &Deliveries{
		Received: int64(latency.total.Load()), Latency: latency.summary(), //nolint:gosec // a count
		Lost: s.lost(accepted), Duplicated: t.duplicated.Load(), Disordered: t.disordered.Load(),
		Unwanted: t.unwanted.Load(), Foreign: t.foreign.Load(),
	}
	r.result.Deliveries.PerSecond = float64(r.result.Deliveries.Received) / max(r.result.Seconds, 1e-9)
}
