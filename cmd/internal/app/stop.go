package app

import (
	"context"
	"errors"
	"time"
)

// drain takes the hub out of service in the order that costs clients least: readiness first, so that load
// balancers look elsewhere; then no new streams; then the open ones end, each after a whole event.
func (a *App) drain(ctx context.Context) error {
	h := a.hub.Load()
	h.SetNotReady()
	if d := a.cfg.DrainDelay; d > 0 {
		a.log.Info("not ready any more, still serving", "drain_delay", d)
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	spread := a.spread(ctx)
	if spread > 0 {
		a.log.Info("ending streams", "over", spread.Round(time.Millisecond), "other_nodes", true)
	}
	return h.Drain(ctx, spread)
}

// Streams of a node that leaves others behind end over this part of what is left of the time, and not over more than this.
// The rest is for those that take their last event slowly.
const (
	spreadPart = 0.7
	spreadMost = 20 * time.Second
)

// spread is the time over which streams end, so that the other nodes are not met by all clients at once (SUB-38). A lone
// node has nobody to spread its clients over: all streams end now, and come back at times that their retry fields spread.
func (a *App) spread(ctx context.Context) time.Duration {
	if !a.cfg.clustered() || a.alone.Load() {
		return 0
	}
	// A log that knows nothing of the other nodes may still have some.
	if l, ok := a.transport.(interface{ Peers() int }); ok && l.Peers() == 0 {
		return 0
	}
	deadline, ok := ctx.Deadline()
	if !ok { // the step has a limit
		return spreadMost
	}
	return max(0, min(spreadMost, time.Duration(spreadPart*float64(time.Until(deadline)))))
}

// Reload reads the keys and the certificate again. What cannot be read leaves the old one in use,
// as does a key in a pipe, which can be read only once.
// ctx ends the fetching of JWK Sets.
func (a *App) Reload(ctx context.Context) error {
	sets := errors.Join(
		ofBoth(&a.publisher, &a.subscriber, func(r *role) error { return r.reload(ctx) }),
		ofEach(a.issuers, func(i *issuerKeys) error { return i.reload(ctx) }),
	)
	p, s, err := newKeys(&a.publisher, &a.subscriber)
	if err == nil {
		a.auth.SetKeys(p, s)
	}
	trusted, issuerErr := trustedIssuers(a.issuers, true)
	if issuerErr == nil {
		issuerErr = a.auth.SetIssuers(trusted)
	}
	err = errors.Join(sets, err, issuerErr)
	if a.cert != nil {
		err = errors.Join(err, a.cert.reload())
	}
	if err != nil {
		a.log.Error("reload failed, what could not be read stays as it was", "error", err)
		return err
	}
	a.log.Info("reloaded", "keys", true, "certificate", a.cert != nil)
	return nil
}

// wait waits for every goroutine that Start set going.
func (a *App) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { // ends with the last of them
		a.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
