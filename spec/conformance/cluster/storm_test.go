//go:build linux

package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// How a storm goes: so many streams, opened at that rate, while publishers do nothing else for that long.
const (
	stormStreams    = 10_000
	stormPerSecond  = 2_500
	stormPublishers = 8
	stormTime       = 12 * time.Second
	stormRounds     = 5
)

// TestAStormLeavesPublishersTheirRate compares how fast publishers are while 10,000 streams are opened, with and without
// active subscriptions. It needs the machine for itself: CINNABAR_BENCH=1 asks for it.
func TestAStormLeavesPublishersTheirRate(t *testing.T) {
	if os.Getenv("CINNABAR_BENCH") != "1" {
		t.Skip("measures, and needs the machine for itself: set CINNABAR_BENCH=1")
	}
	// The machine is faster in one minute than in the next: each round is compared with itself.
	var ratios []float64
	for round := range stormRounds {
		rates := map[bool]float64{}
		for _, on := range []bool{round%2 == 0, round%2 != 0} { // neither is always the first
			rate, listed := storm(t, on)
			t.Logf("subscriptions=%v: %.0f updates/s; all listed after %v", on, rate, listed.Round(10*time.Millisecond))
			rates[on] = rate
		}
		ratios = append(ratios, rates[true]/rates[false])
	}
	ratio := median(ratios)
	t.Logf("%.1f %% slower with them, in the median of %d rounds (%.0f %% to %.0f %%)",
		100*(1-ratio), stormRounds, 100*(1-slices.Max(ratios)), 100*(1-slices.Min(ratios)))
	if ratio < 0.8 {
		t.Errorf("publishing is more than 20 %% slower with active subscriptions")
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// storm starts a hub, and returns how many updates per second publishers got through during the storm, and how long
// after its beginning every subscriber was listed.
func storm(t *testing.T, subscriptions bool) (rate float64, listed time.Duration) {
	t.Helper()
	h := child.New(t, fmt.Sprint("--subscriptions=", subscriptions), "--max-connection-lifetime", "0")
	h.Start()
	defer h.Kill()
	token := child.Token(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var publishers sync.WaitGroup
	var published atomic.Int64
	publisher := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: stormPublishers}}
	body := url.Values{"topic": {"https://example.com/storm"}, "data": {strings.Repeat("x", 200)}}.Encode()
	for range stormPublishers {
		publishers.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", spec.MediaTypeForm)
				req.Header.Set("Authorization", "Bearer "+token)
				res, err := publisher.Do(req)
				if err != nil {
					continue
				}
				_, _ = io.Copy(io.Discard, res.Body)
				if err := res.Body.Close(); err == nil && res.StatusCode == http.StatusOK {
					published.Add(1)
				}
			}
		})
	}
	pause(t, time.Second)
	begin, before := time.Now(), published.Load()
	streams := openRaw(t, h, token, stormStreams)
	if subscriptions {
		child.Eventually(t, patience, func() error {
			pause(t, 500*time.Millisecond) // looking costs, too
			return listsAll(ctx, h, stormStreams)
		})
		listed = time.Since(begin)
	}
	pause(t, stormTime-time.Since(begin))
	rate = float64(published.Load()-before) / time.Since(begin).Seconds()
	stop()
	publishers.Wait()
	publisher.CloseIdleConnections()
	for _, c := range streams {
		_ = c.Close()
	}
	return rate, listed
}

// openRaw opens n streams at an even pace. They are bare connections: the client is to cost little.
func openRaw(t *testing.T, h *child.Hub, token string, n int) []net.Conn {
	t.Helper()
	at, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]net.Conn, n)
	begin := time.Now()
	var opening sync.WaitGroup
	for w := range 50 {
		opening.Go(func() {
			head := make([]byte, 4096)
			for i := w; i < n; i += 50 {
				select {
				case <-time.After(time.Until(begin.Add(time.Duration(i) * time.Second / stormPerSecond))):
				case <-t.Context().Done():
					return
				}
				var d net.Dialer
				c, err := d.DialContext(t.Context(), "tcp", at.Host)
				if err != nil {
					t.Errorf("stream %d: %v", i, err)
					return
				}
				all[i] = c
				_, err = fmt.Fprintf(c, "GET %s?topic=%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", at.Path, url.QueryEscape(fmt.Sprint(rooms, i)), at.Host, token)
				if err == nil {
					_, err = c.Read(head)
				}
				if err != nil || !strings.HasPrefix(string(head), "HTTP/1.1 200") {
					t.Errorf("stream %d: %v: %.100s", i, err, head)
					return
				}
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// listsAll reports an error unless so many subscribers are counted on the admin listener.
func listsAll(ctx context.Context, h *child.Hub, n int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.Admin+"/subscriptions/counts?limit=0", http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var counts struct{ Subscribers int }
	if err := json.NewDecoder(res.Body).Decode(&counts); err != nil {
		return err
	}
	if counts.Subscribers != n {
		return fmt.Errorf("%d of %d subscribers are listed", counts.Subscribers, n)
	}
	return nil
}
