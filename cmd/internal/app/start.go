package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/hub"
	"github.com/cinnabar-hub/cinnabar/hub/admin"
	"github.com/cinnabar-hub/cinnabar/hub/metrics"
	"github.com/cinnabar-hub/cinnabar/transport"
)

func (a *App) start(ctx context.Context) error {
	public, adminListeners, err := a.open(ctx)
	if err != nil {
		return err
	}
	a.registry = prometheus.NewRegistry()
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	adminHandler := admin.Handler(admin.Options{Gatherer: a.registry, Ready: a.ready})
	adminServer := newAdminServer(guardHost(adminHandler, a.cfg.PublicURL, false), a.log)
	a.life.add(step{name: "admin server", limit: stopAdmin, must: true, run: func(ctx context.Context) error {
		return shutdown(ctx, adminServer, a.log)
	}})
	for _, l := range adminListeners {
		a.goServe(adminServer, l, false)
	}

	log, err := openTransport(ctx, &a.cfg, a.proofs, a.log)
	if err != nil {
		return err
	}
	a.life.add(step{name: "transport", limit: stopTransport, must: true, run: log.Close})
	metrics.RegisterTransport(a.registry, log.Stats)
	if err := a.startAuth(ctx); err != nil {
		return err
	}
	h, err := a.startHub(ctx, log)
	if err != nil {
		return err
	}
	handler := h.Handler()
	if a.cfg.Dev {
		handler = guardHost(handler, a.cfg.PublicURL, true)
	}
	server := newServer(&a.cfg, handler, a.cert, a.log)
	a.life.add(step{name: "public server", limit: stopRequests, must: true, run: func(ctx context.Context) error {
		return shutdown(ctx, server, a.log)
	}})
	a.life.add(step{name: "streams", limit: a.cfg.DrainDelay + a.cfg.ShutdownTimeout, run: a.drain})
	for _, l := range public {
		a.goServe(server, l, a.cert != nil)
	}
	return nil
}

// open opens the listeners first, so that a port that is taken is told before anything else is touched.
func (a *App) open(ctx context.Context) (public, adminListeners []net.Listener, err error) {
	public, adminListeners, err = a.listeners(ctx)
	all := append(append([]net.Listener(nil), public...), adminListeners...)
	a.life.add(step{name: "listeners", limit: stopAdmin, must: true, run: func(ctx context.Context) error {
		for _, l := range all { // for a start that failed; the servers have closed them otherwise
			_ = l.Close()
		}
		return a.wait(ctx)
	}})
	if err != nil {
		return nil, nil, err
	}
	if err := a.judge(public, adminListeners); err != nil {
		return nil, nil, err
	}
	a.addr = address(public[0])
	if len(adminListeners) > 0 {
		a.adminAddr = address(adminListeners[0])
	}
	return public, adminListeners, nil
}

// judge tells what other machines can reach. It looks at the sockets that were really opened: Validate sees neither
// those that another process handed over nor what a name resolves to.
func (a *App) judge(public, adminListeners []net.Listener) error {
	warn := func(format string, l net.Listener) {
		a.log.Warn("configuration", "warning", fmt.Sprintf(format, address(l)))
	}
	for _, l := range public {
		switch {
		case !reachable(l):
		case a.cfg.Dev:
			return notForDev(l)
		case a.cert == nil:
			warn("plain HTTP on %s: tokens can be read on the way unless a proxy in front ends TLS", l)
		}
	}
	for _, l := range adminListeners {
		switch {
		case !reachable(l):
		case a.cfg.Dev:
			return notForDev(l)
		default:
			warn("the admin listener %s can be reached from other machines; profiles and metrics tell a lot about a hub", l)
		}
	}
	return nil
}

func notForDev(l net.Listener) error {
	return fmt.Errorf("--dev: the socket %s is not on a loopback address; --dev stays on this machine", address(l))
}

// listeners opens what --listen and --admin-listen name. Sockets that a service manager passed are used
// for --listen systemd, and when --listen was not given.
func (a *App) listeners(ctx context.Context) (public, adminListeners []net.Listener, err error) {
	if a.cfg.Listen == kindSystemd || a.cfg.ListenUnset {
		public, adminListeners = activated()
	}
	if len(public) == 0 {
		if a.cfg.Listen == kindSystemd {
			return nil, adminListeners, errors.New("listen on systemd: the service manager passed no socket")
		}
		l, err := listen(ctx, a.cfg.Listen)
		if err != nil {
			return nil, adminListeners, err
		}
		public = append(public, l)
	}
	if len(adminListeners) == 0 && a.cfg.AdminListen != "" {
		l, err := listen(ctx, a.cfg.AdminListen)
		if err != nil {
			return public, nil, fmt.Errorf("admin: %w", err)
		}
		adminListeners = append(adminListeners, l)
	}
	return public, adminListeners, nil
}

// startAuth completes the keys with those that New could not read: the ones of --dev, which lie in the
// data directory, and JWK Sets.
func (a *App) startAuth(ctx context.Context) error {
	if a.cfg.Dev {
		if err := a.addDevKeys(); err != nil {
			return err
		}
	}
	setCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // sets are followed beyond the start
	a.life.add(step{name: "keys", limit: stopAdmin, must: true, run: func(context.Context) error {
		cancel(nil)
		a.publisher.close()
		a.subscriber.close()
		return nil
	}})
	unlink := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	err := ofBoth(&a.publisher, &a.subscriber, func(r *role) error { return r.open(setCtx, a.log) })
	if !unlink() { // the start was called off meanwhile, and with it the sets
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	p, s, err := startKeys(&a.publisher, &a.subscriber)
	if err != nil {
		return err
	}
	a.auth.SetKeys(p, s)
	if a.cert != nil {
		a.wg.Go(func() { a.cert.watch(setCtx) })
	}
	return nil
}

// addDevKeys gives the generated key to the roles that have none. Only if both have it there is a token to
// print: one that never expires is not signed with a key that the operator may use elsewhere.
func (a *App) addDevKeys() error {
	k, err := loadDevKeys(a.cfg.DataDir)
	if err != nil {
		return err
	}
	generated := 0
	for _, r := range []*role{&a.publisher, &a.subscriber} {
		if r.key.IsZero() && r.jwks == "" {
			r.key, r.alg = NewSecret(k.Key), auth.DefaultAlgorithm
			generated++
		}
	}
	if generated == 2 {
		a.devToken, err = mintDevToken(k.Key)
	}
	return err
}

// startHub runs the hub until it is stopped, and waits until it is ready.
func (a *App) startHub(ctx context.Context, log transport.Transport) (*hub.Hub, error) {
	h, err := hub.New(a.cfg.hubOptions(log, a.auth, a.log, metrics.New(a.registry)))
	if err != nil {
		return nil, err
	}
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	a.wg.Go(func() {
		err := h.Run(runCtx)
		if runCtx.Err() == nil {
			a.fail(errors.Join(errors.New("the hub ended by itself"), err))
			err = nil
		}
		ended <- err
	})
	a.life.add(step{name: "hub", limit: stopHub, must: true, run: func(ctx context.Context) error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	a.hub.Store(h)
	return h, a.awaitReady(ctx, h)
}

// awaitReady waits for the hub's follower. A hub that takes longer serves nevertheless: it refuses by
// itself what it cannot do yet, and gets well without a restart.
func (a *App) awaitReady(ctx context.Context, h *hub.Hub) error {
	patience, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := h.Ready(patience)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case failed := <-a.failed:
			return failed
		case <-patience.Done():
			if ctx.Err() != nil { // it is the caller whose patience is over
				return context.Cause(ctx)
			}
			a.log.Warn("the hub is not ready yet", "error", err)
			return nil
		}
	}
}

func (a *App) goServe(s *http.Server, l net.Listener, overTLS bool) {
	a.wg.Go(func() {
		if err := serve(s, l, overTLS); err != nil {
			a.fail(fmt.Errorf("serve %s: %w", address(l), err))
		}
	})
}

func address(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}
