package transporttest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

var everything = topic.Selector{Kind: topic.Classic, Pattern: "*"}

func testFollowFromEnd(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	before := fill(t, tr, 10)
	live := make(chan transport.Entry, 100)
	in, err := tr.Follow(t.Context(), func(e transport.Entry) { live <- e })
	if err != nil {
		t.Fatal(err)
	}
	if from, err := in.Add(t.Context(), everything); err != nil || from != before[9].Pos {
		t.Errorf("interest begins at %d, %v; want %d", from, err, before[9].Pos)
	}
	var got []transport.Entry
	want := fill(t, tr, 20)
	for range want {
		got = append(got, receive(t, live, "follower"))
	}
	same(t, got, want)
	// what the follower has been handed counts as reached
	if from, err := in.Add(t.Context(), everything); err != nil || from != want[19].Pos {
		t.Errorf("interest begins at %d, %v; want %d", from, err, want[19].Pos)
	}
	in.Remove(everything)
	in.Remove(everything)
	e := add(t, tr, update(99))
	same(t, []transport.Entry{receive(t, live, "follower")}, []transport.Entry{e})
	if st := tr.Stats(); st.Followed < 20 {
		t.Errorf("stats are %+v, want 20 followed", st)
	}
}

func testOneOrder(t *testing.T, impl Implementation) {
	const publishers, each = 8, 100
	tr := impl.open(t, Limits{})
	live := make(chan transport.Entry, publishers*each)
	if _, err := tr.Follow(t.Context(), func(e transport.Entry) { live <- e }); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	answers := make([][]transport.Entry, publishers)
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				u := update(i)
				u.Type = fmt.Sprint(p)
				if i%10 == 3 {
					u.ID = fmt.Sprintf("https://example.com/%d/%d", p, i)
				}
				e, err := tr.Append(t.Context(), u)
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				answers[p] = append(answers[p], e)
			}
		})
	}
	wg.Wait()
	scanned, err := read(t, tr, 0, All)
	if err != nil {
		t.Fatal(err)
	}
	if len(scanned) != publishers*each {
		t.Fatalf("%d entries are stored, want %d", len(scanned), publishers*each)
	}
	var followed []transport.Entry
	for range scanned {
		followed = append(followed, receive(t, live, "follower"))
	}
	same(t, followed, scanned)
	byPosition := map[transport.Position]transport.Entry{}
	for i, e := range scanned {
		if i > 0 && e.Pos <= scanned[i-1].Pos {
			t.Fatalf("position %d follows %d", e.Pos, scanned[i-1].Pos)
		}
		byPosition[e.Pos] = e
	}
	for p := range answers {
		for i, e := range answers[p] {
			if i > 0 && e.Pos <= answers[p][i-1].Pos {
				t.Fatalf("publisher %d: position %d follows %d", p, e.Pos, answers[p][i-1].Pos)
			}
			same(t, []transport.Entry{byPosition[e.Pos]}, []transport.Entry{e})
		}
	}
}

// hub is the smallest thing that joins as a real one does: an index under a lock, and a head.
type hub struct {
	mu   sync.Mutex
	head transport.Position
	subs map[*member]bool
}

type member struct {
	queue []transport.Entry // guarded by hub.mu
	wake  chan struct{}
}

func (h *hub) offer(e transport.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head = e.Pos
	for m := range h.subs {
		m.queue = append(m.queue, e)
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
}

// join enters the index, reads (after, max(from, head)], and takes over from there; it returns what it
// received once it has reached the position upto, and leaves.
func (h *hub) join(ctx context.Context, tr transport.Transport, in transport.Interest, after, upto transport.Position) ([]transport.Entry, error) {
	from, err := in.Add(ctx, everything)
	if err != nil {
		return nil, err
	}
	defer in.Remove(everything)
	m := &member{wake: make(chan struct{}, 1)}
	h.mu.Lock()
	h.subs[m] = true
	head := max(from, h.head)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.subs, m)
		h.mu.Unlock()
	}()
	var got []transport.Entry
	for e, err := range tr.Scan(ctx, after, head, nil) {
		if err != nil {
			return got, err
		}
		got = append(got, e)
		after = e.Pos
	}
	for after < upto {
		select {
		case <-m.wake:
		case <-ctx.Done():
			return got, ctx.Err()
		}
		h.mu.Lock()
		queue := m.queue
		m.queue = nil
		h.mu.Unlock()
		for _, e := range queue {
			if e.Pos > after {
				got = append(got, e)
				after = e.Pos
			}
		}
	}
	return got, nil
}

func testJoin(t *testing.T, impl Implementation) {
	const total, joiners, rounds = 600, 4, 12
	tr := impl.open(t, Limits{})
	h := &hub{subs: map[*member]bool{}}
	in, err := tr.Follow(t.Context(), h.offer)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var published atomic.Int64
	for p := range 3 {
		wg.Go(func() {
			for i := range total / 3 {
				if _, err := tr.Append(t.Context(), update(p*1000+i)); err != nil {
					t.Errorf("append: %v", err)
					return
				}
				published.Add(1)
			}
		})
	}
	results := make([][]transport.Entry, joiners)
	for j := range joiners {
		wg.Go(func() {
			var after transport.Position
			for r := range rounds {
				upto := transport.Position((r + 1) * total / rounds)
				got, err := h.join(t.Context(), tr, in, after, upto)
				if err != nil {
					t.Errorf("join after %d: %v", after, err)
					return
				}
				results[j] = append(results[j], got...)
				if len(got) > 0 { // else the round before has read on to here
					after = got[len(got)-1].Pos
				}
			}
		})
	}
	wg.Wait()
	want, err := read(t, tr, 0, All)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != total || want[total-1].Pos != total {
		t.Fatalf("%d entries up to %d, want %d without holes", len(want), want[len(want)-1].Pos, total)
	}
	for _, got := range results {
		same(t, got, want)
	}
}

func testSlowFollower(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{MaxMessages: 10})
	gate := make(chan struct{})
	live := make(chan transport.Entry, 1000)
	if _, err := tr.Follow(t.Context(), func(e transport.Entry) { <-gate; live <- e }); err != nil {
		t.Fatal(err)
	}
	// the whole log is replaced many times while the follower stands at its first entry
	want := fill(t, tr, 400)
	close(gate)
	for _, e := range want {
		same(t, []transport.Entry{receive(t, live, "slow follower")}, []transport.Entry{e})
	}
}
