package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

const (
	sweepBatch = 512 // connections cleared under one renewal of the claim
	sweepMost  = 128 // at a time
)

// watch looks for dead terms, and for what has gone wrong with this node's, until ctx ends.
func (d *directory) watch(ctx context.Context) {
	ticker := time.NewTicker(d.times.look)
	defer ticker.Stop()
	tidied := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		for _, name := range d.mirror.suspects(d.ownTerm(), !d.log.opts.clustered(), 2*d.times.refresh, 2*d.times.ttl) {
			if err := d.examine(ctx, name); err != nil && ctx.Err() == nil {
				d.log.opts.Logger.Debug("a term is not cleared", slog.String("term", name), slog.Any("error", err))
			}
		}
		if time.Since(tidied) >= d.times.tidy {
			d.tidy(ctx)
			tidied = time.Now()
		}
	}
}

// ownTerm names this node's term, empty for none.
func (d *directory) ownTerm() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.term == nil {
		return ""
	}
	return d.term.name
}

// examine asks the leader whether a term is over, and takes its connections out if this falls to this node.
func (d *directory) examine(ctx context.Context, name string) error {
	now, err := d.ask(ctx, d.lease(name))
	switch {
	case err != nil:
		return err
	case now.state == stateLeft:
		return d.dispose(ctx, name)
	case now.state == stateAlive && d.log.opts.clustered(), // else it is of a process that was here before this one
		now.state == stateSweep && now.by != d.process, // else the sweep was broken off
		!d.maySweep():
		return nil
	}
	sent := time.Now()
	claim, err := d.claim(ctx, name, now.seq, sent)
	if refused(err) {
		return nil // somebody else has
	}
	if err != nil {
		return err
	}
	n, err := d.sweep(ctx, name, claim)
	d.log.opts.Logger.Info("subscribers of a node that has ended were taken out",
		slog.String("term", name), slog.Int("connections", n), slog.Any("error", err))
	return err
}

// claim makes the term this node's to sweep, in place of the message at seq, or goes on to.
func (d *directory) claim(ctx context.Context, name string, seq uint64, now time.Time) (uint64, error) {
	ctx, cancel := context.WithDeadline(ctx, now.Add(d.times.ttl/2))
	defer cancel()
	a, err := d.log.publish(ctx, d.replacing(d.lease(name), seq, stateSweep, d.process, d.times.ttl))
	return a.Sequence, err
}

// errStuck is about a mirror that does not show what was done.
var errStuck = errors.New("what was taken out is still listed")

// sweep takes the connections of a term out, with their events, and returns how many. Whatever hinders it, it
// breaks off; the claim expires, and whoever comes then goes on.
func (d *directory) sweep(ctx context.Context, name string, claim uint64) (n int, err error) {
	before := map[string]uint64{}
	for {
		if err := d.settle(ctx); err != nil {
			return n, err
		}
		some := d.mirror.some(name, sweepBatch)
		if len(some) == 0 {
			_, err = d.log.publish(ctx, d.replacing(d.lease(name), claim, stateSwept, d.process, overFor))
			return n, err
		}
		now := make(map[string]uint64, len(some))
		list, moved := make([]grave, 0, len(some)), false
		for key, h := range some {
			now[key] = h.seq
			moved = moved || before[key] != h.seq
			list = append(list, grave{key, h})
		}
		if before = now; !moved {
			d.mirror.again()
			return n, errStuck
		}
		sent := time.Now()
		if claim, err = d.claim(ctx, name, claim, sent); err != nil {
			return n, err
		}
		// a claim that is about to expire is another's soon
		until := sent.Add(d.times.ttl * 3 / 4)
		err = together(list, sweepMost, func(g grave) error { return d.bury(ctx, name, g, until) })
		if err != nil {
			return n, err
		}
		n += len(some)
	}
}

// grave is a connection of a dead node.
type grave struct {
	key string
	*held
}

// bury takes one connection out, with its events.
func (d *directory) bury(ctx context.Context, name string, g grave, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	subject, seq := d.connection(name, g.key), g.seq
	p, err := g.get()
	if err != nil {
		d.log.opts.Logger.Error("a subscriber in the directory cannot be read", slog.String("subject", subject), slog.Any("error", err))
		return d.bare(ctx, subject, seq)
	}
	if !g.dying {
		m := d.replacing(subject, seq, stateDying, d.process, 0)
		if m.Data, err = encodePresence(p); err != nil {
			return err
		}
		a, err := d.log.publish(ctx, m)
		if refused(err) {
			return nil // its own node has taken it out, or we have, and look again
		}
		if err != nil {
			return err
		}
		seq = a.Sequence
	}
	for i, u := range d.gone(p) {
		if time.Now().After(until) { // this process may have stood still
			return fmt.Errorf("%w: %w", transport.ErrUnavailable, context.DeadlineExceeded)
		}
		_, err := d.log.appendOnce(ctx, u, farewellNonce(name, g.key, i))
		if errors.Is(err, transport.ErrTooLarge) { // it will always be
			d.log.opts.Logger.Error("the end of a subscription cannot be told", slog.String("subscriber", p.Subscriber), slog.Any("error", err))
			continue
		}
		if err != nil {
			return err
		}
	}
	return d.bare(ctx, subject, seq)
}

// bare replaces a connection by its absence, unless somebody else has changed it.
func (d *directory) bare(ctx context.Context, subject string, seq uint64) error {
	_, err := d.log.publish(ctx, d.replacing(subject, seq, stateGone, d.process, goneFor))
	if refused(err) {
		return nil
	}
	return err
}

// farewellNonce is the same for all who sweep the term.
func farewellNonce(name, key string, i int) string {
	sum := sha256.Sum256([]byte(name + "." + key + "." + strconv.Itoa(i)))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// dispose takes out what a node has left behind that has ended politely, a part of it.
func (d *directory) dispose(ctx context.Context, name string) error {
	var list []grave
	for key, h := range d.mirror.some(name, sweepBatch) {
		list = append(list, grave{key, h})
	}
	return together(list, sweepMost, func(g grave) error { return d.bare(ctx, d.connection(name, g.key), g.seq) })
}

// together calls f for all items, up to most at a time, and returns the first error, after which it begins no more.
func together[T any](items []T, most int, f func(T) error) error {
	var (
		wg     sync.WaitGroup
		next   atomic.Int64
		failed = make(chan error, 1)
	)
	for range min(most, len(items)) {
		wg.Go(func() {
			for i := next.Add(1); int(i) <= len(items) && len(failed) == 0; i = next.Add(1) {
				if err := f(items[i-1]); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
