//go:build linux

package cluster_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// aside is where links listen and dial from. Servers tell each other from where they were reached, and would
// connect around a link whose two ends have the address of the servers themselves; here nobody but links listens.
const aside = "127.0.0.99"

// link is a TCP connection's detour over which a test has power: it can be cut and healed.
type link struct {
	addr   string // where it listens
	target string
	wg     sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener          // guarded by mu; nil = cut
	conns    map[net.Conn]struct{} // guarded by mu
}

// newLink makes a link to target, healed.
func newLink(t *testing.T, target string) *link {
	t.Helper()
	l := &link{addr: child.FreePort(t, aside), target: target, conns: map[net.Conn]struct{}{}}
	l.heal(t)
	t.Cleanup(func() {
		l.cut()
		l.wg.Wait()
	})
	return l
}

// heal lets connections through.
func (l *link) heal(t *testing.T) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.WithoutCancel(t.Context()), "tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.listener = listener
	l.mu.Unlock()
	l.wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // cut
			}
			l.wg.Go(func() { l.carry(listener, c) })
		}
	})
}

// cut closes every connection and refuses new ones.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		return
	}
	_ = l.listener.Close()
	l.listener = nil
	for c := range l.conns {
		_ = c.Close()
	}
}

// carry copies between both ends until one of them ends.
func (l *link) carry(of net.Listener, c net.Conn) {
	defer c.Close()
	d := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(aside)}}
	far, err := d.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer far.Close()
	l.mu.Lock()
	if l.listener != of { // cut meanwhile
		l.mu.Unlock()
		return
	}
	l.conns[c], l.conns[far] = struct{}{}, struct{}{}
	l.mu.Unlock()
	var both sync.WaitGroup
	for _, d := range [][2]net.Conn{{c, far}, {far, c}} {
		both.Go(func() {
			_, _ = io.Copy(d[0], d[1])
			_ = c.Close()
			_ = far.Close()
		})
	}
	both.Wait()
	l.mu.Lock()
	delete(l.conns, c)
	delete(l.conns, far)
	l.mu.Unlock()
}

// carries is how many connections go through the link.
func (l *link) carries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns) / 2
}
