//go:build linux

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// With two of three nodes gone the last one keeps its streams and reads history, and says to load balancers
// and publishers that it takes nothing. With the others back all is as before.
func TestWithoutQuorumStreamsStayAndHistoryReads(t *testing.T) {
	minutes(t)
	w := embedded(t, "interest")
	w.leader(t)
	last := w.hubs[0]
	v := play(t, plan{
		hubs: []string{last.URL}, direct: w.urls(), clients: 30, rate: 200, workers: 2, before: time.Second, afterward: time.Second,
		fail: func(r *run) {
			known := r.newest()
			w.hubs[1].Kill()
			w.hubs[2].Kill()
			child.Eventually(t, patience, func() error { return notReady(t, last) })
			_, err := r.publish(t.Context(), last.URL, -1, []string{markTopic}, "", "")
			if no, ok := errors.AsType[*refusal](err); !ok || no.status != http.StatusServiceUnavailable || no.retryAfter == "" {
				t.Errorf("a publisher is answered %+v, want 503 with Retry-After", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			res := get(ctx, t, last.URL+"?topic=*", spec.Earliest)
			defer res.Body.Close()
			for d, n := sse.NewDecoder(res.Body, 0), 0; ; n++ {
				e, err := d.Next()
				if err != nil {
					t.Errorf("history without quorum ends after %d updates: %v", n, err)
					break
				}
				if e.ID == known {
					break
				}
			}
			w.hubs[1].Spawn()
			w.hubs[2].Spawn()
			w.leader(t)
		},
	})
	row(t, "two of three nodes killed", w.mode, v)
	if v.reconnects > 0 {
		t.Errorf("%d streams ended on the node that was left", v.reconnects)
	}
	if v.unavailable == 0 {
		t.Error("no publisher was answered 503")
	}
}

// newest is the id of the newest update that was acknowledged.
func (r *run) newest() (id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attempts {
		if a.acked > 0 {
			id = a.id
		}
	}
	return id
}

// notReady is nil when a hub says that it is not ready.
func notReady(t *testing.T, h *child.Hub) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.Admin+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable {
		return fmt.Errorf("readyz: status %d", res.StatusCode)
	}
	return nil
}
