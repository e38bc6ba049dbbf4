// Package app puts a hub together: configuration, keys, transport, hub and listeners, and it takes them
// apart again in the right order. It is the only package that knows all the others, and the only one but the
// commands that reads the environment.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/hub"
	"github.com/cinnabar-hub/cinnabar/hub/admin"
	"github.com/cinnabar-hub/cinnabar/hub/metrics"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// How long each part may take to stop after the streams have ended.
const (
	stopRequests  = 2 * time.Second
	stopHub       = 2 * time.Second
	stopTransport = 5 * time.Second
	stopAdmin     = time.Second
)

// startPatience is how long Start waits for the hub to become ready before it goes on without.
const startPatience = 10 * time.Second

// App is one hub process as a value: New, Start, and Stop once. It handles no signals and never exits.
type App struct {
	// static after Start
	cfg        Config
	log        *slog.Logger
	publisher  role
	subscriber role
	registry   *prometheus.Registry
	auth       *auth.JWT
	cert       *certificate // nil = plain HTTP
	addr       string
	adminAddr  string
	devToken   string

	hub    atomic.Pointer[hub.Hub] // nil until there is one
	life   lifecycle
	wg     sync.WaitGroup // everything that Start set going
	failed chan error     // the first part that ended by itself
}

// New checks cfg and reads the keys, and logs what an operator should know. It opens nothing else.
// log may be nil.
func New(cfg Config, log *slog.Logger) (*App, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a := &App{cfg: cfg, log: log, life: lifecycle{log: log}, failed: make(chan error, 1)}
	warnings, err := a.cfg.Validate()
	a.publisher, a.subscriber = a.cfg.roles()
	p, s, keyErr := bothKeys(&a.publisher, &a.subscriber)
	if err := errors.Join(err, keyErr); err != nil {
		return nil, err
	}
	if cfg.TLSCert != "" {
		if a.cert, err = newCertificate(cfg.TLSCert, cfg.TLSKey, log); err != nil {
			return nil, err
		}
	}
	if a.auth, err = auth.New(cfg.authOptions()); err != nil {
		return nil, err
	}
	a.auth.SetKeys(p, s)
	for _, k := range []auth.Keys{p, s} {
		if k != nil {
			warnings = append(warnings, k.Warnings()...)
		}
	}
	for _, w := range warnings {
		log.Warn("configuration", "warning", w)
	}
	return a, nil
}

// Start opens the listeners, the transport and the hub, and returns when clients are being served. What
// was opened before an error is closed again. ctx bounds the start alone. Call it once.
func (a *App) Start(ctx context.Context) error {
	if err := a.start(ctx); err != nil {
		return errors.Join(err, a.Stop(ctx))
	}
	a.log.Info("listening", "url", a.URL(), "admin", a.adminAddr, "transport", a.cfg.Transport, "open_files_limit", openFilesLimit())
	return nil
}

func (a *App) start(ctx context.Context) error {
	public, adminListeners, err := a.open(ctx)
	if err != nil {
		return err
	}
	a.registry = prometheus.NewRegistry()
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	adminServer := newAdminServer(admin.Handler(admin.Options{Gatherer: a.registry, Ready: a.ready}), a.log)
	a.life.add(step{name: "admin server", limit: stopAdmin, must: true, run: func(ctx context.Context) error {
		return shutdown(ctx, adminServer)
	}})
	for _, l := range adminListeners {
		a.goServe(adminServer, l)
	}

	log, err := openTransport(ctx, &a.cfg, a.log)
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
	server := newServer(&a.cfg, h.Handler(), a.cert, a.log)
	a.life.add(step{name: "public server", limit: stopRequests, must: true, run: func(ctx context.Context) error {
		return shutdown(ctx, server)
	}})
	a.life.add(step{name: "streams", limit: a.cfg.DrainDelay + a.cfg.ShutdownTimeout, run: a.drain})
	for _, l := range public {
		a.goServe(server, l)
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
	a.addr = address(public[0])
	if len(adminListeners) > 0 {
		a.adminAddr = address(adminListeners[0])
	}
	return public, adminListeners, nil
}

// listeners opens what --listen and --admin-listen name. Sockets that a service manager passed are used
// for --listen systemd, and for the default address.
func (a *App) listeners(ctx context.Context) (public, adminListeners []net.Listener, err error) {
	if d := Default(); a.cfg.Listen == kindSystemd || a.cfg.Listen == d.Listen {
		if public, adminListeners, err = activated(); err != nil {
			return public, adminListeners, err
		}
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
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.life.add(step{name: "keys", limit: stopAdmin, must: true, run: func(context.Context) error {
		cancel()
		a.publisher.close()
		a.subscriber.close()
		return nil
	}})
	if err := errors.Join(a.publisher.open(ctx, a.log), a.subscriber.open(ctx, a.log)); err != nil {
		return err
	}
	p, s, err := bothKeys(&a.publisher, &a.subscriber)
	if err != nil {
		return err
	}
	a.auth.SetKeys(p, s)
	if a.cert != nil {
		a.wg.Go(func() { a.cert.watch(ctx) })
	}
	return nil
}

func (a *App) addDevKeys() error {
	k, err := loadDevKeys(a.cfg.DataDir)
	if err != nil {
		return err
	}
	for _, r := range []*role{&a.publisher, &a.subscriber} {
		if r.key.IsZero() && r.jwks == "" {
			r.key, r.alg = NewSecret(k.Key), auth.DefaultAlgorithm
		}
	}
	a.devToken = mintDevToken(a.publisher.key, a.subscriber.key, a.publisher.alg, a.subscriber.alg)
	return nil
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
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := h.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case failed := <-a.failed:
			return failed
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				a.log.Warn("the hub is not ready yet", "error", err)
				return nil
			}
			return context.Cause(ctx)
		}
	}
}

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

// Reload reads the keys and the certificate again. What cannot be read leaves the old one in use.
func (a *App) Reload(ctx context.Context) error {
	sets := errors.Join(a.publisher.reload(ctx), a.subscriber.reload(ctx))
	p, s, err := bothKeys(&a.publisher, &a.subscriber)
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

// Stop ends everything in the order of the package comment's design: streams, requests, hub, transport,
// admin listener last so that the end can be watched. ctx bounds the wait for streams; what keeps data
// whole gets a few seconds more. It joins what went wrong. Calling it again waits and returns the same.
func (a *App) Stop(ctx context.Context) error { return a.life.stop(ctx) }

// Failed delivers the error of a part that ended by itself; the hub must be stopped then.
func (a *App) Failed() <-chan error { return a.failed }

// Addr is the public address, host:port or unix:PATH, once Start has returned.
func (a *App) Addr() string { return a.addr }

// AdminAddr is the address of the admin listener, empty if there is none.
func (a *App) AdminAddr() string { return a.adminAddr }

// URL is the hub's URL as seen from this machine.
func (a *App) URL() string {
	scheme, host := "http", a.addr
	if a.cert != nil {
		scheme = "https"
	}
	if h, port, err := net.SplitHostPort(a.addr); err != nil {
		host = "localhost" // a Unix socket
	} else if ip := net.ParseIP(h); ip != nil && ip.IsUnspecified() {
		host = net.JoinHostPort("localhost", port)
	}
	return scheme + "://" + host + a.cfg.HubPath
}

func (a *App) ready(ctx context.Context) error {
	h := a.hub.Load()
	if h == nil {
		return errors.New("starting")
	}
	return h.Ready(ctx)
}

func (a *App) goServe(s *http.Server, l net.Listener) {
	a.wg.Go(func() {
		if err := serve(s, l); err != nil {
			a.fail(fmt.Errorf("serve %s: %w", address(l), err))
		}
	})
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

func (a *App) fail(err error) {
	select {
	case a.failed <- err:
	default: // the first one counts
	}
}

func address(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}
