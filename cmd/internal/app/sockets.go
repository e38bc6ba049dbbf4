package app

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// sockets are the listeners of a hub.
type sockets struct {
	public, admin []net.Listener
	passed        bool // the public ones came from a service manager
}

func (s *sockets) close() {
	for _, l := range append(append([]net.Listener(nil), s.public...), s.admin...) {
		_ = l.Close() // a server may have closed it already
	}
}

// open opens the listeners first, so that a port that is taken is told before anything else is touched. A node that has
// to wait for others closes its public port again, and gives none: while it was open, load balancers would leave clients
// with a node that does not answer, instead of going on to one that does. openLate opens it.
func (a *App) open(ctx context.Context) (sockets, error) {
	s, err := a.listeners(ctx)
	a.life.add(step{name: "listeners", limit: stopAdmin, must: true, run: func(ctx context.Context) error {
		s.close() // for a start that failed
		return a.wait(ctx)
	}})
	if err == nil {
		err = a.judge(s.public, s.admin)
	}
	if err == nil && a.cfg.ClusterListen != "" {
		err = free(ctx, a.cfg.ClusterListen)
	}
	if err != nil {
		return sockets{}, err
	}
	a.addr = address(s.public[0])
	if len(s.admin) > 0 {
		a.adminAddr = address(s.admin[0])
	}
	if kind, _, _ := splitAddress(a.cfg.Listen); a.cfg.clustered() && kind == kindTCP && !s.passed {
		_ = s.public[0].Close()
		return sockets{admin: s.admin}, nil
	}
	return s, nil
}

// free looks whether the address of the cluster listener can be had. The embedded server, which opens it, would wait for
// the other nodes for ever without it.
func free(ctx context.Context, address string) error {
	l, err := listen(ctx, address)
	if err != nil {
		return fmt.Errorf("--cluster-listen: %w", err)
	}
	return l.Close()
}

// openLate opens the public port of a node that others do not have to wait for any longer.
func (a *App) openLate(ctx context.Context) ([]net.Listener, error) {
	l, err := listen(ctx, a.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	a.addr = address(l)
	return []net.Listener{l}, nil
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
// for --listen systemd, and when --listen was not given. What it opened before an error is returned with it.
func (a *App) listeners(ctx context.Context) (s sockets, err error) {
	if a.cfg.Listen == kindSystemd || a.cfg.ListenUnset {
		s.public, s.admin = activated()
		s.passed = len(s.public) > 0
	}
	if len(s.public) == 0 {
		if a.cfg.Listen == kindSystemd {
			return s, errors.New("listen on systemd: the service manager passed no socket")
		}
		l, err := listen(ctx, a.cfg.Listen)
		if err != nil {
			return s, fmt.Errorf("--listen: %w", err)
		}
		s.public = append(s.public, l)
	}
	if len(s.admin) == 0 && a.cfg.AdminListen != "" {
		l, err := listen(ctx, a.cfg.AdminListen)
		if err != nil {
			return s, fmt.Errorf("--admin-listen: %w", err)
		}
		s.admin = append(s.admin, l)
	}
	return s, nil
}

func address(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}
