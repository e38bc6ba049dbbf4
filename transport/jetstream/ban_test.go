package jetstream

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

func TestBansAreCheckedAndRefused(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir(), Node: "one"})
	good := transport.Ban{Subject: "ann", For: time.Minute}
	if _, err := l.Disconnect(t.Context(), good); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("before Serve: %v", err)
	}
	n := serve(t, l, &fakeNode{})
	for _, b := range []transport.Ban{{}, {For: time.Minute}, {Subject: "ann", For: -1}, {Subject: "ann", For: transport.MaxBan + 1}} {
		if _, err := l.Disconnect(t.Context(), b); !errors.Is(err, transport.ErrBan) {
			t.Errorf("%+v: %v", b, err)
		}
	}
	got, err := l.Disconnect(t.Context(), good)
	if want := (transport.NodeBanned{Name: "one", Answers: true, Streams: 7}); err != nil || got.Streams != 7 || len(got.Nodes) != 1 || got.Nodes[0] != want {
		t.Errorf("%+v, %v", got, err)
	}
	if n.ordered() != 1 {
		t.Errorf("the node was told %d times", n.ordered()) // its own order comes back to it over the bus
	}
	n.refuse(errors.New("too many"))
	if _, err := l.Disconnect(t.Context(), good); !errors.Is(err, transport.ErrRefused) || !strings.Contains(err.Error(), "too many") {
		t.Errorf("a refusal: %v", err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Disconnect(t.Context(), good); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Covers: SUB-41.
func TestABanReachesNodesThatWereNotThere(t *testing.T) {
	s, prefix := sharedServers(t)
	node := func(name string) *Log { return openExternal(t, s, Options{Prefix: prefix, Node: name}) }
	logs := []*Log{node("a"), node("b")}
	nodes := serveAll(t, logs)
	nodes[1].refuse(errors.New("it is stopping")) // so it lacks the ban

	got, err := logs[0].Disconnect(t.Context(), transport.Ban{Subject: "ann", For: time.Hour})
	if err != nil || got.Streams != 7 || len(got.Nodes) != 2 || !got.Nodes[1].Answers || got.Nodes[1].Error != "it is stopping" {
		t.Errorf("%+v, %v", got, err)
	}
	nodes[1].refuse(nil)
	kept := func(n *fakeNode, want int) func() bool {
		return func() bool {
			left := 0
			for _, b := range n.Bans() {
				if b.For > 0 && b.For <= time.Hour {
					left++
				}
			}
			return left == want
		}
	}
	eventually(t, "the other one learns of the ban by itself", kept(nodes[1], 1))

	// all of it in more than one message, before the newcomer serves
	for i := range 200 {
		if _, err := nodes[0].Disconnect(t.Context(), transport.Ban{Subject: fmt.Sprint(i, strings.Repeat("x", 1000)), For: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	newcomer := serve(t, node("c"), &fakeNode{})
	eventually(t, "a newcomer knows all", kept(newcomer, 201))
	eventually(t, "and so does the other one", kept(nodes[1], 201))

	got, err = logs[0].Disconnect(t.Context(), transport.Ban{Subscriber: "urn:uuid:x"})
	if err != nil || got.Streams != 21 || len(got.Nodes) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	if n := len(newcomer.Bans()); n != 201 {
		t.Errorf("a ban of nobody is kept: %d", n)
	}
}
