package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// While a publisher goes on and old updates are discarded, readers leave and come back, some at once, some
// late. A cursor that is confirmed is a promise: what follows has no gap. One that is not was really lost
// from. Covers: REC-06, REC-12, REC-15, REC-16.
func TestAConfirmedCursorIsAPromiseWhileHistoryIsDiscarded(t *testing.T) {
	const history, readers, pause = 500, 8, time.Millisecond
	span := 6 * time.Second
	if testing.Short() {
		span = time.Second
	}
	for _, transport := range []string{"memory", "jetstream"} {
		t.Run(transport, func(t *testing.T) {
			h := child.New(t, "--transport", transport, "--history-max-messages", strconv.Itoa(history))
			h.Start()
			token := child.Token(t)
			ctx, stop := context.WithTimeout(t.Context(), span)
			defer stop()
			var newest, resumed, refused atomic.Int64
			var all sync.WaitGroup
			all.Go(func() {
				for i := int64(0); ctx.Err() == nil; i++ {
					form := url.Values{"topic": {"https://example.com/churn"}, "data": {strconv.FormatInt(i, 10)}}
					if i%7 == 0 {
						form.Set("id", fmt.Sprint("own-", i))
					}
					if _, err := h.Publish(context.WithoutCancel(ctx), token, form); err != nil {
						t.Errorf("publish: %v", err)
						return
					}
					newest.Store(i)
					select {
					case <-time.After(pause):
					case <-ctx.Done():
					}
				}
			})
			// The hub ends streams whose place has been discarded, and their connections with them.
			streams := &http.Transport{}
			defer streams.CloseIdleConnections()
			for range readers {
				all.Go(func() {
					var cursor string
					at := int64(-1)
					for ctx.Err() == nil {
						r := reader{t: t, h: h, token: token, client: &http.Client{Transport: streams}}
						known := newest.Load()
						confirmed, events := r.visit(ctx, cursor, rand.IntN(2*history))
						switch {
						case len(events) == 0:
						case confirmed:
							resumed.Add(1)
							if events[0].number != at+1 {
								t.Errorf("the cursor of %d was confirmed, and then came %d", at, events[0].number)
							}
						case cursor != "":
							refused.Add(1)
							if known-at < history/2 {
								t.Errorf("the cursor of %d was not confirmed although the newest was only %d", at, known)
							}
						}
						for i, e := range events {
							if i > 0 && e.number != events[i-1].number+1 {
								t.Errorf("after %d came %d in one stream", events[i-1].number, e.number)
							}
							cursor, at = e.id, e.number
						}
						select {
						case <-time.After(rand.N(2 * history * pause)): // away for a while, at times for too long
						case <-ctx.Done():
						}
					}
				})
			}
			all.Wait()
			t.Logf("%d updates, %d cursors confirmed, %d not", newest.Load(), resumed.Load(), refused.Load())
			if resumed.Load() == 0 {
				t.Error("no cursor was confirmed")
			}
		})
	}
}

type numbered struct {
	id     string
	number int64
}

type reader struct {
	t     *testing.T
	h     *child.Hub
	token string

	client *http.Client
}

// visit subscribes with a cursor, if it has one, takes up to n events and leaves.
func (r *reader) visit(ctx context.Context, cursor string, n int) (confirmed bool, events []numbered) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.h.URL+"?topic=https://example.com/churn", http.NoBody)
	if err != nil {
		r.t.Error(err)
		return false, nil
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	if cursor != "" {
		req.Header.Set(spec.HeaderLastEventID, cursor)
	}
	res, err := r.client.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			r.t.Errorf("subscribe: %v", err)
		}
		return false, nil
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		r.t.Errorf("subscribe: status %d", res.StatusCode)
		return false, nil
	}
	for d := sse.NewDecoder(res.Body, 0); len(events) <= n; {
		e, err := d.Next()
		if err != nil {
			break // the end of the test, or what was due has just been discarded
		}
		number, err := strconv.ParseInt(e.Data, 10, 64)
		if err != nil {
			r.t.Errorf("an update of nobody: %+v", e)
		}
		events = append(events, numbered{e.ID, number})
	}
	return cursor != "" && res.Header.Get(spec.HeaderLastEventID) == cursor, events
}
