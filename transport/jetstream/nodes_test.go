package jetstream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// serveAll serves the logs and waits until each has heard of all others.
func serveAll(t *testing.T, logs []*Log) []*fakeNode {
	t.Helper()
	nodes := make([]*fakeNode, len(logs))
	for i, l := range logs {
		nodes[i] = serve(t, l, &fakeNode{version: "v1.0.0"})
	}
	for _, l := range logs {
		eventually(t, "every node has heard of all", func() bool { return l.Peers() == len(logs)-1 })
	}
	return nodes
}

// names are those of the nodes, with a question mark behind those that do not answer.
func names(s transport.ClusterState) string {
	var names []string
	for _, n := range s.Nodes {
		if name := n.Name; n.Answers {
			names = append(names, name)
		} else {
			names = append(names, name+"?")
		}
	}
	return strings.Join(names, " ")
}

func TestNodesOnExternalServersKnowEachOther(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	var logs []*Log
	for _, name := range []string{"a", "b", "c"} {
		logs = append(logs, openExternal(t, s, Options{Prefix: prefix, Node: name}))
	}
	_, other := sharedServers(t)
	serve(t, openExternal(t, s, Options{Prefix: other, Node: "of-another-world"}), &fakeNode{})
	nodes := serveAll(t, logs)
	a, b, c := logs[0], logs[1], logs[2]
	followed := follow(t, b)
	last := add(t, a, update(1))
	followed.until(t, last.Pos)

	for _, l := range logs {
		state := cluster(t, l)
		if got := names(state); got != "a b c" || state.Node != l.opts.Node {
			t.Errorf("%s sees %q as %q", l.opts.Node, got, state.Node)
		}
		if st := state.Stream; !st.Quorum || st.Leader == "" || len(st.Replicas) != 3 || st.Last != last.Pos ||
			!slices.ContainsFunc(st.Replicas, func(r transport.Replica) bool { return r.Leader && r.Name == st.Leader }) {
			t.Errorf("%s: stream %+v", l.opts.Node, st)
		}
		if n := node(t, state, "b"); n.Mode != "external" || n.Position != last.Pos || n.Lag != 0 || n.Counts.Followed != 1 {
			t.Errorf("%s: b is %+v", l.opts.Node, n)
		}
	}

	// one is steered from another, and only that one
	if err := a.DrainNode(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	state := cluster(t, c)
	if !node(t, state, "b").Draining || node(t, state, "b").Ready || node(t, state, "a").Draining || node(t, state, "c").Draining {
		t.Errorf("after the order: %+v", state.Nodes)
	}
	if err := c.UndrainNode(t.Context(), "b"); err != nil || node(t, cluster(t, a), "b").Draining {
		t.Errorf("undrain: %v", err)
	}
	nodes[1].refuse(errors.New("it is\nstopping"))
	if err := a.UndrainNode(t.Context(), "b"); !errors.Is(err, transport.ErrRefused) || !strings.Contains(err.Error(), "it is stopping") {
		t.Errorf("a refusal: %v", err)
	}

	began := time.Now()
	if err := a.DrainNode(t.Context(), "of-another-world"); !errors.Is(err, transport.ErrNoNode) {
		t.Errorf("a node that is not there: %v", err)
	}
	if took := time.Since(began); took >= orderPatience {
		t.Errorf("an absent node took %v", took)
	}

	// who says good-bye is known to have left, at once
	if err := b.Close(background(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "b has left", func() bool { return a.Peers() == 1 && c.Peers() == 1 })
	if got := names(cluster(t, a)); got != "a c" {
		t.Errorf("after b left: %q", got)
	}
	if err := a.DrainNode(t.Context(), "b"); !errors.Is(err, transport.ErrNoNode) {
		t.Errorf("b has left: %v", err)
	}

	// who does not is looked for
	c.nc.Close()
	if got := names(cluster(t, a)); got != "a c?" {
		t.Errorf("after c was cut off: %q", got)
	}
	if c := node(t, cluster(t, a), "c"); c.Seen.IsZero() {
		t.Error("when it was last seen is not told")
	}
	eventually(t, "c no longer counts", func() bool { return a.Peers() == 0 })
}

// TestANodeThatAnswersLateIsNotWaitedForLong: its process may be stopped, or its machine be very slow.
func TestANodeThatAnswersLateIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	a := openExternal(t, s, Options{Prefix: prefix, Node: "a"})
	b := openExternal(t, s, Options{Prefix: prefix, Node: "b"})
	nodes := serveAll(t, []*Log{a, b})
	release := nodes[1].hold()
	defer release()
	began := time.Now()
	got := names(cluster(t, a))
	if took := time.Since(began); got != "a b?" || took < gatherPatience {
		t.Errorf("%q after %v", got, took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := a.DrainNode(ctx, "b"); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("an order that is not answered: %v", err)
	}
	release()
	eventually(t, "b answers again", func() bool { return names(cluster(t, a)) == "a b" })
}

// TestTheStateOfAFollowerOfInterest: what it does not hear is no lag.
func TestTheStateOfAFollowerOfInterest(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	a := openExternal(t, s, Options{Prefix: prefix, Node: "a", Follow: FollowInterest})
	b := openExternal(t, s, Options{Prefix: prefix, Node: "b", Follow: FollowInterest})
	serveAll(t, []*Log{a, b})
	if n := node(t, cluster(t, a), "b"); n.Follower != "" {
		t.Errorf("before it follows: %+v", n)
	}
	c := &collector{}
	in, err := b.Follow(t.Context(), c.take)
	if err != nil {
		t.Fatal(err)
	}
	wanted := update(0)
	if _, err := in.Add(t.Context(), topic.Selector{Kind: topic.Classic, Pattern: wanted.Topics[0]}); err != nil {
		t.Fatal(err)
	}
	// what comes while the follower still makes sure of its first filters is read from the store
	eventually(t, "the bus brings an update", func() bool {
		c.until(t, add(t, a, wanted).Pos)
		return b.Stats().BusMessages > 0
	})
	var last transport.Entry
	for range 5 {
		last = add(t, a, update(1)) // of another topic
	}
	eventually(t, "what is not heard is no lag", func() bool {
		n := node(t, cluster(t, a), "b")
		return n.Position == last.Pos && n.Lag == 0 && n.SuspectSince.IsZero()
	})
	n := node(t, cluster(t, a), "b")
	if n.Follower != "interest" || n.Filters == 0 || n.Counts.BusMessages == 0 || n.Counts.Followed != uint64(last.Pos)-5 {
		t.Errorf("b is %+v", n)
	}
}

func TestNodesOfAnEmbeddedCluster(t *testing.T) {
	t.Parallel()
	logs := openCluster(t, 3, Options{})
	serveAll(t, logs)
	a := logs[0]
	for _, l := range logs {
		state := cluster(t, l)
		if got := names(state); got != "n1 n2 n3" || len(state.Stream.Replicas) != 3 || !state.Stream.Quorum {
			t.Errorf("%s sees %q, %+v", l.opts.Node, got, state.Stream)
		}
	}
	// The servers of two end: what is left is known, and told.
	for _, l := range logs[1:] {
		if err := l.Close(background(t)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a notices that it is alone", func() bool { return a.Peers() == 0 && !cluster(t, a).Stream.Quorum })
	state := cluster(t, a)
	if got := names(state); got != "n1 n2? n3?" || state.Stream.Error == "" && state.Stream.Quorum {
		t.Errorf("a lone survivor sees %q, %+v", got, state.Stream)
	}
}
