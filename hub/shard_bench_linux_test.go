package hub

import (
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkShardWrite writes an event of 300 bytes to a socket on the loopback: as a shard does, and through the
// connection that the descriptor belongs to.
func BenchmarkShardWrite(b *testing.B) {
	var lc net.ListenConfig
	l, err := lc.Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	var d net.Dialer
	conn, err := d.DialContext(b.Context(), "tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(); <-drained }()

	n := newNode(b, nil)
	s := n.listener(nil, "a")
	k := newH1Sink(conn, s, true, nil)
	s.sink = k
	sh := newShard(n.Hub, nil)
	if err := k.raw.Control(func(fd uintptr) { s.fd = int(fd) }); err != nil {
		b.Fatal(err)
	}
	event := []byte(strings.Repeat("x", 300))
	b.Run("by=shard", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sh.tryWrite(s, event)
		}
	})
	b.Run("by=conn", func(b *testing.B) {
		b.ReportAllocs()
		write := func(fd uintptr) bool {
			_, _ = unix.Write(int(fd), event)
			return true
		}
		for b.Loop() {
			if err := k.raw.Write(write); err != nil {
				b.Fatal(err)
			}
		}
	})
}
