package hub

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/memory"
)

func boundedLog(t *testing.T, messages int) transport.Transport {
	t.Helper()
	log, err := memory.New(memory.Options{MaxMessages: messages})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close(context.WithoutCancel(t.Context())) })
	return log
}

// Covers: SUB-37, SUB-38, SUB-41.
func TestDrain(t *testing.T) {
	for name, hijack := range map[string]bool{"shard": true, "handler": false} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, func(o *Options) { o.Retry = time.Second })
			n.noHijack = !hijack
			s := n.get("topic=a")
			last := n.publish("topic", "a", "data", "last")
			n.followed(1)
			if err := n.Drain(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(s.Body)
			if err != nil {
				t.Fatalf("the body did not end as planned: %v", err)
			}
			opening, rest, _ := strings.Cut(string(body), "\nid: ")
			if !strings.HasPrefix(opening, ":\nretry: ") || !strings.HasPrefix(rest, last+"\ndata: last\n\nretry: ") {
				t.Errorf("body %q", body)
			}
			if n.Ready(t.Context()) == nil {
				t.Error("a draining node is ready")
			}

			soft := n.get("topic=a", "Accept", "text/event-stream", "Last-Event-ID", last)
			body, _ = io.ReadAll(soft.Body)
			if soft.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), "retry: ") || strings.Contains(string(body), "\n\n") {
				t.Errorf("EventSource gets %d %q", soft.StatusCode, body)
			}
			if got := soft.Header.Get("Last-Event-ID"); got != last {
				t.Errorf("soft refusal echoes %q", got)
			}
			hard := n.get("topic=a")
			if hard.StatusCode != http.StatusServiceUnavailable || hard.Header.Get("Retry-After") == "" {
				t.Errorf("others get %d, Retry-After %q", hard.StatusCode, hard.Header.Get("Retry-After"))
			}
			n.publish("topic", "a", "data", "publishers are still served")
		})
	}
}

// Whom a node refuses that leaves others behind, these take at the next attempt. Covers: SUB-41.
func TestDrainWithOthersCallsClientsBackSoon(t *testing.T) {
	const retry = time.Second
	for name, c := range map[string]struct{ spread, least, most time.Duration }{
		"others": {time.Millisecond, retry, 2 * retry},
		"nobody": {0, softRetry(retry) / 2, softRetry(retry) * 3 / 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, func(o *Options) { o.Retry = retry })
			if err := n.Drain(t.Context(), c.spread); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				body := slurp(t, n.get("topic=a", "Accept", eventStream))
				ms, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(body, "retry: "), "\n"))
				if got := time.Duration(ms) * time.Millisecond; err != nil || got < c.least || got > c.most {
					t.Errorf("refused with %q, want a retry between %v and %v", body, c.least, c.most)
				}
			}
		})
	}
}

// Covers: SUB-38.
func TestDrainSpreads(t *testing.T) {
	n := startNode(t, nil)
	const streams, spread = 20, 400 * time.Millisecond
	ends := make(chan time.Time, streams)
	for range streams {
		res := n.get("topic=a")
		go func() {
			_, _ = io.Copy(io.Discard, res.Body)
			ends <- time.Now()
		}()
	}
	start := time.Now()
	if err := n.Drain(t.Context(), spread); err != nil {
		t.Fatal(err)
	}
	early := 0
	for range streams {
		if end := <-ends; end.Sub(start) < spread/2 {
			early++
		}
	}
	if early < 2 || early > streams-4 {
		t.Errorf("%d of %d streams ended in the first half", early, streams)
	}
}

// bubble serves one stream on a recorder inside a synctest bubble and returns what was written.
func bubble(t *testing.T, change func(*Options), headers map[string]string, during func(n *node, body func() string)) string {
	t.Helper()
	n := newNode(t, func(o *Options) {
		log, err := memory.New(memory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o.Transport = log
		change(o)
	})
	n.noHijack = true
	ctx, cancel := context.WithCancel(t.Context())
	run := make(chan error, 1)
	go func() { run <- n.Run(ctx) }()
	synctest.Wait()

	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/.well-known/mercure?topic=a", nil)
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Handler().ServeHTTP(w, req)
	}()
	during(n, func() string { synctest.Wait(); return w.text() })
	cancel()
	<-done
	if err := <-run; err != nil {
		t.Error(err)
	}
	if err := n.log.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return w.text()
}

// deadlineRecorder is a recorder whose deadlines can be set and whose body can be read meanwhile.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
}

func (*deadlineRecorder) SetWriteDeadline(time.Time) error { return nil }

func (w *deadlineRecorder) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ResponseRecorder.Write(p)
}

func (w *deadlineRecorder) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Body.String()
}

// Covers: SUB-26, SSE-W10.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble(t, func(o *Options) { o.Heartbeat = 15 * time.Second }, nil, func(_ *node, body func() string) {
			time.Sleep(11 * time.Second)
			if got := body(); got != ":\n" {
				t.Errorf("before the time: %q", got)
			}
			time.Sleep(4*time.Second + time.Millisecond)
			if got := body(); got != ":\n:\n" {
				t.Errorf("after 15 s: %q", got)
			}
			time.Sleep(10 * time.Minute)
			beats := strings.Count(body(), ":") - 2
			if beats < 40 || beats > 50 {
				t.Errorf("%d heartbeats in ten minutes", beats)
			}
		})
	})
}

// Covers: SUB-26.
func TestHeartbeatOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble(t, func(*Options) {}, nil, func(_ *node, body func() string) {
			time.Sleep(24 * time.Hour)
			if got := body(); got != ":\n" {
				t.Errorf("got %q", got)
			}
		})
	})
}

// Covers: SUB-31.
func TestLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble(t, func(o *Options) { o.MaxLifetime = 10 * time.Minute; o.Retry = time.Second }, nil, func(n *node, body func() string) {
			time.Sleep(8*time.Minute - time.Second)
			synctest.Wait()
			if n.ended(endLifetime) != 0 {
				t.Error("ended early")
			}
			time.Sleep(2*time.Minute + time.Second)
			if got := body(); n.ended(endLifetime) != 1 || strings.Count(got, "retry: ") != 2 {
				t.Errorf("after ten minutes: %v ended, %q", n.ended(endLifetime), got)
			}
		})
	})
}

// Covers: SUB-32, SUB-33, SUB-34.
func TestExpiry(t *testing.T) {
	for _, left := range []time.Duration{700 * time.Millisecond, 2 * time.Second, time.Hour} {
		t.Run(left.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				exp := time.Now().Add(left)
				bubble(t, func(*Options) {}, map[string]string{"X-Expires": exp.Format(time.RFC3339Nano)}, func(n *node, _ func() string) {
					time.Sleep(max(left-time.Second, left/2))
					synctest.Wait()
					if n.ended(endExpired) != 0 {
						t.Error("ended before the last second")
					}
					time.Sleep(time.Until(exp))
					synctest.Wait()
					if n.ended(endExpired) != 1 {
						t.Error("not ended at exp")
					}
				})
			})
		})
	}
}

// TestShardTimers checks the timers of streams that belong to a shard, which no bubble can hold.
//
// Covers: SUB-26, SUB-31, SUB-32.
func TestShardTimers(t *testing.T) {
	n := startNode(t, func(o *Options) { o.Heartbeat = 40 * time.Millisecond })
	start := time.Now()
	exp := start.Add(1500 * time.Millisecond)
	res := n.get("topic=a", "X-Expires", exp.Format(time.RFC3339Nano))
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if now := time.Now(); now.After(exp) || now.Before(exp.Add(-time.Second)) {
		t.Errorf("ended %v after exp", now.Sub(exp))
	}
	if beats := strings.Count(string(body), ":\n"); beats < 10 {
		t.Errorf("%d heartbeats", beats)
	}
}

// Covers: SUB-30, PUB-24.
func TestNotRunning(t *testing.T) {
	n := newNode(t, nil)
	srv := httptest.NewServer(n.Handler())
	t.Cleanup(srv.Close)
	n.url, n.client = srv.URL+"/.well-known/mercure", srv.Client()
	if err := n.Ready(t.Context()); err == nil {
		t.Error("ready before it runs")
	}
	if res := n.get("topic=a"); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d", res.StatusCode)
	}
	n.run()
	n.stop()
	if res := n.get("topic=a"); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("after the end: status %d", res.StatusCode)
	}
}

func TestRunEndsStreams(t *testing.T) {
	n := startNode(t, nil)
	s := n.subscribe("topic=a")
	n.publish("topic", "a", "data", "1")
	s.want("1")
	n.stop()
	if _, err := s.next(); !errors.Is(err, io.EOF) {
		t.Errorf("stream ended with %v", err)
	}
}
