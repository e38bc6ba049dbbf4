package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// BenchmarkListOf30000 reads the list of 30,000 subscribers over HTTP, as a page does: with -benchtime 20x, say. One
// takes less than a second on two cores.
func BenchmarkListOf30000(b *testing.B) {
	const subscribers, key = 30_000, "a secret for tests alone, of 40 bytes ..."
	cfg := Default()
	cfg.Listen, cfg.AdminListen, cfg.DataDir, cfg.Subscriptions = "127.0.0.1:0", "", b.TempDir(), true
	cfg.PublisherKey, cfg.SubscriberKey = NewSecret(key), NewSecret(key)
	a, err := New(cfg, nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := a.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := a.Stop(context.WithoutCancel(b.Context())); err != nil {
			b.Error(err)
		}
	}()
	token, err := auth.Mint(auth.MintOptions{Key: key, Subscribe: []string{"*"}})
	if err != nil {
		b.Fatal(err)
	}
	for {
		if _, err := a.directory().List(b.Context()); err == nil {
			break // the hub attends to it
		}
		time.Sleep(time.Millisecond)
	}
	enter(b, a, subscribers)
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, a.URL()+spec.SubscriptionsPath, http.NoBody)
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		if res.StatusCode != http.StatusOK || err != nil || n < subscribers*100 {
			b.Fatalf("status %d, %d bytes, %v", res.StatusCode, n, err)
		}
		_ = res.Body.Close()
		b.SetBytes(n)
	}
	b.StopTimer()
}

// enter puts subscribers into the directory, some at a time.
func enter(b *testing.B, a *App, n int) {
	b.Helper()
	begin := time.Now()
	var entering sync.WaitGroup
	for w := range 64 {
		entering.Go(func() {
			for i := w; i < n; i += 64 {
				err := a.directory().Enter(b.Context(), transport.Presence{
					Subscriber: fmt.Sprintf("urn:uuid:00000000-0000-4000-8000-%012d", i), Subject: "ann", Since: time.Now(),
					Selectors: []topic.Selector{{Kind: topic.Classic, Pattern: fmt.Sprint("https://example.com/rooms/", i%1000)}},
					Payload:   []byte(`{"user":"ann","name":"Ann"}`),
				})
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	entering.Wait()
	if b.Failed() {
		b.FailNow()
	}
	b.Logf("%d subscribers entered in %v", n, time.Since(begin).Round(time.Millisecond))
}
