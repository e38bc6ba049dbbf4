//go:build linux

package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// rooms is what the selectors of an audience begin with, so that those of watchers can be left out.
const rooms = "https://example.com/rooms/"

// subscription is what these tests read of a subscription, in the list and in events.
type subscription struct {
	ID         string
	Topic      string // classic
	Match      string // draft-08
	Subscriber string
	Active     bool
}

// audience is streams that somebody holds open. They are not opened again when they end.
type audience struct {
	token string
	http  *http.Client
	all   sync.WaitGroup
}

func newAudience(t *testing.T, subject string) *audience {
	t.Helper()
	a := &audience{token: child.TokenOf(t, subject), http: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		a.all.Wait() // the test's context has ended
		a.http.CloseIdleConnections()
	})
	return a
}

// sit opens a stream and holds it until ctx ends. It returns when the stream has begun. It subscribes to the room in
// either generation's way, so that it is told of in both forms.
func (a *audience) sit(ctx context.Context, hub, room string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, hub+"?"+url.Values{"topic": {rooms + room}, "match": {rooms + room}}.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	res, err := a.http.Do(req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		defer res.Body.Close()
		return &refusal{status: res.StatusCode}
	}
	a.all.Go(func() {
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body) // until either end closes it
	})
	return nil
}

// fill opens n streams at a hub, each in a room of its own, and returns what closes them.
func (a *audience) fill(t *testing.T, hub, name string, n int) (leave func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	var opening sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		opening.Go(func() { errs[i] = a.sit(ctx, hub, fmt.Sprint(name, "/", i)) })
	}
	opening.Wait()
	if err := errors.Join(errs...); err != nil {
		leave()
		t.Fatalf("an audience of %d at %s: %v", n, hub, err)
	}
	return leave
}

// list reads the rooms' part of a hub's list.
func (a *audience) list(ctx context.Context, hub string) (map[string]subscription, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, hub+spec.SubscriptionsPath, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	res, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the list of %s: status %d", hub, res.StatusCode)
	}
	var doc struct{ Subscriptions []subscription }
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		return nil, err
	}
	found := map[string]subscription{}
	for _, s := range doc.Subscriptions {
		if strings.HasPrefix(s.Topic, rooms) {
			if _, twice := found[s.ID]; twice || !s.Active {
				return nil, fmt.Errorf("the list of %s has %+v, twice: %v", hub, s, twice)
			}
			found[s.ID] = s
		}
	}
	return found, nil
}

// see waits until the lists of all these hubs are the same, and have so many of each audience. It returns the list.
func (a *audience) see(t *testing.T, limit time.Duration, hubs []string, want map[string]int) (list map[string]subscription) {
	t.Helper()
	child.Eventually(t, limit, func() error {
		list = nil
		for _, h := range hubs {
			one, err := a.list(t.Context(), h)
			if err != nil {
				return err
			}
			got := map[string]int{}
			for _, s := range one {
				name, _, _ := strings.Cut(strings.TrimPrefix(s.Topic, rooms), "/")
				got[name]++
			}
			if !maps.Equal(got, want) {
				return fmt.Errorf("%s lists %v, want %v", h, got, want)
			}
			if list != nil && !maps.Equal(list, one) {
				return fmt.Errorf("%s lists others than %s", h, hubs[0])
			}
			list = one
		}
		return nil
	})
	return list
}

// watcher is a page that shows who is there: it follows subscription events, reconnects, and notes all of them.
type watcher struct {
	mu    sync.Mutex     // guards below
	forms map[string]saw // by generation: the words of one are those of the other
}

// saw is what the events said, in their order, by room and subscriber.
type saw map[[2]string][]bool

// watch begins to watch at a hub, and returns when that has begun.
func watch(t *testing.T, hub string) *watcher {
	t.Helper()
	w := &watcher{forms: map[string]saw{spec.Classic.Name: {}, spec.Draft08.Name: {}}}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	opened := make(chan struct{})
	once := sync.OnceFunc(func() { close(opened) })
	s := client.Subscriber{
		URL: hub, Token: child.Token(t), Topics: []string{
			spec.DefaultHubPath + spec.SubscriptionsPath + "/{topic}/{subscriber}",
			spec.DefaultHubPath + spec.SubscriptionsPath + "/exact/{match}/{subscriber}",
		},
		RetryFirst: true,
		OnOpen: func(o client.Open) {
			if o.Lost {
				t.Error("the watcher has lost events")
			}
			once()
		},
	}
	running.Go(func() {
		if err := s.Run(ctx, w.take); err != nil && ctx.Err() == nil {
			t.Errorf("the watcher: %v", err)
		}
	})
	select {
	case <-opened:
	case <-time.After(patience):
		t.Fatal("the watcher's stream does not begin")
	}
	return w
}

func (w *watcher) take(e sse.Event) error {
	var s subscription
	if err := json.Unmarshal([]byte(e.Data), &s); err != nil {
		return fmt.Errorf("an event that is none: %w: %.200s", err, e.Data)
	}
	form, room := spec.Classic.Name, s.Topic
	if e.Type == spec.TypeMercure {
		form, room = spec.Draft08.Name, s.Match
	}
	room, ok := strings.CutPrefix(room, rooms)
	if !ok {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := [2]string{room, s.Subscriber}
	w.forms[form][key] = append(w.forms[form][key], s.Active)
	return nil
}

// told returns what the events about an audience said, as words: "+" for active, "-" for inactive, in order, and how
// many subscriptions each word was said of, in the form of a generation.
func (w *watcher) told(form, name string) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	words := map[string]int{}
	for key, events := range w.forms[form] {
		if !strings.HasPrefix(key[0], name+"/") {
			continue
		}
		var word strings.Builder
		for _, active := range events {
			word.WriteByte("-+"[btoi(active)])
		}
		words[word.String()]++
	}
	return words
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// hears waits until the events about an audience say exactly that, in both forms.
func (w *watcher) hears(t *testing.T, limit time.Duration, name string, want map[string]int) {
	t.Helper()
	child.Eventually(t, limit, func() error {
		for _, form := range []string{spec.Classic.Name, spec.Draft08.Name} {
			if got := w.told(form, name); !maps.Equal(got, want) {
				return fmt.Errorf("%s events about %s: %v, want %v", form, name, said(got), said(want))
			}
		}
		return nil
	})
}

// said writes what was told in a fixed order.
func said(words map[string]int) string {
	var all []string
	for _, word := range slices.Sorted(maps.Keys(words)) {
		all = append(all, fmt.Sprintf("%d × %s", words[word], word))
	}
	return strings.Join(all, ", ")
}
