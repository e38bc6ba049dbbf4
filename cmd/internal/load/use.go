package load

import (
	"context"
	"errors"
	"time"
)

// use is what the hub and this process had used at one moment.
type use struct {
	at     time.Time
	server reading
	own    time.Duration
	err    error // of the Meter
	ownErr error
}

// measure reads the meters, ctx ended or not.
func (r *run) measure(ctx context.Context) use {
	u := use{at: time.Now()}
	u.server, u.err = r.target.Meter.read(context.WithoutCancel(ctx))
	u.own, u.ownErr = ownCPU()
	return u
}

// used writes what was used between two moments into the result, and per delivery and update if there were any.
func (r *run) used(before, after use, deliveries, updates int64) {
	took := max(after.at.Sub(before.at).Seconds(), 1e-9)
	if before.ownErr == nil && after.ownErr == nil {
		own := (after.own - before.own).Seconds()
		r.result.Generator = &Generator{CPU: own, Cores: own / took}
	}
	if !r.target.Meter.used() {
		return
	}
	if err := errors.Join(before.err, after.err); err != nil {
		r.result.Server = &Server{Error: err.Error()}
		return
	}
	cpu := (after.server.cpu - before.server.cpu).Seconds()
	s := &Server{CPU: cpu, Cores: cpu / took, RSSBefore: float64(before.server.rss) / 1024, RSSAfter: float64(after.server.rss) / 1024}
	if deliveries > 0 {
		s.CPUPerDelivery = new(cpu * 1e6 / float64(deliveries))
	}
	if updates > 0 {
		s.CPUPerUpdate = new(cpu * 1e6 / float64(updates))
	}
	r.result.Server = s
}
