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
	// A lone node has nobody to spread its clients over: all streams end now, and come back at times
	// that their retry fields spread.
	return h.Drain(ctx, 0)
}

// Reload reads the keys and the certificate again. What cannot be read leaves the old one in use,
// as does a key in a pipe, which can be read only once.
// ctx ends the fetching of JWK Sets.
func (a *App) Reload(ctx context.Context) error {
	sets := ofBoth(&a.publisher, &a.subscriber, func(r *role) error { return r.reload(ctx) })
	p, s, err := newKeys(&a.publisher, &a.subscriber)
	if err == nil {
		a.auth.SetKeys(p, s)
	}
	err = errors.Join(sets, err)
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
