package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cinnabar-hub/cinnabar/hub"
	"github.com/cinnabar-hub/cinnabar/hub/metrics"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// orders is what an operator may ask of this node through the cluster; see transport.NodeControl. Unlike a shutdown,
// a drain by order can be taken back, and its node goes on taking publications.
type orders struct {
	app     *App
	started time.Time

	mu       sync.Mutex // guards below; one order at a time
	over     bool       // the process stops
	cancel   context.CancelFunc
	draining chan struct{} // closed when the drain under way has ended; nil while the node is in service
}

// startOrders lets the cluster that log is part of ask this node. A log in memory has none.
func (a *App) startOrders(ctx context.Context, log transport.Transport) error {
	c, ok := log.(transport.Cluster)
	if !ok {
		n := metrics.Node{Name: a.cfg.NodeName, Version: Version(), Mode: a.cfg.Transport}
		metrics.RegisterNode(a.registry, n, log.Stats, func() int { return 0 })
		return nil
	}
	name, mode := c.Node()
	metrics.RegisterNode(a.registry, metrics.Node{Name: name, Version: Version(), Mode: mode}, log.Stats, c.Peers)
	o := &orders{app: a, started: time.Now()}
	if err := c.Serve(ctx, o); err != nil {
		return err
	}
	a.cluster.Store(&c)
	a.life.add(step{name: "orders", limit: stopHub, must: true, run: func(context.Context) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.over = true
		o.end()
		return nil
	}})
	return nil
}

// clusterOf is what the admin listener shows, nil while there is none.
func (a *App) clusterOf() transport.Cluster {
	if c := a.cluster.Load(); c != nil {
		return *c
	}
	return nil
}

// directory is what the admin listener counts in, nil while there is none.
func (a *App) directory() transport.Directory {
	if a.hub.Load() == nil { // which attends to it first
		return nil
	}
	return directoryOf(a.transport)
}

// directoryOf returns the list of who is subscribed that log keeps.
func directoryOf(log transport.Transport) transport.Directory {
	d, _ := log.(transport.Directory)
	return d
}

// disconnect carries a ban out on all nodes, or on this one if it is the only one.
func (a *App) disconnect(ctx context.Context, b transport.Ban) (transport.Banned, error) {
	if c := a.clusterOf(); c != nil {
		return c.Disconnect(ctx, b)
	}
	if a.cfg.Transport != "memory" || a.hub.Load() == nil {
		return transport.Banned{}, fmt.Errorf("%w: starting", transport.ErrUnavailable)
	}
	if err := b.Validate(); err != nil {
		return transport.Banned{}, err
	}
	n, err := (&orders{app: a}).Disconnect(ctx, b)
	if err != nil {
		return transport.Banned{}, fmt.Errorf("%w: %w", transport.ErrRefused, err)
	}
	return transport.Banned{Streams: n, Nodes: []transport.NodeBanned{{Name: a.cfg.NodeName, Answers: true, Streams: n}}}, nil
}

// Report tells of the hub; see transport.NodeControl.
func (o *orders) Report(ctx context.Context) transport.NodeReport {
	h := o.app.hub.Load()
	r := transport.NodeReport{Version: Version(), Started: o.started, Connections: h.Connections(), Draining: o.ordered() || h.Draining()}
	if err := h.Ready(ctx); err != nil {
		r.Reason = err.Error()
	} else {
		r.Ready = true
	}
	return r
}

// Drain takes the hub out of service in the order of a shutdown, and goes on in the background. On a node that is
// being drained it does nothing.
func (o *orders) Drain(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return hub.ErrShuttingDown
	}
	if o.draining != nil {
		return nil
	}
	a := o.app
	ctx, o.cancel = context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	o.draining = done
	a.log.Info("draining by order", "drain_delay", a.cfg.DrainDelay)
	a.hub.Load().Cordon()
	a.wg.Go(func() {
		defer close(done)
		select {
		case <-time.After(a.cfg.DrainDelay):
		case <-ctx.Done(): // before any stream was told to end
			return
		}
		if err := a.hub.Load().Drain(ctx, a.spread(ctx)); err != nil {
			a.log.Info("drain by order ended early", "error", err)
			return
		}
		a.log.Info("drained by order: no stream is left, publications are still taken")
	})
	return nil
}

// Undrain takes the hub into service again, whether or not all streams have ended.
func (o *orders) Undrain(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return hub.ErrShuttingDown
	}
	o.end()
	return o.app.hub.Load().Undrain()
}

// maxKeptAway is how many subjects may be kept away at a time: every node keeps all of them in its memory.
const maxKeptAway = 5000

// Disconnect ends streams and keeps their clients away; see transport.NodeControl.
func (o *orders) Disconnect(ctx context.Context, b transport.Ban) (int, error) {
	if b.For > 0 && len(o.Bans()) >= maxKeptAway {
		return 0, fmt.Errorf("%d subjects are kept away already", maxKeptAway)
	}
	return o.app.hub.Load().Disconnect(ctx, b)
}

// Bans are those in force.
func (o *orders) Bans() []transport.Ban { return o.app.hub.Load().Bans() }

// end calls off a drain under way and waits until it has noticed, or it would begin after the hub was taken back.
func (o *orders) end() {
	if o.draining != nil {
		o.cancel()
		<-o.draining
		o.draining = nil
	}
}

func (o *orders) ordered() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.draining != nil
}
