package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/hub"
	"github.com/cinnabar-hub/cinnabar/hub/admin"
	"github.com/cinnabar-hub/cinnabar/hub/metrics"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

func (a *App) start(ctx context.Context) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	a.registry = prometheus.NewRegistry()
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	adminOptions := admin.Options{Gatherer: a.registry, Ready: a.ready, Logger: a.log, Disconnect: a.disconnect}
	if a.cfg.Subscriptions {
		adminOptions.Directory, adminOptions.Base = a.directory, a.cfg.base()
	}
	if a.cfg.Transport != "memory" {
		adminOptions.Cluster = a.clusterOf
		adminOptions.Archive = a.archive
	}
	adminHandler := admin.Handler(adminOptions)
	adminServer := newAdminServer(guardHost(adminHandler, a.cfg.PublicURL, false), a.log)
	a.life.add(step{name: "admin server", limit: stopAdmin, must: true, run: func(ctx context.Context) error {
		return shutdown(ctx, adminServer, a.log)
	}})
	for _, l := range s.admin {
		a.goServe(adminServer, l, false)
	}

	log, err := a.openLog(ctx)
	if err != nil {
		return err
	}
	a.transport = log
	if kept, ok := log.(transport.Archive); ok {
		a.kept.Store(&kept)
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
	public := s.public
	if len(public) == 0 {
		if public, err = a.openLate(ctx); err != nil {
			return err
		}
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
	if err := a.startOrders(ctx, log); err != nil {
		return err
	}
	for _, l := range public {
		a.goServe(server, l, a.cert != nil)
	}
	a.serving.Store(true)
	return nil
}

// startAuth completes the keys with those that New could not read: the ones of --dev, which lie in the
// data directory, and JWK Sets. The address is known now, by which a hub of --dev calls itself.
func (a *App) startAuth(ctx context.Context) error {
	if a.cfg.Dev {
		a.resource = cmp.Or(a.resource, a.URL())
		if err := a.addDevKeys(); err != nil {
			return err
		}
	}
	setCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // sets are followed beyond the start
	a.life.add(step{name: "keys", limit: stopAdmin, must: true, run: func(context.Context) error {
		cancel(nil)
		a.publisher.close()
		a.subscriber.close()
		return ofEach(a.issuers, func(i *issuerKeys) error { i.close(); return nil })
	}})
	unlink := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	err := a.openSets(setCtx)
	if !unlink() { // the start was called off meanwhile, and with it the sets
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	p, s, err := startKeys(&a.publisher, &a.subscriber)
	trusted, issuerErr := trustedIssuers(a.issuers, false)
	if err := errors.Join(err, issuerErr); err != nil {
		return err
	}
	if a.auth, err = a.newAuth(p, s, trusted); err != nil {
		return err
	}
	if a.cert != nil {
		a.wg.Go(func() { a.cert.watch(setCtx) })
	}
	return nil
}

// openSets opens all JWK Sets at the same time.
func (a *App) openSets(ctx context.Context) error {
	var others error
	var wg sync.WaitGroup
	wg.Go(func() { others = ofEach(a.issuers, func(i *issuerKeys) error { return i.open(ctx, a.log) }) })
	err := ofBoth(&a.publisher, &a.subscriber, func(r *role) error { return r.open(ctx, a.log) })
	wg.Wait()
	return errors.Join(err, others)
}

// newAuth makes the authorizer.
func (a *App) newAuth(publisher, subscriber auth.Keys, issuers []auth.Issuer) (*auth.JWT, error) {
	o := a.cfg.authOptions()
	o.Publisher, o.Subscriber, o.Issuers, o.Resource = publisher, subscriber, issuers, a.resource
	return auth.New(o)
}

// addDevKeys gives the generated key to the roles that have none, and, where neither keys nor an issuer were given, makes
// an issuer of its own. Only if both roles have the key there is a token to print: one that never expires is not signed
// with a key that the operator may use elsewhere.
func (a *App) addDevKeys() error {
	k, err := loadDevKeys(cmp.Or(a.devDir, a.cfg.DataDir))
	if err != nil {
		return err
	}
	if len(a.issuers) == 0 && !a.cfg.hasRoleKeys() {
		a.issuers = []*issuerKeys{{Issuer: Issuer{URL: devIssuer, Keys: []IssuerKey{{Key: NewSecret(k.Issuer)}}}}}
		if a.devToken08, err = mintDevToken08(k.Issuer, a.resource); err != nil {
			return err
		}
	}
	if !a.cfg.Classic {
		return nil
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
	o := a.cfg.hubOptions(log, a.auth, a.log, metrics.New(a.registry))
	if len(a.issuers) > 0 { // its presence tells clients that draft-08 may be used (G-18)
		o.Metadata = &spec.ResourceMetadata{
			Resource: a.resource, AuthorizationServers: authorizationServers(a.issuers), Cookie: cmp.Or(a.cfg.AccessTokenCookie, spec.CookieDraft08),
		}
	}
	if a.cfg.Subscriptions {
		o.Directory, o.RejoinGrace = directoryOf(log), a.cfg.RejoinGrace
	}
	h, err := hub.New(o)
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
	limit := stopHub
	if a.cfg.Subscriptions {
		limit += stopPresence
	}
	a.life.add(step{name: "hub", limit: limit, must: true, run: func(ctx context.Context) error {
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

// openLog opens the log. On the nodes of a cluster that takes until enough of the others are there, for as long as ctx
// lasts: they may have been started in any order, or be waiting for a machine. The admin listener answers meanwhile.
func (a *App) openLog(ctx context.Context) (transport.Transport, error) {
	if a.cfg.clustered() {
		opened := make(chan struct{})
		var told sync.WaitGroup
		told.Go(func() { a.tellWaiting(opened) })
		defer told.Wait()
		defer close(opened)
	}
	log, err := openTransport(ctx, &a.cfg, a.proofs, a.log)
	if err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) { // why it was called off says more than what it was doing
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return log, err
}

// tellWaiting says until opened is closed that the log is not open.
func (a *App) tellWaiting(opened <-chan struct{}) {
	const text = "waiting for the log: its servers, or enough of the other nodes, have to be there"
	a.log.Info(text)
	begin := time.Now()
	tick := time.NewTicker(waitNotice)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.log.Info(text, "since", time.Since(begin).Round(time.Second))
		case <-opened:
			return
		}
	}
}

// awaitReady waits for the hub's follower. A hub that takes longer serves nevertheless: it refuses by
// itself what it cannot do yet, and gets well without a restart.
func (a *App) awaitReady(ctx context.Context, h *hub.Hub) error {
	limit := startPatience
	if a.cfg.clustered() {
		limit = clusterPatience
	}
	patience, cancel := context.WithTimeout(ctx, limit)
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
