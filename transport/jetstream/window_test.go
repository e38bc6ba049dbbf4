package jetstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// model makes a log of n entries, each with one to three of ten topics, and returns them.
func model(t *testing.T, o Options, n int) (*Log, []transport.Entry) {
	t.Helper()
	o.Dir = t.TempDir()
	l := open(t, o)
	want := make([]transport.Entry, n)
	for i := range want {
		u := &spec.Update{Data: fmt.Sprint(i)}
		for range 1 + rand.N(3) {
			u.Topics = append(u.Topics, fmt.Sprintf("t%d", rand.N(10)))
		}
		want[i] = add(t, l, u)
	}
	return l, want
}

func between(all []transport.Entry, after, upto transport.Position, topics ...string) []transport.Entry {
	var some []transport.Entry
	for _, e := range all {
		if e.Pos > after && e.Pos <= upto && (topics == nil || slices.ContainsFunc(e.Update.Topics, func(s string) bool { return slices.Contains(topics, s) })) {
			some = append(some, e)
		}
	}
	return some
}

func TestWindowAnswersAsTheStoreDoes(t *testing.T) {
	l, want := model(t, Options{}, 3000)
	for i := range 200 {
		if i%40 == 39 {
			l.window.reset()
		}
		after := transport.Position(rand.N(len(want)))
		upto := after + transport.Position(rand.N(len(want)))
		mustBeSame(t, "all topics", scan(t, l, after, upto), between(want, after, upto))
		var hint []topic.Selector
		var topics []string
		for range 1 + rand.N(4) {
			s := fmt.Sprintf("t%d", rand.N(12))
			topics = append(topics, s)
			hint = append(hint, topic.Selector{Kind: topic.Classic, Pattern: s})
		}
		var got []transport.Entry
		for e, err := range l.Scan(t.Context(), after, upto, hint) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		mustBeSame(t, strings.Join(topics, " "), got, between(want, after, upto, topics...))
	}
	if st := l.Stats(); st.WindowHits == 0 || st.WindowMisses != 0 {
		t.Errorf("stats are %+v, want every scan answered by the window", st)
	}
}

func TestWindowIsBounded(t *testing.T) {
	const limit = 256 << 10
	l, want := model(t, Options{WindowBytes: limit}, 4000) // some 1.2 MB of memory
	last := want[len(want)-1].Pos
	for range 30 {
		after := transport.Position(rand.N(len(want)))
		mustBeSame(t, "scan", scan(t, l, after, last), between(want, after, last))
		l.window.mu.Lock()
		bytes, sum := l.window.bytes, int64(0)
		for _, e := range l.window.entries {
			sum += size(e)
		}
		l.window.mu.Unlock()
		if bytes > limit || bytes != sum {
			t.Fatalf("the window counts %d bytes and holds %d, limit %d", bytes, sum, limit)
		}
	}
	if st := l.Stats(); st.WindowHits == 0 || st.WindowMisses == 0 {
		t.Errorf("stats are %+v, want both recent and deep reads", st)
	}
}

func TestWindowIsDroppedWhenIdle(t *testing.T) {
	l, want := model(t, Options{}, 10)
	scan(t, l, 0, 10)
	l.window.expire()
	if _, ok := l.window.at(want[0].Pos); !ok {
		t.Fatal("a window just used is dropped")
	}
	l.window.mu.Lock()
	l.window.used = time.Now().Add(-windowIdle - time.Second)
	l.window.mu.Unlock()
	l.window.expire()
	if _, ok := l.window.at(want[0].Pos); ok {
		t.Error("an idle window is kept")
	}
	mustBeSame(t, "scan afterwards", scan(t, l, 0, 10), want)
}

func TestManyResumeAtOnceWhileEntriesCome(t *testing.T) {
	l, want := model(t, Options{}, 2000)
	acked, stop := publishing(t, l)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			after := transport.Position(rand.N(len(want)))
			next := after
			for e, err := range l.Scan(context.WithoutCancel(t.Context()), after, 2000, nil) {
				if err != nil || e.Pos != next+1 || e.Update.Data != want[next].Update.Data {
					t.Errorf("scan after %d: %d %+v, %v", next, e.Pos, e.Update, err)
					return
				}
				next = e.Pos
			}
			if next != 2000 {
				t.Errorf("scan after %d ended at %d", after, next)
			}
		})
	}
	wg.Wait()
	eventually(t, "publishing", func() bool { return acked() > 100 })
	stop()
}

func TestPlainTopicsAreTold(t *testing.T) {
	classic := func(patterns ...string) (s []topic.Selector) {
		for _, p := range patterns {
			s = append(s, topic.Selector{Kind: topic.Classic, Pattern: p})
		}
		return s
	}
	for _, c := range []struct {
		hint []topic.Selector
		want []string
	}{
		{nil, nil},
		{classic("a", "https://example.com/b"), []string{"a", "https://example.com/b"}},
		{classic("a", "*"), nil},
		{classic("a", "b/{c}"), nil},
		{[]topic.Selector{{Kind: 99, Pattern: "a"}}, nil},
	} {
		got, plain := plainTopics(c.hint)
		if plain != (c.want != nil) || (plain && !slices.Equal(got, c.want)) {
			t.Errorf("%v: %q, %v; want %q", c.hint, got, plain, c.want)
		}
	}
}

func TestFarHistoryIsReadFromTheStore(t *testing.T) {
	if testing.Short() {
		t.Skip("appends 25,000 entries")
	}
	l := open(t, Options{Dir: t.TempDir()})
	const total = 2*windowReach + windowSlack + 4000
	fillConcurrently(t, l, total)
	got := scan(t, l, 0, total)
	for i, e := range got {
		if e.Pos != transport.Position(i+1) {
			t.Fatalf("entry %d is at %d", i, e.Pos)
		}
	}
	if len(got) != total {
		t.Errorf("%d entries", len(got))
	}
	if st := l.Stats(); st.WindowMisses == 0 || st.WindowHits == 0 {
		t.Errorf("stats are %+v, want the far part from the store and the rest from the window", st)
	}
}

// What was read before the window was emptied, because the log has lost its end or is another one, does not get into it.
func TestAFillThatIsOvertakenByAResetIsInVain(t *testing.T) {
	stale := []transport.Entry{{Pos: 6, Update: update(1)}}
	for name, put := range map[string]func(*window){
		"append":  func(w *window) { w.append(5, 6, stale) },
		"prepend": func(w *window) { w.prepend(5, 6, stale) },
	} {
		w := newWindow(1 << 20)
		w.append(6, 7, []transport.Entry{{Pos: 7, Update: update(2)}})
		w.filling = make(chan struct{})
		w.reset()
		if name == "prepend" {
			w.append(6, 7, []transport.Entry{{Pos: 7, Update: update(2)}})
		}
		put(w)
		if _, ok := w.at(6); ok {
			t.Errorf("%s: a stale entry is kept", name)
		}
	}
}
