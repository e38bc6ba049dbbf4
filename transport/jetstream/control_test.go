package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// fakeNode is a hub as the control plane sees it.
type fakeNode struct {
	version string

	mu       sync.Mutex // guards below
	draining bool
	orders   int
	refusal  error
	bans     []transport.Ban
	held     chan struct{} // nil, or what each report waits for
}

func (n *fakeNode) Report(context.Context) transport.NodeReport {
	n.mu.Lock()
	held := n.held
	n.mu.Unlock()
	if held != nil {
		<-held
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return transport.NodeReport{Version: n.version, Ready: !n.draining, Draining: n.draining, Connections: 7, Reason: strings.Repeat("long\n", 1000)}
}

func (n *fakeNode) set(draining bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.orders++
	if n.refusal == nil {
		n.draining = draining
	}
	return n.refusal
}

func (n *fakeNode) refuse(why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusal = why
}

// hold makes reports wait until they are released.
func (n *fakeNode) hold() (release func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	held := make(chan struct{})
	n.held = held
	return sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.held = nil
		close(held)
	})
}

func (n *fakeNode) ordered() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.orders
}

// Disconnect ends seven streams, and keeps whom it is about away if it says so.
func (n *fakeNode) Disconnect(_ context.Context, b transport.Ban) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refusal != nil {
		return 0, n.refusal
	}
	n.orders++
	if b.Subject != "" && b.For > 0 {
		n.bans = append(n.bans, b)
	}
	return 7, nil
}

func (n *fakeNode) Bans() []transport.Ban {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.bans)
}

func (n *fakeNode) Drain(context.Context) error   { return n.set(true) }
func (n *fakeNode) Undrain(context.Context) error { return n.set(false) }

func serve(t *testing.T, l *Log, n *fakeNode) *fakeNode {
	t.Helper()
	if err := l.Serve(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return n
}

func cluster(t *testing.T, l *Log) transport.ClusterState {
	t.Helper()
	s, err := l.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// node returns the state of the one node called name.
func node(t *testing.T, s transport.ClusterState, name string) transport.Node {
	t.Helper()
	var found []transport.Node
	for _, n := range s.Nodes {
		if n.Name == name {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d nodes are called %q: %+v", len(found), name, s.Nodes)
	}
	return found[0]
}

func TestALoneNodeIsAClusterOfOne(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir(), Node: "alone"})
	if _, err := l.Cluster(t.Context()); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("before Serve: %v", err)
	}
	n := serve(t, l, &fakeNode{version: "devel"})
	c := follow(t, l)
	for i := range 3 {
		add(t, l, update(i))
	}
	c.until(t, 3)

	s := cluster(t, l)
	got := node(t, s, "alone")
	if s.Node != "alone" || len(s.Nodes) != 1 || !got.Answers || got.Version != "devel" || !got.Ready || got.Connections != 7 ||
		got.Mode != "standalone" || got.Position != 3 || got.Lag != 0 || got.Counts.Appends != 3 || got.Counts.Followed != 3 {
		t.Errorf("nodes %+v", s)
	}
	if len(got.Reason) > maxReasonBytes+3 || strings.Contains(got.Reason, "\n") {
		t.Errorf("a reason of %d bytes", len(got.Reason))
	}
	if st := s.Stream; st.Error != "" || !st.Quorum || st.Leader != "alone" || len(st.Replicas) != 1 || !st.Replicas[0].Current ||
		st.First != 1 || st.Last != 3 || st.Updates != 3 || st.Bytes == 0 {
		t.Errorf("stream %+v", st)
	}

	for _, name := range []string{"nobody", "", "*", "a.b", "al one"} {
		if err := l.DrainNode(t.Context(), name); !errors.Is(err, transport.ErrNoNode) {
			t.Errorf("drain %q: %v", name, err)
		}
	}
	if err := l.DrainNode(t.Context(), "alone"); err != nil || !node(t, cluster(t, l), "alone").Draining {
		t.Errorf("drain: %v, %+v", err, n)
	}
	if err := l.UndrainNode(t.Context(), "alone"); err != nil || node(t, cluster(t, l), "alone").Draining {
		t.Errorf("undrain: %v, %+v", err, n)
	}
	n.refuse(errors.New("it is stopping"))
	if err := l.UndrainNode(t.Context(), "alone"); !errors.Is(err, transport.ErrRefused) || !strings.Contains(err.Error(), "it is stopping") {
		t.Errorf("a refusal: %v", err)
	}
	if err := l.Serve(t.Context(), n); err == nil {
		t.Error("served twice")
	}
}

// TestTheControlPlaneIsAMicroService: what tools for such services ask is answered, too.
func TestTheControlPlaneIsAMicroService(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir(), Node: "one"})
	serve(t, l, &fakeNode{version: "v1.2.3"})
	for _, subject := range []string{"cinnabar.ctl.status", "cinnabar.ctl.any.status", "cinnabar.ctl.node.one.status"} {
		m, err := l.nc.Request(subject, nil, 30*time.Second)
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		var n transport.Node
		if err := json.Unmarshal(m.Data, &n); err != nil || n.Name != "one" || len(m.Data) > 4096 {
			t.Errorf("%s: %s: %v", subject, m.Data, err)
		}
	}
	m, err := l.nc.Request("$SRV.PING.cinnabar", nil, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var ping micro.Ping
	if err := json.Unmarshal(m.Data, &ping); err != nil || ping.Version != "1.2.3" || ping.Metadata["node"] != "one" {
		t.Errorf("ping: %s: %v", m.Data, err)
	}
}

// TestTheControlPlaneOutlivesTheServer: the embedded server is restarted in place when its store has failed.
func TestTheControlPlaneOutlivesTheServer(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir(), Node: "one"})
	n := serve(t, l, &fakeNode{})
	l.server.stop()
	if s := cluster(t, l); !node(t, s, "one").Answers || s.Stream.Error == "" || s.Stream.Quorum {
		t.Errorf("without a server: %+v", s)
	}
	if err := l.DrainNode(t.Context(), "one"); err != nil || n.ordered() != 1 {
		t.Errorf("this node needs no bus: %v", err)
	}
	l.nudge() // the monitor starts it again
	eventually(t, "the node is asked over the bus", func() bool {
		m, err := l.nc.Request("cinnabar.ctl.node.one.undrain", nil, time.Second)
		return err == nil && m.Header.Get(micro.ErrorCodeHeader) == ""
	})
	if n.ordered() < 2 {
		t.Error("it was not this node that answered")
	}
	eventually(t, "the stream is read", func() bool { return cluster(t, l).Stream.Quorum })
}

func TestServeAfterClose(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	serve(t, l, &fakeNode{})
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Serve(t.Context(), &fakeNode{}); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("serve: %v", err)
	}
	if _, err := l.Cluster(t.Context()); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("cluster: %v", err)
	}
	if err := l.DrainNode(t.Context(), "one"); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("drain: %v", err)
	}
}

func TestPeersComeAndGo(t *testing.T) {
	var p peers
	start := time.Unix(1_700_000_000, 0)
	at := start.Add
	count := func(d time.Duration, wantAlive, wantKnown int) {
		t.Helper()
		if n, known := p.alive(at(d)); n != wantAlive || len(known) != wantKnown {
			t.Errorf("after %v: %d there and %d known, want %d and %d", d, n, len(known), wantAlive, wantKnown)
		}
	}
	count(0, 0, 0)
	if !p.hear(beat{Node: "a", Instance: "1"}, at(0)) || p.hear(beat{Node: "a", Instance: "1"}, at(2*time.Second)) {
		t.Error("a node arrives once")
	}
	p.hear(beat{Node: "b", Instance: "2"}, at(2*time.Second))
	count(2*time.Second, 2, 2)
	p.hear(beat{Node: "b", Instance: "2", Leaving: true}, at(3*time.Second))
	count(3*time.Second, 1, 1) // b said good-bye
	count(7*time.Second, 1, 1)
	count(8*time.Second, 0, 1) // a did not
	if !p.hear(beat{Node: "a", Instance: "3"}, at(9*time.Second)) {
		t.Error("started again is arriving")
	}
	p.hear(beat{Node: "a", Instance: "1", Leaving: true}, at(9*time.Second))
	count(9*time.Second, 1, 1) // the good-bye was that of the process before
	count(time.Hour, 0, 0)     // forgotten
	for i := range 2 * maxPeers {
		p.hear(beat{Node: string(rune('a'+i%26)) + strings.Repeat("x", i/26), Instance: "1"}, at(time.Hour))
	}
	count(time.Hour, maxPeers, maxPeers)
	if !p.clashes(at(0)) || p.clashes(at(time.Minute)) || !p.clashes(at(time.Hour)) {
		t.Error("a clash is told once in a while")
	}
}
