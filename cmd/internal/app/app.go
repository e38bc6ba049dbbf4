// Package app puts a hub together: configuration, keys, transport, hub and listeners, and it takes them
// apart again in the right order. It is the only package that knows all the others, and the only one but the
// commands that reads the environment.
package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/hub"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// How long each part may take to stop after the streams have ended.
const (
	stopRequests  = 2 * time.Second
	stopHub       = 2 * time.Second
	stopPresence  = 10 * time.Second // of the hub's time: to tell that those who were subscribed are gone
	stopTransport = 5 * time.Second
	stopAdmin     = time.Second
)

// startPatience is how long Start waits for the hub to become ready before it goes on without; clusterPatience is that
// of a node that clients need not go to: others are there, and a store that other servers share takes an election.
const (
	startPatience   = 10 * time.Second
	clusterPatience = time.Minute
)

// waitNotice is how often the log says that a node still waits for the others.
const waitNotice = 10 * time.Second

// App is one hub process as a value: New, Start, and Stop once. It handles no signals and never exits.
type App struct {
	// static after Start
	cfg        Config
	log        *slog.Logger
	publisher  role
	subscriber role
	issuers    []*issuerKeys
	resource   string // by which draft-08 tokens mean this hub
	proofs     proofs
	registry   *prometheus.Registry
	auth       *auth.JWT
	cert       *certificate // nil = plain HTTP
	addr       string
	adminAddr  string
	devDir     string // of the keys of --dev; empty = the data directory
	devToken   string // classic; empty = none was made
	devToken08 string // draft-08
	transport  transport.Transport

	hub     atomic.Pointer[hub.Hub]           // nil until there is one
	cluster atomic.Pointer[transport.Cluster] // nil until this node is part of one
	kept    atomic.Pointer[transport.Archive] // nil until there is one
	serving atomic.Bool                       // clients can connect
	alone   atomic.Bool                       // no other node will be there for the clients when this one stops
	life    lifecycle
	wg      sync.WaitGroup // everything that Start set going
	failed  chan error     // the first part that ended by itself
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
	p, s, keyErr := startKeys(&a.publisher, &a.subscriber)
	a.issuers = a.cfg.issuerKeys()
	trusted, issuerErr := trustedIssuers(a.issuers, false)
	var proofErr error
	a.proofs, proofErr = a.cfg.readProofs()
	if err := errors.Join(err, keyErr, issuerErr, proofErr); err != nil {
		return nil, err
	}
	if cfg.clustered() && cfg.NodeName != "" {
		a.log = log.With("node", cfg.NodeName)
		a.life.log, log = a.log, a.log
	}
	if cfg.TLSCert != "" {
		if a.cert, err = newCertificate(cfg.TLSCert, cfg.TLSKey, log); err != nil {
			return nil, err
		}
	}
	a.resource = cfg.resource()
	if a.auth, err = a.newAuth(p, s, nil); err != nil { // that of the start knows the issuers too
		return nil, err
	}
	keys := []auth.Keys{p, s}
	for _, i := range trusted {
		keys = append(keys, i.Keys)
	}
	for _, k := range keys {
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
	a.log.Info("listening", "url", a.URL(), "admin", a.adminAddr, "transport", a.cfg.Transport,
		"classic", a.cfg.Classic, "issuers", len(a.issuers), "open_files_limit", openFilesLimit())
	return nil
}

// Stop ends everything in this order: readiness, streams, requests, hub, transport, and the
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
	if strings.HasPrefix(a.addr, "unix:") {
		host = "localhost" // a socket has no name that a URL could carry
	} else if h, port, err := net.SplitHostPort(a.addr); err == nil {
		if ip := net.ParseIP(h); ip != nil && ip.IsUnspecified() {
			host = net.JoinHostPort("localhost", port)
		}
	}
	return scheme + "://" + host + a.cfg.HubPath
}

func (a *App) ready(ctx context.Context) error {
	h := a.hub.Load()
	if h == nil || !a.serving.Load() { // a node that is ready to serve first asks the others whom to keep away
		return errors.New("starting")
	}
	return h.Ready(ctx)
}

// archive returns the log as what can be saved and restored, nil until it is open.
func (a *App) archive() transport.Archive {
	if kept := a.kept.Load(); kept != nil {
		return *kept
	}
	return nil
}

func (a *App) fail(err error) {
	select {
	case a.failed <- err:
	default: // the first one counts
	}
}
