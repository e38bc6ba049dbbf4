package hub

import (
	"testing"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// counter is a matcher that counts how often it is asked.
type counter struct {
	asked int
	yes   bool
}

func (c *counter) Match(string) bool    { c.asked++; return c.yes }
func (*counter) Prefix() (string, bool) { return "", false }
func (c *counter) grant() *auth.Grant {
	return &auth.Grant{Action: spec.ActionSubscribe, Topics: []topic.Matcher{c}}
}

func entry(pos int, id string, topics ...string) transport.Entry {
	return transport.Entry{Pos: transport.Position(pos), Update: &spec.Update{Topics: topics, ID: id, Data: id}}
}

// listener joins a subscriber without a stream to a hub's fan-out; its queue is read by hand.
func (n *node) listener(g *auth.Grant, patterns ...string) *subscriber {
	s := watcher(n.t, patterns...)
	s.hub, s.grant, s.wake = n.Hub, g, make(chan struct{}, 1)
	if g == nil {
		s.grant = &auth.Grant{Action: spec.ActionSubscribe, Anonymous: true}
	}
	n.fanout.join(s)
	return s
}

// queued takes everything out of a subscriber's queue.
func queued(s *subscriber) []*frame {
	s.listen()
	frames, _ := s.take(nil, 1<<30)
	return frames
}

// Covers: SUB-20, SUB-21, PUB-05, MAT-21.
func TestAnUpdateIsOfferedOnce(t *testing.T) {
	n := newNode(t, nil)
	many := n.listener(nil, "a", "b", "{x}", "*", "a{?q}")
	other := n.listener(nil, "b")
	none := n.listener(nil, "c", "c/{x}")
	n.fanout.deliver(entry(1, "1", "a", "b", "a"))
	n.fanout.deliver(entry(2, "2", "a"))
	n.fanout.deliver(entry(3, "3", "b"))
	got, alt := queued(many), queued(other)
	if len(got) != 3 || len(alt) != 2 || len(queued(none)) != 0 {
		t.Fatalf("%d, %d frames; want 3, 2, 0", len(got), len(alt))
	}
	if got[0] != alt[0] {
		t.Error("the update was encoded for each of them")
	}
	n.fanout.leave(many)
	n.fanout.leave(many) // harmless
	n.fanout.deliver(entry(4, "4", "b"))
	if len(queued(many)) != 0 || len(queued(other)) != 1 {
		t.Error("somebody who left is still offered updates, or somebody who stayed is not")
	}
}

// Covers: SUB-22, CLA-02.
func TestPrivateUpdatesAreForTheGranted(t *testing.T) {
	n := newNode(t, nil)
	granted, denied := &counter{yes: true}, &counter{}
	gGranted, gDenied := granted.grant(), denied.grant()
	var yes, no []*subscriber
	for range 5 { // in turns, so that the memo cannot live on the last one alone
		yes = append(yes, n.listener(gGranted, "a"))
		no = append(no, n.listener(gDenied, "a"))
	}
	anonymous := n.listener(nil, "a", "*")
	for pos := 1; pos <= 2; pos++ {
		e := entry(pos, "secret", "a", "b")
		e.Update.Private = true
		n.fanout.deliver(e)
		for i := range yes {
			if got, not := len(queued(yes[i])), len(queued(no[i])); got != 1 || not != 0 {
				t.Errorf("subscriber %d: %d and %d frames, want 1 and 0", i, got, not)
			}
		}
		if len(queued(anonymous)) != 0 {
			t.Error("an anonymous subscriber got a private update")
		}
		// Once for each update and grant: one topic is enough for a yes, two are asked for a no.
		if granted.asked != pos || denied.asked != 2*pos {
			t.Errorf("after %d updates the grants were asked %d and %d times", pos, granted.asked, denied.asked)
		}
	}
	n.fanout.deliver(entry(3, "public", "a"))
	for i := range no {
		if len(queued(no[i])) != 1 {
			t.Error("a public update was kept from somebody without a grant")
		}
	}
	if granted.asked != 2 || denied.asked != 4 {
		t.Error("a grant was asked about a public update")
	}
}

func TestGrantMemo(t *testing.T) {
	var m grantMemo
	yes, no := &counter{yes: true}, &counter{}
	a, b := yes.grant(), no.grant()
	for _, g := range []*auth.Grant{a, a, b, b, a, b, a, a} {
		if got := m.allows(g, []string{"x"}); got != (g == a) {
			t.Errorf("verdict %v", got)
		}
	}
	if yes.asked != 1 || no.asked != 1 {
		t.Errorf("asked %d and %d times, want once each", yes.asked, no.asked)
	}
	var fresh grantMemo // the next update has other topics
	if fresh.allows(b, []string{"x"}) || no.asked != 2 {
		t.Error("a verdict outlives its update")
	}
}

// TestPanicInFanOut: one matcher's defect costs one update at most.
func TestPanicInFanOut(t *testing.T) {
	change, book, reg := observed(nil)
	n := newNode(t, change)
	s := n.listener(nil, "a")
	mine := &subscriber{hub: n.Hub, selectors: []topic.Selector{{Kind: topic.Classic, Pattern: "{bad}"}}, matchers: []topic.Matcher{bomb{}}}
	n.fanout.join(mine)
	n.fanout.deliver(entry(1, "1", "a"))
	if book.only(t, "panic in fan-out").attrs["position"] != "1" || series(t, reg, "cinnabar_panics_total") != 1 {
		t.Errorf("not logged and counted: %s", book)
	}
	n.fanout.leave(mine)
	n.fanout.deliver(entry(2, "2", "a"))
	frames := queued(s)
	if len(frames) == 0 || frames[len(frames)-1].pos != 2 {
		t.Error("the next update was not delivered")
	}
}

type bomb struct{}

func (bomb) Match(string) bool      { panic("a defect of a matcher") }
func (bomb) Prefix() (string, bool) { return "", false }
