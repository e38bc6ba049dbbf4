package hub

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/memory"
)

// storm lets n streams come, as far as presence is concerned.
func (n *node) storm(streams int) []*subscriber {
	list := make([]*subscriber, streams)
	for i := range list {
		list[i] = &subscriber{hub: n.Hub, grant: &auth.Grant{}, selectors: present("", "", fmt.Sprintf("https://example.com/rooms/%d", i)).Selectors}
		n.presence.join(list[i])
	}
	return list
}

// calm waits until everything is told; false means that stop was closed before.
func (n *node) calm(stop <-chan struct{}) bool {
	quiet := make(chan struct{})
	n.presence.mu.Lock()
	n.presence.quiet = append(n.presence.quiet, quiet)
	n.presence.tellQuiet()
	n.presence.mu.Unlock()
	select {
	case <-quiet:
		return true
	case <-stop:
		return false
	}
}

// BenchmarkPublishInAStorm publishes while 10,000 streams come and go all the time, or not. It tells also how many
// subscription events were stored beside the publications.
func BenchmarkPublishInAStorm(b *testing.B) {
	for _, storm := range []bool{false, true} {
		b.Run(fmt.Sprintf("storm=%v", storm), func(b *testing.B) {
			log, err := memory.New(memory.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = log.Close(context.WithoutCancel(b.Context())) }()
			n := newNode(b, func(o *Options) {
				o.Transport, o.Directory, o.Logger = log, log, slog.New(slog.DiscardHandler)
			})
			n.run()
			defer n.stop()
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for storm && n.calm(stop) {
					list := n.storm(10_000)
					n.calm(stop)
					for _, s := range list {
						n.presence.leave(s, endClient)
					}
				}
			}()
			body := "topic=https%3A%2F%2Fexample.com%2Fbooks%2F1&data=" + strings.Repeat("x", 1000)
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, w := newExchange(b, http.MethodPost, spec.DefaultHubPath, "")
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
					r.Header.Set("Content-Type", formType)
					if n.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
						b.Errorf("status %d", w.Code)
					}
				}
			})
			b.StopTimer()
			b.ReportMetric(testutil.ToFloat64(n.metrics.SubscriptionEvents)/b.Elapsed().Seconds(), "events/s")
			close(stop)
			<-stopped
		})
	}
}

// slowAppends takes a millisecond for each.
type slowAppends struct{ transport.Transport }

func (l slowAppends) Append(ctx context.Context, u *spec.Update) (transport.Entry, error) {
	time.Sleep(time.Millisecond)
	return l.Transport.Append(ctx, u)
}

// Ten thousand connections at once leave the log to the publishers, and are told of in good time nevertheless.
func TestAStormIsPaced(t *testing.T) {
	for name, publishing := range map[string]bool{"beside publishers": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory()
			inBubble(t, func(o *Options) {
				log, err := memory.New(memory.Options{})
				if err != nil {
					t.Fatal(err)
				}
				o.Transport, o.Directory = slowAppends{log}, d
			}, func(c *crowd) {
				if publishing {
					c.publishing.Add(1)
					defer c.publishing.Add(-1)
				}
				began := time.Now()
				const streams = 10_000
				list := c.storm(streams)
				time.Sleep(time.Second)
				synctest.Wait()
				events := testutil.ToFloat64(c.metrics.SubscriptionEvents)
				if publishing && events > stepsPerSecond/2+stepsPerSecond/10 { // each stream takes two steps
					t.Errorf("%v events in the first second", events)
				}
				if c.presence.running > workersServing {
					t.Errorf("%d workers", c.presence.running)
				}
				for testutil.ToFloat64(c.metrics.SubscriptionEvents) < streams {
					time.Sleep(10 * time.Millisecond)
				}
				took := time.Since(began)
				t.Logf("%d streams are told of after %v", streams, took)
				if most := 2*streams*time.Second/stepsPerSecond + time.Second; took > most {
					t.Errorf("%v, want %v", took, most)
				}
				for _, s := range list {
					c.presence.leave(s, endClient)
				}
			})
			if left := len(d.all()); left != 0 {
				t.Errorf("%d are still listed after the end", left)
			}
		})
	}
}
