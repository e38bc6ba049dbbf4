package jetstream

import (
	"context"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// A subscriber that joins while the follower hands out an entry scans up to it. The scan must find it, even
// if nothing but the follower has told this node of it yet.
//
// Covers: REC-06.
func TestScanFindsWhatTheFollowerHasReached(t *testing.T) {
	l, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.WithoutCancel(t.Context())) })
	in, out := make(chan transport.Position), make(chan struct{})
	interest, err := l.Follow(t.Context(), func(e transport.Entry) { in <- e.Pos; <-out })
	if err != nil {
		t.Fatal(err)
	}
	first := add(t, l, update(1))
	<-in
	out <- struct{}{}
	if _, err := l.freshExtent(t.Context()); err != nil { // a moment old when it is used below
		t.Fatal(err)
	}
	u := update(2)
	m, err := encode(l.subjects.of(u.Topics), newNonce(), u)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.nc.PublishMsg(m); err != nil { // an append whose acknowledgement has not been handled yet
		t.Fatal(err)
	}
	pos := <-in // the follower hands it out
	from, err := interest.Add(t.Context(), topic.Selector{Kind: topic.Classic, Pattern: "*"})
	if err != nil || from < pos {
		t.Fatalf("add answers %d, %v; want %d", from, err, pos)
	}
	if got := scan(t, l, first.Pos, from); len(got) != 1 || got[0].Pos != pos {
		t.Errorf("scan finds %d entries", len(got))
	}
	close(out)
}
