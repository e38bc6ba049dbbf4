package hub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// TestChurn cuts subscribers at random while several publishers publish, through queues so small that
// subscribers keep falling back to the log. Everybody must get every matching update once, in the log's order.
//
// Covers: SUB-21, SUB-36, REC-06, REC-15, SSE-W8, LIM-11, LIM-15.
func TestChurn(t *testing.T) {
	for name, hijack := range map[string]bool{"shard": true, "handler": false} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, func(o *Options) { o.SubscriberBuffer = 1 })
			n.noHijack = !hijack
			churn(t, n, 24, 3, 200)
			if n := testutil.ToFloat64(n.metrics.Lagged); n == 0 {
				t.Error("no subscriber ever lagged: the test did not reach the seam it is for")
			}
		})
	}
}

func churn(t *testing.T, n *node, subscribers, publishers, each int) {
	t.Helper()
	start := n.publish("topic", "t/start", "data", "start")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	got := make([][]string, subscribers)
	var subs, pubs sync.WaitGroup
	for i := range subscribers {
		subs.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			last := start
			for ctx.Err() == nil {
				data, id, done, err := readSome(ctx, n, last, rng)
				if err != nil {
					t.Errorf("subscriber %d: %v", i, err)
					return
				}
				got[i] = append(got[i], data...)
				if last = id; done {
					return
				}
			}
		})
	}
	for p := range publishers {
		pubs.Go(func() {
			for k := range each {
				n.publish("topic", "t/"+strconv.Itoa(p), "topic", "alias", "data", fmt.Sprintf("%d-%d", p, k))
				n.publish("topic", "noise", "data", "no")
			}
		})
	}
	pubs.Wait()
	n.publish("topic", "t/end", "data", "end")
	subs.Wait()

	span, err := n.log.Span(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for e, err := range n.log.Scan(ctx, 0, span.Last, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Update.Topics[0] != "noise" && e.Update.Data != "start" {
			want = append(want, e.Update.Data)
		}
	}
	for i := range got {
		if !slices.Equal(got[i], want) {
			t.Errorf("subscriber %d: %d updates, want %d; first difference at %d", i, len(got[i]), len(want), firstDifference(got[i], want))
		}
	}
}

// readSome resumes after last, reads a random number of events and leaves abruptly.
func readSome(ctx context.Context, n *node, last string, rng *rand.Rand) (data []string, id string, done bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+"?topic=t/{p}&topic=alias", nil)
	if err != nil {
		return nil, last, false, err
	}
	req.Header.Set(spec.HeaderLastEventID, last)
	res, err := n.client.Do(req)
	if err != nil {
		return nil, last, false, err
	}
	defer res.Body.Close()
	if echo := res.Header.Get(spec.HeaderLastEventID); echo != last {
		return nil, last, false, fmt.Errorf("echo %q, want %q", echo, last)
	}
	dec := sse.NewDecoder(res.Body, 1<<20)
	id = last
	for range 1 + rng.IntN(60) {
		e, err := dec.Next()
		if err != nil {
			return data, id, false, err
		}
		data, id = append(data, e.Data), e.ID
		if e.Data == "end" {
			return data, id, true, nil
		}
	}
	return data, id, false, nil
}

func firstDifference(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
