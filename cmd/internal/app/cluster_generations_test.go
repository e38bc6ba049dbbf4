package app_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// mintFull makes a token of the issuer that may do everything.
func mintFull(t *testing.T) string {
	t.Helper()
	private, _ := issuerKey()
	token, err := auth.Mint(auth.MintOptions{
		Generation: spec.Draft08.Name, Key: private, TTL: time.Hour, Issuer: issuer, Audience: []string{resource},
		Details: []auth.MintDetail{{
			Actions: []spec.Action{spec.ActionPublish, spec.ActionSubscribe}, Topics: []topic.Selector{{Kind: topic.Exact, Pattern: spec.Wildcard}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// hopsAcross has a client that changes the node and the generation each time it comes back, while publishers of both
// generations publish at all nodes, every other update private: it gets all of them, once and in order.
func hopsAcross(ctx context.Context, t *testing.T, nodes []*starting) {
	t.Helper()
	const total, perHop = 84, 7
	const room = "https://example.com/rooms/across"
	draft08 := mintFull(t)
	publish := func(k int, data string) string {
		p := client.Publisher{URL: nodes[k%3].URL(), Token: mint(t, publisherKey), HTTP: httpClient(t)}
		if k%2 == 0 {
			p.Token = draft08
		}
		id, err := p.Publish(ctx, &spec.Update{Topics: []string{room}, Data: data, Private: k%4 < 2})
		if err != nil {
			t.Errorf("publish %s: %v", data, err)
		}
		return id
	}
	cursor := publish(0, "start")
	var publishing sync.WaitGroup
	defer publishing.Wait()
	publishing.Go(func() {
		for k := range total {
			publish(k, strconv.Itoa(k))
		}
	})
	for next, hop := 0, 0; next < total; hop++ {
		s := client.Subscriber{URL: nodes[hop%3].URL(), LastEventID: cursor, HTTP: httpClient(t)}
		if hop%2 == 0 {
			s.Token, s.URLPatterns = draft08, []string{"https://example.com/rooms/:room"}
		} else {
			s.Token, s.Topics = mint(t, subscriberKey), []string{"https://example.com/rooms/{room}"}
		}
		s.OnOpen = func(o client.Open) {
			if o.Lost {
				t.Errorf("hop %d: the hub does not know the cursor %s", hop, o.Sent)
			}
		}
		end := min(next+perHop, total)
		err := s.Run(ctx, func(e sse.Event) error {
			if e.Data != strconv.Itoa(next) {
				t.Errorf("hop %d: got %q, want %d", hop, e.Data, next)
			}
			next, cursor = next+1, e.ID
			if next == end {
				return client.ErrStop
			}
			return nil
		})
		if err != nil {
			t.Fatalf("hop %d, after %d updates: %v", hop, next, err)
		}
	}
}
