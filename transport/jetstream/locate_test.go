package jetstream

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/eventid"
)

func mustLocate(t *testing.T, l *Log, id string, want transport.Position) {
	t.Helper()
	if pos, err := l.Locate(t.Context(), id); err != nil || pos != want {
		t.Errorf("locate %q: %d, %v; want %d", id, pos, err, want)
	}
}

// storeOnly stores an update as if the process had been killed before it noted the id.
func storeOnly(t *testing.T, l *Log, id string) transport.Position {
	t.Helper()
	u := update(0)
	u.ID = id
	m, err := encode(l.subjects.of(u.Topics), newNonce(), u)
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.publish(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return transport.Position(a.Sequence)
}

func TestAnIDThatIsNotIndexedYetIsKnown(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	l := open(t, o)
	for i := range 20 {
		add(t, l, update(i))
	}
	pos := storeOnly(t, l, "e1")
	mustLocate(t, l, "e1", pos)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l = open(t, o)
	if entry, err := l.getID(t.Context(), l.subjects.id("e1")); err != nil || entry.revision == 0 || entry.foreign || entry.pos != pos {
		t.Errorf("after the start the index says %+v, %v; want %d", entry, err, pos)
	}
	mustLocate(t, l, "e1", pos)
}

func TestWithoutIndexRecentHistoryIsSearched(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir(), NoIDIndex: true})
	u := update(0)
	u.ID = "e1"
	first := add(t, l, u)
	add(t, l, u)
	mustLocate(t, l, "e1", first.Pos)
	if _, err := l.Locate(t.Context(), "e2"); !errors.Is(err, transport.ErrUnknown) {
		t.Errorf("locate e2: %v", err)
	}
	if _, err := l.js.Stream(t.Context(), idsName("cinnabar")); err == nil {
		t.Error("there is an index")
	}
}

func TestTheEarliestOfConcurrentEqualIDsIsIndexed(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	for round := range 20 {
		id := fmt.Sprintf("e%d", round)
		var mu sync.Mutex
		var wg sync.WaitGroup
		var first transport.Position
		for range 8 {
			wg.Go(func() {
				u := update(round)
				u.ID = id
				e, err := l.Append(t.Context(), u)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if first == 0 || e.Pos < first {
					first = e.Pos
				}
			})
		}
		wg.Wait()
		mustLocate(t, l, id, first)
	}
}

func TestIndexEntriesOfAnotherLogAreNotBelieved(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	add(t, l, update(0))
	for id, text := range map[string]string{
		"other epoch":   fmt.Sprintf("%d 1", l.identity.Load().epoch+1),
		"beyond":        fmt.Sprintf("%d 999", l.identity.Load().epoch),
		"not the place": fmt.Sprintf("%d 1", l.identity.Load().epoch),
		"nonsense":      "x",
	} {
		if _, err := l.publish(t.Context(), &nats.Msg{Subject: l.subjects.id(id), Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		if pos, err := l.Locate(t.Context(), id); !errors.Is(err, transport.ErrUnknown) {
			t.Errorf("%s: %d, %v; want ErrUnknown", id, pos, err)
		}
	}
	u := update(1)
	u.ID = "other epoch"
	mustLocate(t, l, u.ID, add(t, l, u).Pos)
}

func TestHubIDIsProvedByItsCheckValue(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir(), MaxMessages: 5})
	for i := range 10 {
		add(t, l, update(i))
	}
	forged := func(pos uint64) string { return l.identity.Load().codec.Encode(pos, eventid.Check("another nonce")) }
	if _, err := l.Locate(t.Context(), forged(8)); !errors.Is(err, transport.ErrUnknown) {
		t.Errorf("an id from a log whose tail was lost: %v", err)
	}
	if _, err := l.Locate(t.Context(), forged(11)); !errors.Is(err, transport.ErrUnknown) {
		t.Errorf("an id beyond the end: %v", err)
	}
	mustLocate(t, l, forged(5), 5) // gone, nothing after it lost: the epoch is all there is
	if _, err := l.Locate(t.Context(), forged(4)); !errors.Is(err, transport.ErrTrimmed) {
		t.Errorf("a trimmed id: %v", err)
	}
	// a single update that was deleted
	stream, err := l.js.Stream(t.Context(), "cinnabar")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	l.window.reset()
	mustLocate(t, l, forged(8), 8)
	if got := scan(t, l, 6, 10); len(got) != 3 {
		t.Errorf("%d entries beside the deleted one", len(got))
	}
}
