package hub

import (
	"context"
	"errors"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// run attends to the directory and dispatches workers until ctx ends. It returns when the last worker has.
func (p *presence) run(ctx context.Context) {
	defer p.workers.Wait()
	if !p.attend(ctx) {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		timer.Reset(p.dispatch(ctx))
	}
}

// attend begins to keep the directory, however long that takes; false means that ctx has ended or the log is closed.
func (p *presence) attend(ctx context.Context) bool {
	for failures := 0; ; failures++ {
		err := p.dir.Attend(ctx, p.gone, p.lost)
		if err == nil {
			p.mu.Lock()
			p.attended = true
			p.mu.Unlock()
			p.poke()
			return true
		}
		if ctx.Err() != nil || errors.Is(err, transport.ErrClosed) {
			return false
		}
		p.hub.metrics.PresenceFailures.WithLabelValues("attend").Inc()
		p.hub.log.Warn("the directory of subscribers is not there yet", "error", err)
		if sleepUntil(ctx, time.Now().Add(backoff(failures))) != nil {
			return false
		}
	}
}

// ready reports whether lists are complete.
func (p *presence) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attended
}

// backoff is how long to wait after so many failures and one.
func backoff(failures int) time.Duration {
	d := min(firstRetry<<min(failures, 10), lastRetry)
	return d/2 + jitter(d)/2
}

// dispatch starts as many workers as may run, lets go of whoever was held long enough, and returns when to look again.
func (p *presence) dispatch(ctx context.Context) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	look := p.expire(now)
	if wait := p.again.Sub(now); wait > 0 {
		return min(look, wait)
	}
	for want := min(p.limit(), p.running+len(p.waiting)); p.running < want; {
		p.running++
		p.workers.Go(func() { p.work(ctx) })
	}
	return look
}

// limit is how many workers may run. After a failure it is one, which finds out. The lock is held.
func (p *presence) limit() int {
	switch {
	case p.failures > 0:
		return 1
	case p.leaving():
		return workersLeaving
	default:
		return workersServing
	}
}

// leaving reports whether the node is on its way out of service: what is left to tell is urgent.
// The lock is held.
func (p *presence) leaving() bool { return p.closing || p.hub.Draining() }

// work serves members until none is waiting, or something fails.
func (p *presence) work(ctx context.Context) {
	defer p.rest()
	for ctx.Err() == nil {
		m := p.pick()
		if m == nil || !p.serve(ctx, m) {
			return
		}
	}
}

// rest ends a worker.
func (p *presence) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.poke()
	p.tellQuiet()
}

// pick takes the next member from the queue, if this worker is not one too many.
func (p *presence) pick() *member {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 || p.running > p.limit() || p.failures > 0 && time.Now().Before(p.again) {
		return nil
	}
	m := p.waiting[0]
	p.waiting[0] = nil
	if p.waiting = p.waiting[1:]; len(p.waiting) == 0 {
		p.waiting = nil // lets go of what a storm has made large
	}
	p.hub.metrics.PresenceWaiting.Set(float64(len(p.waiting)))
	return m
}

// serve does for m all there is to do; false means that it has failed and m waits again.
func (p *presence) serve(ctx context.Context, m *member) bool {
	for {
		s, event, epoch := p.next(m)
		if s == stepNone {
			return true
		}
		err := p.pace(ctx)
		if err == nil {
			err = p.take(ctx, m, s, event, epoch)
		}
		if err != nil {
			return p.failed(ctx, m, s, err)
		}
		p.succeeded()
	}
}

func (p *presence) succeeded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if p.failures > 0 {
		p.failures = 0
		p.poke() // for the workers that were sent away
	}
}

// failed lets m wait, and everybody with it, for a time that grows; true means that m was given up.
func (p *presence) failed(ctx context.Context, m *member, s step, err error) (on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() == nil {
		p.hub.metrics.PresenceFailures.WithLabelValues(s.String()).Inc()
	}
	m.fresh = m.fresh && m.here
	hopeless := errors.Is(err, transport.ErrClosed) || errors.Is(err, transport.ErrTooLarge) || ctx.Err() != nil
	if hopeless || !m.here && len(p.waiting) >= maxWaiting {
		if m.listed == listed {
			p.hub.metrics.Presences.Dec()
		}
		m.listed, m.bye = unlisted, 0
		m.busy = false
		delete(p.members, m)
		return ctx.Err() == nil
	}
	if p.failures == 0 {
		p.hub.log.Warn("keeping the list of subscribers failed, it is tried again", "step", s.String(), "error", err, "waiting", len(p.waiting))
	}
	p.again = time.Now().Add(backoff(p.failures))
	p.failures++
	p.waiting = append(p.waiting, m)
	return false
}

// paceSlack is how far the steps may be behind their pace and make up for it.
const paceSlack = 50 * time.Millisecond

// pace spaces the steps while publishers are at work, so that many connections at once do not crowd them out.
func (p *presence) pace(ctx context.Context) error {
	if !p.hub.publishersAtWork() {
		return ctx.Err()
	}
	p.mu.Lock()
	if p.leaving() {
		p.mu.Unlock()
		return ctx.Err()
	}
	now := time.Now()
	if late := now.Add(-paceSlack); p.turn.Before(late) { // a busy machine wakes workers late
		p.turn = late
	}
	at := p.turn
	p.turn = p.turn.Add(time.Second / stepsPerSecond)
	p.mu.Unlock()
	if at.Sub(now) < time.Millisecond { // timers are no finer
		return ctx.Err()
	}
	return sleepUntil(ctx, at)
}

// publishersAtWork reports whether something is being published, or was a moment ago.
func (h *Hub) publishersAtWork() bool {
	return h.publishing.Load() > 0 || time.Since(time.Unix(0, h.published.Load())) < 100*time.Millisecond
}

// settlePatience is how long a directory or log that fails is waited for at the end.
const settlePatience = 3 * time.Second

// settle lets go of whoever is held and waits until everything there is to write and to tell has been, or until
// nothing has succeeded for settlePatience, or ctx ends. closing says that it is for good.
func (p *presence) settle(ctx context.Context, closing bool) {
	p.mu.Lock()
	if !p.attended { // nobody is listed
		p.mu.Unlock()
		return
	}
	p.closing = p.closing || closing
	p.release(func(*member) bool { return true })
	quiet := make(chan struct{})
	p.quiet = append(p.quiet, quiet)
	p.tellQuiet()
	before := p.done
	p.mu.Unlock()
	p.poke()
	tick := time.NewTicker(settlePatience)
	defer tick.Stop()
	for {
		select {
		case <-quiet:
			return
		case <-ctx.Done():
		case <-tick.C:
			if p.advanced(&before) {
				continue
			}
		}
		if errors.Is(context.Cause(ctx), ErrUndrained) {
			return
		}
		p.mu.Lock()
		p.hub.log.Warn("not all ends of subscriptions could be told", "left", len(p.waiting)+p.running)
		p.mu.Unlock()
		return
	}
}

// advanced reports whether any step was taken since before, which it moves on.
func (p *presence) advanced(before *uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	moved := p.done != *before
	*before = p.done
	return moved
}

// tellQuiet tells whoever waits for it that nothing is left to do. The lock is held.
func (p *presence) tellQuiet() {
	if len(p.waiting) > 0 || p.running > 0 {
		return
	}
	for _, c := range p.quiet {
		close(c)
	}
	p.quiet = nil
}
