package jetstream

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// Half of the topics published to in these tests are of interest.
const interestingTopics, allTopics = 50, 100

func numbered(i int) string { return fmt.Sprintf("https://example.com/topics/%d", i) }

// listener is a node that follows what is of interest.
type listener struct {
	log  *Log
	in   transport.Interest
	from transport.Position
	all  bool // topics are of interest
	collector
}

// listenTo opens a follower of the first half of the topics.
func listenTo(t testing.TB, l *Log) *listener {
	t.Helper()
	n := &listener{log: l}
	var err error
	if n.in, err = l.Follow(t.Context(), n.take); err != nil {
		t.Fatal(err)
	}
	var selectors []topic.Selector
	for i := range interestingTopics {
		selectors = append(selectors, classic(numbered(i)))
	}
	if n.from, err = n.in.Add(t.Context(), selectors...); err != nil {
		t.Fatal(err)
	}
	return n
}

// paced appends about a thousand updates per second until stop is called.
func paced(t testing.TB, l *Log) (acked func() int, stop func() transport.Position) {
	t.Helper()
	var (
		wg    sync.WaitGroup
		count atomic.Int64
		last  atomic.Uint64
		done  = make(chan struct{})
	)
	for p := range 2 {
		wg.Go(func() {
			ticker := time.NewTicker(2 * time.Millisecond)
			defer ticker.Stop()
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				case <-ticker.C:
				}
				e, err := l.Append(t.Context(), &spec.Update{Topics: []string{numbered((i*7 + p) % allTopics)}, Data: fmt.Sprint(p, " ", i)})
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				last.Store(max(last.Load(), uint64(e.Pos)))
				count.Add(1)
			}
		})
	}
	return func() int { return int(count.Load()) },
		func() transport.Position { close(done); wg.Wait(); return transport.Position(last.Load()) }
}

// calm waits until the follower is sure of the log.
func calm(t *testing.T, l *Log) {
	t.Helper()
	eventually(t, "the follower to be sure", func() bool { return !l.interest.suspicious() })
}

// more waits until n more updates are acknowledged.
func more(t *testing.T, acked func() int, n int) {
	t.Helper()
	want := acked() + n
	eventually(t, "publishing", func() bool { return acked() >= want })
}

// mustHaveHeard fails the test unless everything of interest up to `upto` was handed out once, and in order but
// for what is marked as late. It returns how much was late.
func (n *listener) mustHaveHeard(t *testing.T, upto transport.Position) (late int) {
	t.Helper()
	want := map[transport.Position]string{}
	for _, e := range stored(t, n.log, n.from, upto) {
		var i int
		_, _ = fmt.Sscanf(e.Update.Topics[0], "https://example.com/topics/%d", &i)
		if n.all || i < interestingTopics {
			want[e.Pos] = e.Update.Data
		}
	}
	heard := map[transport.Position]bool{}
	got := func() []transport.Entry { n.mu.Lock(); defer n.mu.Unlock(); return slices.Clone(n.entries) }
	eventually(t, "all that is of interest", func() bool {
		for _, e := range got() {
			heard[e.Pos] = true
		}
		for pos := range want {
			if !heard[pos] {
				return false
			}
		}
		return true
	})
	times, highest := map[transport.Position]int{}, transport.Position(0)
	for _, e := range got() {
		if times[e.Pos]++; times[e.Pos] > 1 {
			t.Errorf("%d was handed out %d times", e.Pos, times[e.Pos])
		}
		if e.Late != (e.Pos < highest) {
			t.Errorf("%d after %d is marked late: %v", e.Pos, highest, e.Late)
		}
		if e.Late {
			late++
		}
		if data, ok := want[e.Pos]; ok && data != e.Update.Data {
			t.Errorf("%d is %q, want %q", e.Pos, e.Update.Data, data)
		}
		highest = max(highest, e.Pos)
	}
	st := n.log.Stats()
	t.Logf("%d of interest, %d handed out, %d late; bus messages %d, reread %d, suspected %v",
		len(want), len(times), late, st.BusMessages, st.Reread, st.Suspected)
	if len(want) == 0 || st.Late != uint64(late) || st.Lost > 0 {
		t.Errorf("%d of interest, stats are %+v", len(want), st)
	}
	return late
}

// stored reads (after, upto] as a hub does, trying again where the log cannot be read for a moment.
func stored(t *testing.T, l *Log, after, upto transport.Position) (all []transport.Entry) {
	t.Helper()
	eventually(t, "reading the log", func() bool {
		for e, err := range l.Scan(t.Context(), after, upto, nil) {
			if err != nil {
				return false
			}
			all, after = append(all, e), e.Pos
		}
		return true
	})
	return all
}

// cutFor waits for what is to be 3 seconds long.
func cutFor(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(3 * time.Second):
	case <-t.Context().Done():
	}
}

func TestACutConnectionLosesNothing(t *testing.T) {
	t.Parallel()
	s := newCuttable(t)
	p := newProxy(t, func() string { return s.running[1].Addr().String() })
	a := openExternal(t, s.servers, Options{Node: "a"})
	b := openAnywhere(t, Options{Node: "b", Follow: FollowInterest, Servers: &Servers{URLs: []string{"nats://" + p.addr()}}})
	n := listenTo(t, b)
	acked, stop := paced(t, a)
	more(t, acked, 300)
	p.cut()
	cutFor(t)
	p.heal()
	more(t, acked, 300)
	n.mustHaveHeard(t, stop())
	if st := b.Stats(); st.Suspected["reconnect"] == 0 && st.Suspected["probe"] == 0 {
		t.Errorf("the cut was not noticed: %v", st.Suspected)
	}
}

func TestCutRoutesLoseNothing(t *testing.T) {
	t.Parallel()
	s := newCuttable(t)
	a := openExternal(t, s.servers, Options{Node: "a", Follow: FollowInterest})
	eventually(t, "a leader", func() bool { return s.leader("cinnabar") >= 0 })
	leader := s.leader("cinnabar")
	aside := (leader + 1) % 3
	// the publisher stays with the leader
	pub := openAnywhere(t, Options{Node: "p", Follow: FollowInterest, Servers: &Servers{URLs: s.urls(leader)[:1]}})
	b := openAnywhere(t, Options{Node: "b", Follow: FollowInterest, Servers: &Servers{URLs: s.urls(aside)[:1]}})
	n, m := listenTo(t, b), listenTo(t, a)
	acked, stop := paced(t, pub)
	more(t, acked, 300)
	s.each(aside, (*proxy).cut)
	more(t, acked, 100) // the others go on
	cutFor(t)
	s.each(aside, (*proxy).heal)
	more(t, acked, 500)
	last := stop()
	n.mustHaveHeard(t, last)
	m.mustHaveHeard(t, last)
	if st := b.Stats(); st.Suspected["probe"] == 0 || st.Reread == 0 {
		t.Errorf("the cut was not noticed: %+v", st)
	}
}

// What is published right after Add has returned is handed out, even if many others publish and add, too.
func TestWhatFollowsAnAddIsHandedOut(t *testing.T) {
	t.Parallel()
	const nodes, rounds = 8, 250
	s, prefix := sharedServers(t)
	a := openExternal(t, s, Options{Prefix: prefix, Node: "a", Follow: FollowInterest})
	b := openAnywhere(t, Options{Prefix: prefix, Node: "b", Follow: FollowInterest, Servers: &Servers{URLs: s.urls(1)}})
	var mu sync.Mutex
	waits := map[string]chan transport.Entry{}
	in, err := b.Follow(t.Context(), func(e transport.Entry) {
		mu.Lock()
		c := waits[e.Update.Topics[0]]
		mu.Unlock()
		if c != nil {
			c <- e
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	_, stop := paced(t, a)
	var wg sync.WaitGroup
	for w := range nodes {
		wg.Go(func() {
			for r := range rounds {
				name := fmt.Sprintf("https://example.com/%d/%d", w, r)
				c := make(chan transport.Entry, 2)
				mu.Lock()
				waits[name] = c
				mu.Unlock()
				from, err := in.Add(t.Context(), classic(name))
				if err != nil {
					t.Errorf("add: %v", err)
					return
				}
				e, err := a.Append(t.Context(), &spec.Update{Topics: []string{name}})
				if err != nil || e.Pos <= from {
					t.Errorf("appended at %d after an answer of %d, %v", e.Pos, from, err)
					return
				}
				select {
				case got := <-c:
					if got.Pos != e.Pos || got.Late {
						t.Errorf("handed out %+v, want %d", got, e.Pos)
					}
				case <-time.After(time.Minute):
					t.Errorf("%d, published after an answer of %d, is not handed out", e.Pos, from)
					return
				}
				in.Remove(classic(name))
			}
		})
	}
	wg.Wait()
	stop()
	st := b.Stats()
	t.Logf("filters %d, suspected %v, reread %d", st.Filters, st.Suspected, st.Reread)
	for why, n := range st.Suspected {
		if n > 0 {
			t.Logf("%d × %s: answers may have been promises", n, why)
		}
	}
}

func TestANewLeaderLosesNothing(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	s := startServers(t, dirs)
	t.Cleanup(s.stopAll)
	a := openExternal(t, s, Options{Node: "a", Follow: FollowInterest})
	b := openAnywhere(t, Options{Node: "b", Follow: FollowInterest, Servers: &Servers{URLs: s.urls(1)}})
	n := listenTo(t, b)
	acked, stop := paced(t, a)
	for range 2 {
		more(t, acked, 200)
		old := s.leader("cinnabar")
		if _, err := a.nc.Request("$JS.API.STREAM.LEADER.STEPDOWN.cinnabar", nil, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another leader", func() bool { l := s.leader("cinnabar"); return l >= 0 && l != old })
	}
	more(t, acked, 200)
	leader := s.leader("cinnabar")
	s.stop(leader)
	more(t, acked, 200)
	s.start(t, leader)
	more(t, acked, 200)
	n.mustHaveHeard(t, stop())
	if st := b.Stats(); st.Suspected["leader"] == 0 {
		t.Errorf("new leaders were not noticed: %v", st.Suspected)
	}
}

// A follower whose fn takes long loses what does not fit into its channel, and reads it from the log.
func TestASlowFollowerReadsWhatItHasMissed(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	a := openExternal(t, s, Options{Prefix: prefix, Node: "a", Follow: FollowInterest})
	b := openAnywhere(t, Options{Prefix: prefix, Node: "b", Follow: FollowInterest, Servers: &Servers{URLs: s.urls(0)}})
	b.interest.heard = make(chan *nats.Msg, 64)
	n, gate := &listener{log: b}, make(chan struct{})
	in, err := b.Follow(t.Context(), func(e transport.Entry) { <-gate; n.take(e) })
	if err != nil {
		t.Fatal(err)
	}
	if n.from, err = in.Add(t.Context(), classic("https://example.com/topics/{x}")); err != nil {
		t.Fatal(err)
	}
	n.all = true
	acked, stop := paced(t, a)
	more(t, acked, 1000)
	close(gate)
	more(t, acked, 50)
	n.mustHaveHeard(t, stop())
	if st := b.Stats(); st.Suspected["slow"] == 0 {
		t.Errorf("nothing was missed: %+v", st)
	}
}

// A subscription that has missed something, for whatever reason, is given away by the next frame of the subject.
func TestAGapIsNoticed(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	a := openExternal(t, s, Options{Prefix: prefix, Node: "a", Follow: FollowInterest})
	n := listenTo(t, openAnywhere(t, Options{Prefix: prefix, Node: "b", Follow: FollowInterest, Servers: &Servers{URLs: s.urls(0)}}))
	put := func(i int) transport.Position {
		return add(t, a, &spec.Update{Topics: []string{numbered(i)}}).Pos
	}
	f := n.log.interest
	name := strings.TrimPrefix(f.log.subjects.of([]string{numbered(3)}), f.log.subjects.updates)
	for range 50 { // until nothing else makes the follower read the log meanwhile, as a busy machine does
		calm(t, n.log)
		n.until(t, put(7))
		before := n.log.Stats()
		f.mu.Lock()
		flt := f.filters[name]
		old := flt.sub
		f.mu.Unlock()
		if err := old.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		missed := put(3)
		n.until(t, put(7)) // the follower has gone beyond it
		sub, err := f.log.nc.ChanSubscribe(prefix+liveInfix+name, f.heard)
		if err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		flt.sub = sub
		delete(f.subs, old)
		f.subs[sub] = flt
		f.mu.Unlock()
		n.mustHaveHeard(t, put(3))
		calm(t, n.log)
		after := n.log.Stats()
		want := maps.Clone(before.Suspected)
		want["gap"]++
		if maps.Equal(after.Suspected, want) {
			if late := after.Late - before.Late; late != 1 {
				t.Errorf("%d late, want the one at %d", late, missed)
			}
			return
		}
		t.Logf("suspected %v, before %v", after.Suspected, before.Suspected)
	}
	t.Error("a gap was never the only thing to be noticed")
}

// A server whose answers to fences are of another form: the node follows everything from there on.
func TestWithoutFencesEverythingIsFollowed(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	a := openExternal(t, s, Options{Prefix: prefix, Node: "a", Follow: FollowInterest})
	b := openAnywhere(t, Options{Prefix: prefix, Node: "b", Follow: FollowInterest, Servers: &Servers{URLs: s.urls(0)}})
	n := listenTo(t, b)
	acked, stop := paced(t, a)
	more(t, acked, 200)
	other := []byte(`{"error":{"code":400,"err_code":10071,"description":"not the sequence that was expected: 7"}}`)
	if _, err := readFence(&nats.Msg{Data: other}); !errors.Is(err, errFenceText) {
		t.Fatalf("another text: %v", err)
	}
	eventually(t, "the fall-back", func() bool {
		for question := range int64(3000) { // one is about to be asked
			if err := a.nc.Publish(b.interest.inbox+strconv.FormatInt(question, 36), other); err != nil {
				t.Fatal(err)
			}
		}
		return b.Stats().Follower == string(FollowAll)
	})
	more(t, acked, 200)
	if _, err := n.in.Add(t.Context(), classic("other")); err != nil {
		t.Error(err)
	}
	n.in.Remove(classic("other"))
	n.mustHaveHeard(t, stop())
}

func TestReconnectionsLoseNothing(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	a := openExternal(t, s, Options{Prefix: prefix, Node: "a", Follow: FollowInterest})
	b := openAnywhere(t, Options{Prefix: prefix, Node: "b", Follow: FollowInterest, Servers: &Servers{URLs: s.urls(1)}})
	n := listenTo(t, b)
	acked, stop := paced(t, a)
	for range 5 {
		more(t, acked, 100)
		calm(t, b)
		if err := b.nc.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
	}
	more(t, acked, 100)
	n.mustHaveHeard(t, stop())
	if st := b.Stats(); st.Suspected["reconnect"] < 5 {
		t.Errorf("not all were noticed: %v", st.Suspected)
	}
}

// Without a quorum a subscriber is taken all the same, and gets what is published once there is one again.
func TestAddWithoutAQuorum(t *testing.T) {
	t.Parallel()
	s := startServers(t, []string{t.TempDir(), t.TempDir(), t.TempDir()})
	t.Cleanup(s.stopAll)
	l := openExternal(t, s, Options{Follow: FollowInterest, PublishTimeout: 60 * time.Second})
	n := &listener{log: l, all: true}
	in, err := l.Follow(t.Context(), n.take)
	if err != nil {
		t.Fatal(err)
	}
	calm(t, l)
	for i := range 10 {
		add(t, l, &spec.Update{Topics: []string{numbered(i)}})
	}
	s.stop(1)
	s.stop(2)
	for range 3 { // before the loss is noticed, and after
		began := time.Now()
		if n.from, err = in.Add(t.Context(), classic("https://example.com/topics/{x}")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 20*time.Second { // on an idle machine 0.6
			t.Errorf("a subscriber waited for %v", took)
		}
		eventually(t, "the loss to be noticed", l.interest.suspicious)
	}
	s.start(t, 1)
	s.start(t, 2)
	var last transport.Position
	for i := range 10 {
		last = add(t, l, &spec.Update{Topics: []string{numbered(i)}}).Pos
	}
	n.mustHaveHeard(t, last)
}

// A log that was deleted and made anew is followed from its beginning.
func TestAnotherLogIsFollowed(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	l := openExternal(t, s, Options{Prefix: prefix, Node: "b", Follow: FollowInterest})
	n := listenTo(t, l)
	for i := range 5 {
		n.until(t, add(t, l, &spec.Update{Topics: []string{numbered(i)}}).Pos)
	}
	if err := l.js.DeleteStream(t.Context(), prefix); err != nil {
		t.Fatal(err)
	}
	a := openExternal(t, s, Options{Prefix: prefix, Node: "a", Follow: FollowInterest})
	for i := range 3 {
		add(t, a, &spec.Update{Topics: []string{numbered(i)}, Data: "new"})
	}
	eventually(t, "the new log", func() bool { n.mu.Lock(); defer n.mu.Unlock(); return len(n.entries) == 5+3 })
	e := add(t, a, &spec.Update{Topics: []string{numbered(7)}, Data: "new"})
	for i, got := range n.until(t, e.Pos)[5:] {
		if got.Pos != transport.Position(i+1) || got.Late || got.Update.Data != "new" {
			t.Errorf("%d: %+v", i, got)
		}
	}
}
