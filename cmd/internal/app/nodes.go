package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
)

// Nodes is several hubs in one process that are a cluster, each with its directory below the data directory, and with
// ports of its own. It is there to try out what many nodes do: they fall together with the process. Its methods are
// those of App.
type Nodes struct {
	// static after Start
	cfg  Config
	log  *slog.Logger
	apps []*App

	stopped chan struct{} // closed when Stop begins
	once    sync.Once
	wg      sync.WaitGroup // what waits for nodes that end by themselves
	failed  chan error
}

// NewNodes checks cfg, whose Nodes says how many. It opens nothing. log may be nil.
func NewNodes(cfg Config, log *slog.Logger) (*Nodes, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := Check(cfg); err != nil {
		return nil, err
	}
	return &Nodes{cfg: cfg, log: log, stopped: make(chan struct{}), failed: make(chan error, cfg.Nodes)}, nil
}

// Start starts all nodes, which wait for each other, and returns when each serves its clients. What was
// started before an error is stopped again. ctx bounds the start alone. Call it once.
func (n *Nodes) Start(ctx context.Context) error {
	if err := n.make(); err != nil {
		return err
	}
	startCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var starts sync.WaitGroup
	for _, a := range n.apps {
		starts.Go(func() {
			if err := a.Start(startCtx); err != nil {
				cancel(fmt.Errorf("%s: %w", a.cfg.NodeName, err)) // the first one is why the others end
			}
		})
	}
	starts.Wait()
	if err := context.Cause(startCtx); err != nil {
		_ = n.Stop(ctx) // each has told what went wrong
		return err
	}
	for _, a := range n.apps {
		n.wg.Go(func() {
			select {
			case err := <-a.Failed():
				n.failed <- fmt.Errorf("%s: %w", a.cfg.NodeName, err) // there is room for one of each
			case <-n.stopped:
			}
		})
	}
	return nil
}

// make makes the hubs, with keys that they share.
func (n *Nodes) make() error {
	keys, err := loadDevKeys(n.cfg.DataDir)
	if err != nil {
		return err
	}
	peers, err := freeAddresses(n.cfg.Nodes)
	if err != nil {
		return err
	}
	for i, own := range peers {
		cfg := n.cfg
		cfg.Nodes, cfg.NodeName = 1, "node-"+strconv.Itoa(i+1)
		cfg.DataDir = filepath.Join(n.cfg.DataDir, cfg.NodeName)
		cfg.ResourceIdentifier = n.resource()
		cfg.ClusterListen, cfg.ClusterPeers, cfg.ClusterSecret = own, peers, NewSecret(keys.Cluster)
		if cfg.Listen, err = shifted(n.cfg.Listen, 2*i); err != nil {
			return err
		}
		if cfg.AdminListen, err = shifted(n.cfg.AdminListen, 2*i); err != nil {
			return err
		}
		a, err := New(cfg, n.log)
		if err != nil {
			return fmt.Errorf("%s: %w", cfg.NodeName, err)
		}
		a.devDir = n.cfg.DataDir
		n.apps = append(n.apps, a)
	}
	return nil
}

// resource is the name of all nodes towards those who make tokens, so that one token is good at each: as long as it was
// not given, that of the first.
func (n *Nodes) resource() string {
	if r := n.cfg.resource(); r != "" {
		return r
	}
	u := url.URL{Scheme: "http", Host: n.cfg.Listen, Path: n.cfg.HubPath}
	if host, port, err := net.SplitHostPort(n.cfg.Listen); err == nil && port == "0" { // not known yet
		u.Host = host
	}
	if n.cfg.TLSCert != "" {
		u.Scheme = "https"
	}
	return u.String()
}

// freeAddresses gives n different addresses of the loopback that nobody listens on. Their ports are not of those that the
// system gives to connections, one of which could have them before they are used.
func freeAddresses(n int) ([]string, error) {
	var held []net.Listener
	defer func() { // all at the end, or the same could come again
		for _, l := range held {
			_ = l.Close()
		}
	}()
	addresses := make([]string, 0, n)
	var failed error
	for range 1000 {
		if len(addresses) == n {
			return addresses, nil
		}
		port := 20000 + rand.N(12000)                                //nolint:gosec // keeps no secret
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)) //nolint:noctx // takes no time
		if err != nil {
			failed = err
			continue
		}
		held, addresses = append(held, l), append(addresses, l.Addr().String())
	}
	return nil, fmt.Errorf("look for a free port: %w", failed)
}

// Stop stops all nodes at the same time; see App.Stop.
func (n *Nodes) Stop(ctx context.Context) error {
	n.once.Do(func() { close(n.stopped) })
	n.wg.Wait()
	return n.each(func(a *App) error {
		a.alone.Store(true) // the others leave as well
		return a.Stop(ctx)
	})
}

// Reload reads keys and certificates again, for all nodes; see App.Reload.
func (n *Nodes) Reload(ctx context.Context) error {
	return n.each(func(a *App) error { return a.Reload(ctx) })
}

// each does something for all nodes at the same time and joins the errors.
func (n *Nodes) each(do func(*App) error) error {
	errs := make([]error, len(n.apps))
	var wg sync.WaitGroup
	for i, a := range n.apps {
		wg.Go(func() {
			if err := do(a); err != nil {
				errs[i] = fmt.Errorf("%s: %w", a.cfg.NodeName, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Failed delivers the error of a node that ended by itself; all must be stopped then.
func (n *Nodes) Failed() <-chan error { return n.failed }

// URL is the first node's URL as seen from this machine, once Start has returned.
func (n *Nodes) URL() string { return n.apps[0].URL() }

// WriteBanner writes the URLs of all nodes and lines to try them; see App.WriteBanner.
func (n *Nodes) WriteBanner(w io.Writer, version string) error {
	return writeBanner(w, version, n.apps)
}
