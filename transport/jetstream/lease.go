package jetstream

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// term is a name under which this node keeps its presences.
type term struct {
	name   string
	writes gate // Enters under way; shut when the term is over

	seq  uint64    // of the lease; owned by hold
	held time.Time // when it was last known to stand there; owned by hold
}

// errLost is about a term that somebody sweeps, or has swept.
var errLost = errors.New("this node was taken for dead")

const leasePause = 250 * time.Millisecond // between two attempts to write a lease

// begin makes a term, trying until ctx ends.
func (d *directory) begin(ctx context.Context) error {
	for {
		t := &term{name: newTermName(), held: time.Now()}
		err := d.refresh(ctx, t)
		if err == nil {
			d.take(t)
			return nil
		}
		if err := d.pause(ctx, leasePause); err != nil {
			return err
		}
		d.log.opts.Logger.Debug("no lease yet", slog.Any("error", err))
	}
}

// take makes t this node's term, and tells those who wait for one.
func (d *directory) take(t *term) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.term = t
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *directory) pause(ctx context.Context, t time.Duration) error {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hold keeps this node's term until ctx ends, and takes another one when it is lost.
func (d *directory) hold(ctx context.Context) {
	for ctx.Err() == nil {
		d.mu.Lock()
		t := d.term
		d.mu.Unlock()
		wait := d.times.refresh
		switch err := d.refresh(ctx, t); {
		case errors.Is(err, errLost):
			d.replace(ctx, t)
		case err != nil:
			d.log.opts.Logger.Debug("the lease is not refreshed", slog.Any("error", err))
			wait = leasePause
		}
		if d.pause(ctx, wait) != nil {
			return
		}
	}
}

// refresh writes the lease of t once more. The leader takes it if it replaces the one before. When that has
// expired and nobody has claimed the term, as when the log was away for a while, it is taken up again. errLost means
// that somebody has.
func (d *directory) refresh(ctx context.Context, t *term) error {
	ctx, cancel := context.WithTimeout(ctx, max(d.times.refresh, ackPatience))
	defer cancel()
	subject := d.lease(t.name)
	for {
		sent := time.Now()
		a, err := d.log.publish(ctx, d.replacing(subject, t.seq, stateAlive, d.log.opts.Node, d.times.ttl))
		if err == nil {
			t.seq, t.held = a.Sequence, sent
			d.confirm(sent)
			return nil
		}
		if !refused(err) {
			return err
		}
		now, err := d.ask(ctx, subject)
		switch {
		case err != nil:
			return err
		case now.seq == 0 && d.log.opts.clustered() && elapsed(t.held) > reviveFor:
			return errLost // it is not known any more whether somebody has
		case now.seq != 0 && now.state != stateAlive:
			return errLost
		case now.seq == t.seq: // something is on its way
			if err := d.pause(ctx, lagPause); err != nil {
				return err
			}
		}
		t.seq = now.seq
	}
}

// elapsed is the time since t, by whichever clock says more: one of them may stand still while a machine does.
func elapsed(t time.Time) time.Duration { return max(time.Since(t), time.Since(t.Round(0))) }

// confirm notes that the leader has taken what was sent at that time.
func (d *directory) confirm(sent time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if sent.Sub(d.confirmed) > 2*d.times.refresh {
		d.steady = sent
	}
	d.confirmed = sent
}

// maySweep reports whether a lease that is not there is so for want of its node. After a while in which nothing could
// be written, leases have run out of nodes that are about to refresh them.
func (d *directory) maySweep() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.log.opts.clustered() || time.Since(d.confirmed) < 2*d.times.refresh && time.Since(d.steady) >= d.times.refresh
}

// replace ends the term t, which is lost, and begins another once all is cleared that was entered under it: until
// then nothing is entered, so that the events of the old term come before those of the new one.
func (d *directory) replace(ctx context.Context, t *term) {
	d.log.opts.Logger.Warn("this node was taken for dead by the others; its subscribers are entered again")
	d.mu.Lock()
	d.term = nil
	d.mu.Unlock()
	if t.writes.close(ctx) != nil {
		return
	}
	for !d.cleared(ctx, t.name) {
		if d.pause(ctx, d.times.look) != nil {
			return
		}
	}
	if d.begin(ctx) != nil {
		return
	}
	d.mu.Lock()
	for key, r := range d.records {
		if r.term == t.name && !r.leaving {
			delete(d.records, key)
		}
	}
	d.mu.Unlock()
	select {
	case d.losses <- struct{}{}:
	default: // it is about to be told
	}
}

// cleared reports whether nothing of the term is left.
func (d *directory) cleared(ctx context.Context, name string) bool {
	sent := time.Now()
	if d.settle(ctx) != nil {
		return false
	}
	d.confirm(sent)
	return d.mirror.count(name) == 0
}

// herald tells the hub when a term was lost.
func (d *directory) herald(ctx context.Context) {
	for {
		select {
		case <-d.losses:
			d.lost()
		case <-ctx.Done():
			return
		}
	}
}

// quit takes out what this node has entered. Once the term is left, nobody lists it; then its connections go, one by
// one, and what is not done in time the others do.
func (d *directory) quit(ctx context.Context) {
	d.mu.Lock()
	t := d.term
	d.term = nil
	var list []wrong
	for _, r := range d.records {
		list = append(list, wrong{subject: r.subject, seq: r.seq})
	}
	d.mu.Unlock()
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leavePatience)
	defer cancel()
	err := d.resign(ctx, t)
	if err == nil {
		err = together(list, sweepMost, func(w wrong) error { return d.bare(ctx, w.subject, w.seq) })
	}
	if err != nil { // the lease runs out, and the others see to it
		d.log.opts.Logger.Warn("this node's subscribers are not taken out of the directory", slog.Any("error", err))
	}
}

// resign ends the lease of t. A refresh that was under way when this node began to close may have been the last to
// be written.
func (d *directory) resign(ctx context.Context, t *term) error {
	for {
		_, err := d.log.publish(ctx, d.replacing(d.lease(t.name), t.seq, stateLeft, d.log.opts.Node, overFor))
		if !refused(err) {
			return err
		}
		now, err := d.ask(ctx, d.lease(t.name))
		switch {
		case err != nil:
			return err
		case now.state == stateLeft:
			return nil
		case now.seq != 0 && now.state != stateAlive:
			return errLost
		case now.seq == t.seq:
			if err := d.pause(ctx, lagPause); err != nil {
				return err
			}
		}
		t.seq = now.seq
	}
}
