package transporttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// Directories is what RunDirectory tests. Each log is a transport.Directory, too.
type Directories struct {
	// Open opens the logs of up to n nodes that have one directory, which is empty and not attended; fewer, if
	// there cannot be so many. The suite closes them.
	Open func(t *testing.T, n int) []transport.Transport
	// Lease is how long a node may be silent before it is taken for dead; 0 = there is nobody to do so.
	Lease time.Duration
	// Kill ends a node's part without the manners of Close, which still is called.
	Kill func(t *testing.T, tr transport.Transport)
	// Cut cuts a node off until heal is called.
	Cut func(t *testing.T, tr transport.Transport) (heal func())
}

// beyondLease is within which time after the lease's end a dead node is cleared away. It is far more than it takes:
// the machine may be busy.
const beyondLease = time.Minute

// RunDirectory runs the suite of transport.Directory.
func RunDirectory(t *testing.T, impl Directories) {
	t.Helper()
	type test struct {
		name string
		test func(*testing.T, Directories)
	}
	tests := []test{
		{"who enters is listed everywhere, and who leaves is not", testEnter},
		{"every field of a presence survives", testPresence},
		{"without attendance nothing is kept", testUnattended},
		{"a node closes without events", testPoliteClose},
		{"a closed directory refuses", testClosedDirectory},
		{"churn ends with an empty directory", testDirectoryChurn},
	}
	if impl.Lease > 0 {
		tests = append(tests,
			test{"a killed node is cleared away once", testKilledNode},
			test{"a node that was cut off is told, and enters again", testLostNode},
		)
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) { c.test(t, impl) })
	}
}

// attendant is one node.
type attendant struct {
	transport.Directory
	log  transport.Transport
	lost chan struct{} // a value for each call of lost
}

// attend opens up to n nodes and attends their directory.
func (impl Directories) attend(t *testing.T, n int) []*attendant {
	t.Helper()
	logs := impl.Open(t, n)
	nodes := make([]*attendant, len(logs))
	for i, l := range logs {
		t.Cleanup(func() { shut(t, l) })
		nodes[i] = &attendant{Directory: l.(transport.Directory), log: l, lost: make(chan struct{}, 100)}
		if err := nodes[i].Attend(t.Context(), farewell, func() { nodes[i].lost <- struct{}{} }); err != nil {
			t.Fatalf("attend: %v", err)
		}
	}
	return nodes
}

// presence makes the i-th subscriber of a test.
func presence(i int) transport.Presence {
	return transport.Presence{
		Subscriber: fmt.Sprintf("urn:uuid:00000000-0000-4000-8000-%012d", i),
		Selectors: []topic.Selector{
			{Kind: topic.Classic, Pattern: fmt.Sprintf("https://example.com/books/%d", i)},
			{Kind: topic.Exact, Pattern: "*"},
		},
		Since: time.Unix(1_700_000_000, int64(i)),
	}
}

// farewell makes the updates that tell of the end of p, one for each subscription.
func farewell(p transport.Presence) []*spec.Update {
	var updates []*spec.Update
	for _, s := range p.Selectors {
		updates = append(updates, &spec.Update{
			Topics: []string{"/.well-known/mercure/subscriptions/" + p.Subscriber}, Private: true,
			Data: p.Subscriber + " no longer subscribes to " + s.Pattern,
		})
	}
	return updates
}

// farewells counts what farewell has made and is in the log.
func farewells(t *testing.T, tr transport.Transport) map[string]int {
	t.Helper()
	entries, err := read(t, tr, 0, All)
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	count := map[string]int{}
	for _, e := range entries {
		count[e.Update.Data]++
	}
	return count
}

func (a *attendant) enter(t *testing.T, ps ...transport.Presence) {
	t.Helper()
	for _, p := range ps {
		if err := a.Enter(t.Context(), p); err != nil {
			t.Fatalf("enter: %v", err)
		}
	}
}

// leaves fails the test unless the presence is taken out, and was there if it should have been.
func (a *attendant) leaves(t *testing.T, p transport.Presence, want bool) {
	t.Helper()
	if there, err := a.Leave(t.Context(), p.Subscriber); err != nil || there != want {
		t.Errorf("leave %s: %v, %v; want %v", p.Subscriber, there, err, want)
	}
}

// listed returns the subscribers in the list, sorted. A directory that does not answer is asked again for a while: what
// it answers has to be right.
func (a *attendant) listed(t *testing.T) []string {
	t.Helper()
	list, err := a.List(t.Context())
	for began := time.Now(); errors.Is(err, transport.ErrUnavailable) && time.Since(began) < time.Minute; {
		list, err = a.List(t.Context())
	}
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return subscribers(list)
}

func subscribers(list []transport.Presence) []string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.Subscriber
	}
	slices.Sort(names)
	return names
}

// mustList fails the test unless each node lists these, and nobody else.
func mustList(t *testing.T, nodes []*attendant, want ...transport.Presence) {
	t.Helper()
	for i, a := range nodes {
		if got := a.listed(t); !slices.Equal(got, subscribers(want)) {
			t.Fatalf("node %d lists %v, want %v", i, got, subscribers(want))
		}
	}
}

// eventually looks until ok, for at most d.
func eventually(t *testing.T, what string, d time.Duration, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(d)
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

func testEnter(t *testing.T, impl Directories) {
	nodes := impl.attend(t, 2)
	first, last := nodes[0], nodes[len(nodes)-1]
	mustList(t, nodes)
	a, b, c := presence(1), presence(2), presence(3)
	first.enter(t, a, b)
	last.enter(t, c)
	mustList(t, nodes, a, b, c)
	changed := a
	changed.Subject = "somebody"
	first.enter(t, changed)
	mustList(t, nodes, a, b, c)
	first.leaves(t, a, true)
	mustList(t, nodes, b, c)
	first.leaves(t, a, false)
	last.leaves(t, a, false)
	first.leaves(t, presence(99), false)
	last.leaves(t, c, true)
	first.leaves(t, b, true)
	mustList(t, nodes)
	first.enter(t, a) // who has left may come again
	mustList(t, nodes, a)
	if got := farewells(t, first.log); len(got) != 0 {
		t.Errorf("nobody died, and the log has %v", got)
	}
}

func testPresence(t *testing.T, impl Directories) {
	nodes := impl.attend(t, 2)
	want := make([]transport.Presence, 6)
	for i := range want {
		want[i] = presence(1 + i)
	}
	want[1].Subject = `a "subject" <of> é`
	want[1].Payload = json.RawMessage(`{"user":"<é&>","n":[1,2]}`)
	want[1].Selectors = []topic.Selector{{Kind: topic.Classic, Pattern: "https://example.com/{id}?a=b&c=%20 <\"é\">"}}
	want[2].Payload = json.RawMessage(`null`)
	want[3].Selectors = []topic.Selector{ // the same text in each language
		{Kind: topic.Classic, Pattern: "a"}, {Kind: topic.Exact, Pattern: "a"}, {Kind: topic.URLPattern, Pattern: "a"},
	}
	one, other := json.RawMessage(`{"user":"<é&>"}`), json.RawMessage(`{}`)
	want[4].Selectors = []topic.Selector{
		{Kind: topic.Exact, Pattern: "*"},
		{Kind: topic.URLPattern, Pattern: "*"},
		{Kind: topic.Exact, Pattern: "b"},
		{Kind: topic.Exact, Pattern: "c"},
		{Kind: topic.URLPattern, Pattern: "https://example.com/:id(\\d+)"},
	}
	want[4].Payloads = []json.RawMessage{one, nil, other, one, json.RawMessage(`null`)}
	want[5].Payload, want[5].Payloads = one, []json.RawMessage{nil, nil} // none, as Payload does not count
	nodes[0].enter(t, want...)
	for i, a := range nodes {
		got, err := a.List(t.Context())
		if err != nil || len(got) != len(want) {
			t.Fatalf("node %d lists %d, %v", i, len(got), err)
		}
		slices.SortFunc(got, func(a, b transport.Presence) int { return a.Since.Compare(b.Since) })
		for j, g := range got {
			w := want[j]
			if g.Subscriber != w.Subscriber || g.Subject != w.Subject || !slices.Equal(g.Selectors, w.Selectors) || !g.Since.Equal(w.Since) {
				t.Errorf("node %d lists %+v, want %+v", i, g, w)
				continue
			}
			for k, s := range w.Selectors {
				if have, wanted := g.PayloadOf(k), w.PayloadOf(k); string(have) != string(wanted) || (have == nil) != (wanted == nil) {
					t.Errorf("node %d has the payload %q of %v of %s, want %q", i, have, s, w.Subscriber, wanted)
				}
			}
		}
		clear(got) // the caller's
	}
	mustList(t, nodes, want...)
}

func testUnattended(t *testing.T, impl Directories) {
	l := impl.Open(t, 1)[0]
	t.Cleanup(func() { shut(t, l) })
	d := l.(transport.Directory)
	if err := d.Enter(t.Context(), presence(1)); err == nil {
		t.Error("enter without attendance succeeded")
	}
	if _, err := d.Leave(t.Context(), presence(1).Subscriber); err == nil {
		t.Error("leave without attendance succeeded")
	}
	if _, err := d.List(t.Context()); err == nil {
		t.Error("list without attendance succeeded")
	}
	if err := d.Attend(t.Context(), farewell, func() {}); err != nil {
		t.Fatal(err)
	}
	if err := d.Attend(t.Context(), farewell, func() {}); err == nil {
		t.Error("a second attendance succeeded")
	}
	if list, err := d.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
}

func testPoliteClose(t *testing.T, impl Directories) {
	nodes := impl.attend(t, 2)
	if len(nodes) < 2 {
		t.Skip("there is one node only")
	}
	stays := presence(0)
	nodes[0].enter(t, stays)
	for i := range 20 {
		nodes[1].enter(t, presence(1+i))
	}
	shut(t, nodes[1].log)
	eventually(t, "its presences are out", beyondLease, func() bool {
		return slices.Equal(nodes[0].listed(t), []string{stays.Subscriber})
	})
	if impl.Lease > 0 { // nor later
		wait(t, impl.Lease+impl.Lease/2)
	}
	mustList(t, nodes[:1], stays)
	if got := farewells(t, nodes[0].log); len(got) != 0 {
		t.Errorf("a polite end has left %v in the log", got)
	}
}

// wait waits for what must not happen within d.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func testClosedDirectory(t *testing.T, impl Directories) {
	a := impl.attend(t, 1)[0]
	a.enter(t, presence(1))
	shut(t, a.log)
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, transport.ErrClosed) {
			t.Errorf("%s after close: %v, want ErrClosed", what, err)
		}
	}
	refused("enter", a.Enter(t.Context(), presence(2)))
	_, err := a.Leave(t.Context(), presence(1).Subscriber)
	refused("leave", err)
	_, err = a.List(t.Context())
	refused("list", err)
	b := impl.Open(t, 1)[0]
	shut(t, b)
	refused("attend", b.(transport.Directory).Attend(t.Context(), farewell, func() {}))
}

// testDirectoryChurn has many come and go on all nodes at once. Whoever lists sees those who are there all the time.
func testDirectoryChurn(t *testing.T, impl Directories) {
	nodes := impl.attend(t, 3)
	stays := presence(0)
	nodes[0].enter(t, stays)
	const workers, rounds = 8, 25
	var wg sync.WaitGroup
	for n, a := range nodes {
		for w := range workers {
			wg.Go(func() {
				for i := range rounds {
					p := presence(1 + (n*workers+w)*rounds + i)
					if err := a.Enter(t.Context(), p); err != nil {
						t.Errorf("enter: %v", err)
						return
					}
					if there, err := a.Leave(t.Context(), p.Subscriber); err != nil || !there {
						t.Errorf("leave: %v, %v", there, err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			for range rounds {
				list, err := a.List(t.Context())
				for began := time.Now(); errors.Is(err, transport.ErrUnavailable) && time.Since(began) < time.Minute; {
					list, err = a.List(t.Context()) // it may not answer; what it answers has to be right
				}
				if err != nil {
					t.Errorf("list: %v", err)
				} else if !slices.Contains(subscribers(list), stays.Subscriber) {
					t.Errorf("node %d misses the one who is always there among %d", n, len(list))
				}
			}
		})
	}
	wg.Wait()
	nodes[0].leaves(t, stays, true)
	mustList(t, nodes)
	if got := farewells(t, nodes[0].log); len(got) != 0 {
		t.Errorf("nobody died, and the log has %d farewells", len(got))
	}
}

// testKilledNode has four nodes compete for clearing the fifth away.
func testKilledNode(t *testing.T, impl Directories) {
	nodes := impl.attend(t, 5)
	stays := presence(0)
	nodes[0].enter(t, stays)
	victim := nodes[len(nodes)-1]
	want := map[string]int{}
	for i := range 50 {
		p := presence(1 + i)
		victim.enter(t, p)
		if i%10 == 0 {
			victim.leaves(t, p, true)
			continue
		}
		for _, u := range farewell(p) {
			want[u.Data] = 1
		}
	}
	impl.Kill(t, victim.log)
	others := nodes[:len(nodes)-1]
	eventually(t, "it is cleared away", impl.Lease+beyondLease, func() bool {
		return slices.Equal(others[0].listed(t), []string{stays.Subscriber})
	})
	mustList(t, others, stays)
	mustBid(t, others[0].log, want)
	wait(t, impl.Lease+impl.Lease/2) // and nobody does it again
	mustList(t, others, stays)
	mustBid(t, others[0].log, want)
	for i, a := range others {
		if len(a.lost) > 0 {
			t.Errorf("node %d was told that it was taken for dead", i)
		}
	}
}

// mustBid waits until the log has these farewells, and fails the test unless it has each once and no others. Who is
// dead is off the list before that is told.
func mustBid(t *testing.T, tr transport.Transport, want map[string]int) {
	t.Helper()
	var got map[string]int
	eventually(t, "the farewells are in the log", beyondLease, func() bool {
		got = farewells(t, tr)
		return len(got) >= len(want)
	})
	for data := range want {
		if got[data] != 1 {
			t.Errorf("the log has %d times %q, want it once", got[data], data)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the log has %d different farewells, want %d", len(got), len(want))
	}
}

func testLostNode(t *testing.T, impl Directories) {
	nodes := impl.attend(t, 2)
	a, b := nodes[0], nodes[1]
	stays, lost, leaves := presence(0), presence(1), presence(2)
	a.enter(t, stays)
	b.enter(t, lost, leaves)
	heal := impl.Cut(t, b.log)
	eventually(t, "it is cleared away", impl.Lease+beyondLease, func() bool {
		return slices.Equal(a.listed(t), []string{stays.Subscriber})
	})
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := b.List(short); err == nil {
		t.Error("a node that is cut off lists")
	}
	heal()
	receive(t, b.lost, "the news that it was taken for dead")
	want := map[string]int{}
	for _, p := range []transport.Presence{lost, leaves} {
		for _, u := range farewell(p) {
			want[u.Data] = 1
		}
	}
	if got := farewells(t, a.log); len(got) != len(want) {
		t.Errorf("it was told when the log had %d farewells of %d", len(got), len(want))
	}
	mustBid(t, a.log, want)
	b.leaves(t, leaves, false)
	b.enter(t, lost)
	mustList(t, nodes, stays, lost)
	b.leaves(t, lost, true)
	mustList(t, nodes, stays)
	mustBid(t, a.log, want)
	if len(b.lost) > 0 || len(a.lost) > 0 {
		t.Error("lost was called once more")
	}
}
