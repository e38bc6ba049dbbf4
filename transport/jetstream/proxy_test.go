package jetstream

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// proxy carries TCP connections to an address until it is cut.
type proxy struct {
	listener net.Listener
	to       func() string
	wg       sync.WaitGroup

	mu    sync.Mutex // guards below
	conns map[net.Conn]struct{}
	down  bool
}

// newProxy runs a proxy until the test ends. `to` is asked for each connection.
func newProxy(t testing.TB, to func() string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() { _ = l.Close(); p.cut(); p.wg.Wait() })
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to())
		if err != nil || !p.keep(in, out) {
			_ = in.Close()
			if out != nil {
				_ = out.Close()
			}
			continue
		}
		p.wg.Go(func() { p.copy(in, out) })
		p.wg.Go(func() { p.copy(out, in) })
	}
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return true
}

func (p *proxy) copy(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, to)
	delete(p.conns, from)
}

// cut breaks all connections and lets none through until heal.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// cuttable are three servers whose routes go through proxies.
type cuttable struct {
	*servers
	routes [3][3]*proxy // from, to
}

func newCuttable(t testing.TB) *cuttable {
	t.Helper()
	c := &cuttable{}
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	var addrs [3]string
	for i, port := range freePorts(t, len(dirs)) {
		addrs[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	for i := range dirs {
		for j := range dirs {
			if i != j {
				c.routes[i][j] = newProxy(t, func() string { return addrs[j] })
			}
		}
	}
	c.servers = startServers(t, dirs, func(i int, o *server.Options) {
		_, port, _ := net.SplitHostPort(addrs[i])
		_, _ = fmt.Sscan(port, &o.Cluster.Port)
		o.Cluster.NoAdvertise = true                          // clients do not learn of the other servers
		o.Cluster.Advertise = "127.0.0.1:1"                   // nor servers of a way around the proxies
		o.Routes = server.RoutesFromStr("nats://" + addrs[i]) // itself is counted
		for j, p := range c.routes[i] {
			if j != i {
				o.Routes = append(o.Routes, server.RoutesFromStr("nats://"+p.addr())...)
			}
		}
	})
	t.Cleanup(c.stopAll)
	return c
}

// each calls f for the routes from and to server k.
func (c *cuttable) each(k int, f func(*proxy)) {
	for i := range c.routes {
		for j, p := range c.routes[i] {
			if i != j && (i == k || j == k) {
				f(p)
			}
		}
	}
}
