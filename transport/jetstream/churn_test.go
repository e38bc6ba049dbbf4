package jetstream

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// ledger is a follower that knows what it was handed of each topic.
type ledger struct {
	mu      sync.Mutex // guards below
	highest transport.Position
	times   map[transport.Position]int
	late    int
	errs    []string
	changed chan struct{}
}

func (g *ledger) take(e transport.Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.times[e.Pos]++; g.times[e.Pos] > 1 {
		g.errs = append(g.errs, fmt.Sprintf("%d was handed out again", e.Pos))
	}
	if e.Late != (e.Pos < g.highest) {
		g.errs = append(g.errs, fmt.Sprintf("%d after %d is marked late: %v", e.Pos, g.highest, e.Late))
	}
	if e.Late {
		g.late++
	}
	g.highest = max(g.highest, e.Pos)
	close(g.changed)
	g.changed = make(chan struct{})
}

// lacks returns one of the positions that was not handed out, 0 for none, and what tells of the next entry.
func (g *ledger) lacks(all []transport.Position) (transport.Position, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, pos := range all {
		if g.times[pos] == 0 {
			return pos, g.changed
		}
	}
	return 0, nil
}

// Subscribers come, go and come back to few topics, with filters that become wide and are left, while connections
// break and leaders change: each is handed, once, all that is stored after the position that it was told.
func TestEveryPromiseIsKept(t *testing.T) {
	t.Parallel()
	const subscribers, topics, lasts = 12, 30, 5 * time.Second
	s, prefix := sharedServers(t)
	a := openExternal(t, s, Options{Prefix: prefix, Node: "a", Follow: FollowInterest})
	b := openAnywhere(t, Options{Prefix: prefix, Node: "b", Follow: FollowInterest, MaxFilters: 24, Servers: &Servers{URLs: s.urls(1)}})
	g := &ledger{times: map[transport.Position]int{}, changed: make(chan struct{})}
	in, err := b.Follow(t.Context(), g.take)
	if err != nil {
		t.Fatal(err)
	}
	name := func(i int) string { return fmt.Sprintf("https://host%d.example/%d", i%5, i) }
	var (
		mu     sync.Mutex
		stands = map[string][]transport.Position{} // what is acknowledged of each topic
		wg     sync.WaitGroup
		done   = make(chan struct{})
		kept   int
	)
	publish := func(of string) transport.Position {
		e, err := a.Append(t.Context(), &spec.Update{Topics: []string{of}})
		if err != nil {
			t.Errorf("append: %v", err)
			return 0
		}
		mu.Lock()
		defer mu.Unlock()
		stands[of] = append(stands[of], e.Pos)
		return e.Pos
	}
	for w := range subscribers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 7))
			for {
				select {
				case <-done:
					return
				default:
				}
				of := name(r.IntN(topics))
				sel := classic(of)
				if r.IntN(4) == 0 {
					sel = topic.Selector{Kind: topic.Classic, Pattern: of[:len("https://hostN.example/")] + "{x}"}
				}
				from, err := in.Add(t.Context(), sel)
				if err != nil {
					t.Errorf("add: %v", err)
					return
				}
				last := transport.Position(0)
				for range r.IntN(3) + 1 {
					last = publish(of)
				}
				mu.Lock()
				var due []transport.Position
				for _, pos := range stands[of] {
					if pos > from && pos <= last {
						due = append(due, pos)
					}
				}
				kept += len(due)
				mu.Unlock()
				if !g.wait(t, due, from) {
					return
				}
				in.Remove(sel)
			}
		})
	}
	wg.Go(func() { // and others publish without following
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				publish(name(i % topics))
			}
		}
	})
	enough := func() bool { // on a busy machine it takes longer to promise something
		mu.Lock()
		defer mu.Unlock()
		return kept >= 100
	}
	for began, i := time.Now(), 0; (time.Since(began) < lasts || !enough() && time.Since(began) < 10*lasts) && !t.Failed(); i++ {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-t.Context().Done():
		}
		switch i % 3 {
		case 0:
			err = b.nc.ForceReconnect()
		case 1:
			_, err = a.nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+prefix, nil, 10*time.Second)
		case 2: // as somebody does who could not wait
			b.interest.mu.Lock()
			b.interest.suspectLocked(reasonProbe)
			b.interest.mu.Unlock()
			b.interest.nudge()
		}
		if err != nil {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
	st := b.Stats()
	t.Logf("%d promised, %d handed out, %d late, %d reread, suspected %v", kept, len(g.times), g.late, st.Reread, st.Suspected)
	for _, text := range g.errs[:min(len(g.errs), 10)] {
		t.Error(text)
	}
	if kept < 100 || st.Lost > 0 {
		t.Errorf("%d promised, %d lost", kept, st.Lost)
	}
}

// wait waits until all have been handed out.
func (g *ledger) wait(t *testing.T, all []transport.Position, from transport.Position) bool {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		pos, changed := g.lacks(all)
		if pos == 0 {
			return true
		}
		select {
		case <-changed:
		case <-deadline:
			t.Errorf("%d is not handed out, the answer was %d", pos, from)
			return false
		}
	}
}
