package faults_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// drainAll reads until the peer ends the connection, and says how much came and what the end was like.
func drainAll(t *testing.T, c *net.TCPConn) (int64, error) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return io.Copy(io.Discard, c)
}

// A client that takes nothing is cut; what it was owed is not kept in memory. Covers: SUB-35, SUB-36, LIM-11, LIM-15.
func TestAClientThatNeverReadsIsCut(t *testing.T) {
	h := child.New(t, "--write-timeout", "1s", "--transport", "jetstream", "--history-max-bytes", "1GiB")
	h.Start()
	const topic = "https://example.com/stalled"
	before := gauges(t, h)
	c := h.Stall(topic)
	child.Eventually(t, patience, func() error {
		if n := gauges(t, h)["cinnabar_subscribers"]; n != 0 {
			return fmt.Errorf("%v subscribers, want none", n)
		}
		return nil
	})
	n, err := drainAll(t, c)
	if n >= 24<<20 {
		t.Errorf("the client got %d bytes although it read nothing for long", n)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is still open after %d bytes", n)
	}
	if grown := gauges(t, h)["process_resident_memory_bytes"] - before["process_resident_memory_bytes"]; grown > 200<<20 {
		t.Errorf("the hub has grown by %.0f MiB", grown/(1<<20))
	}
}

// What counts is whether a client makes progress: one that takes a little now and then, neither a whole
// event nor 16 KiB within a write timeout, is cut; one that takes little, but that much, is served. Covers: SUB-35.
func TestASlowClientIsCutUnlessItMakesProgress(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several write timeouts")
	}
	const writeTimeout, every = 2 * time.Second, 250 * time.Millisecond
	for name, c := range map[string]struct {
		bytes  int // taken at a time
		served bool
	}{
		"a byte at a time":  {1, false},
		"a KiB at a time":   {1 << 10, false},
		"128 KiB at a time": {128 << 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := child.New(t, "--write-timeout", writeTimeout.String())
			h.Start()
			const topic = "https://example.com/slow"
			conn := h.Subscribe(topic)
			child.Eventually(t, patience, func() error {
				if gauges(t, h)["cinnabar_subscribers"] != 1 {
					return errors.New("not yet subscribed")
				}
				return nil
			})
			ctx, leave := context.WithCancel(t.Context())
			var reader sync.WaitGroup
			defer reader.Wait()
			defer leave()
			reader.Go(func() {
				for buf := make([]byte, c.bytes); ctx.Err() == nil; {
					if _, err := io.ReadFull(conn, buf); err != nil {
						return
					}
					select {
					case <-time.After(every): // that is how this client reads
					case <-ctx.Done():
					}
				}
			})
			block := strings.Repeat("x", 800<<10)
			for range 30 {
				h.Must(topic, block)
			}
			full, cut := time.Now(), time.Duration(0)
			for cut == 0 && time.Since(full) < 4*writeTimeout {
				if gauges(t, h)["cinnabar_subscribers"] == 0 {
					cut = time.Since(full)
				}
				select {
				case <-time.After(every / 2):
				case <-ctx.Done():
				}
			}
			if c.served && cut != 0 {
				t.Errorf("the client was cut after %v", cut)
			}
			if !c.served && cut == 0 {
				t.Errorf("the client is still served after %v", time.Since(full))
			}
			leave()
			_ = conn.Close()
		})
	}
}

// Thousands of clients that come and go leave nothing behind. Covers: LIM-10.
func TestConnectsAndDisconnectsLeaveNothing(t *testing.T) {
	clients := 10_000
	if testing.Short() {
		clients = 500
	}
	h := child.New(t)
	h.Start()
	churn(t, h, 200) // what is made once has been made
	base := settled(t, h)
	churn(t, h, clients)
	after := settled(t, h)
	t.Logf("before: %v goroutines, %v descriptors, %.1f MiB; after %d clients: %v, %v, %.1f MiB",
		base["go_goroutines"], base["process_open_fds"], base["process_resident_memory_bytes"]/(1<<20), clients,
		after["go_goroutines"], after["process_open_fds"], after["process_resident_memory_bytes"]/(1<<20))
	for name, slack := range map[string]float64{"go_goroutines": 10, "process_open_fds": 10, "cinnabar_selectors": 0, "process_resident_memory_bytes": 60 << 20} {
		if after[name] > base[name]+slack {
			t.Errorf("%s grew from %v to %v", name, base[name], after[name])
		}
	}
}

// churn lets n clients subscribe, each to a topic of its own, and leave: half of them once served, some
// at once, some with a reset.
func churn(t *testing.T, h *child.Hub, n int) {
	t.Helper()
	const workers = 16
	host := strings.TrimPrefix(h.URL, "http://")
	host = host[:strings.IndexByte(host, '/')]
	token := child.Token(t)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < n; i += workers {
				c, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", host)
				if err != nil {
					t.Errorf("connect: %v", err)
					return
				}
				_, err = fmt.Fprintf(c, "GET /.well-known/mercure?topic=https://example.com/%d HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", i, host, token)
				if err == nil && i%2 == 0 {
					_ = c.SetReadDeadline(time.Now().Add(patience))
					_, err = io.ReadFull(c, make([]byte, 300)) // the head and more
				}
				if err != nil {
					t.Errorf("client %d: %v", i, err)
				}
				if tcp, ok := c.(*net.TCPConn); ok && i%5 == 0 {
					_ = tcp.SetLinger(0)
				}
				_ = c.Close()
			}
		})
	}
	all.Wait()
}

// settled waits until the hub has no subscribers and its goroutines no longer get fewer.
func settled(t *testing.T, h *child.Hub) map[string]float64 {
	t.Helper()
	var last map[string]float64
	calm := 0
	child.Eventually(t, patience, func() error {
		now := gauges(t, h)
		if now["cinnabar_subscribers"] == 0 && last != nil && now["go_goroutines"] >= last["go_goroutines"] && now["process_open_fds"] >= last["process_open_fds"] {
			calm++
		} else {
			calm = 0
		}
		last = now
		if calm < 10 {
			return fmt.Errorf("still %v subscribers, %v goroutines", now["cinnabar_subscribers"], now["go_goroutines"])
		}
		return nil
	})
	return last
}

// A publisher that goes away in the middle of its request has published nothing and leaves nothing. Covers: PUB-25.
func TestAPublisherThatVanishesLeavesNothing(t *testing.T) {
	h := child.New(t)
	h.Start()
	host := strings.TrimPrefix(h.URL, "http://")
	host = host[:strings.IndexByte(host, '/')]
	const topic = "https://example.com/half"
	h.Must(topic, "before")
	base := settled(t, h)
	for i := range 200 {
		c, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(c, "POST /.well-known/mercure HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\ntopic=%s&data=half",
			host, child.Token(t), topic)
		if err != nil {
			t.Fatal(err)
		}
		if tcp, ok := c.(*net.TCPConn); ok && i%2 == 0 {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
	end := h.Must(topic, "after")
	if got := history(t, h, topic, end); len(got) != 2 {
		t.Errorf("the history is %+v, want what whole requests published", got)
	}
	after := settled(t, h)
	for _, name := range []string{"go_goroutines", "process_open_fds"} {
		if after[name] > base[name]+10 {
			t.Errorf("%s grew from %v to %v", name, base[name], after[name])
		}
	}
}
