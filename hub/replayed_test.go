package hub

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

func TestReplaysAreOfTheUpdateThatIsRead(t *testing.T) {
	var r replays
	one := transport.Entry{Pos: 5, Update: &spec.Update{ID: "same", Topics: []string{"a"}, Data: "one"}}
	for _, chunked := range []bool{true, false} {
		want := newFrame(one).wire(chunked)
		r.wire(one, chunked) // may be the first time
		if got := r.wire(one, chunked); !bytes.Equal(got, want) {
			t.Errorf("chunked %v: %q, want %q", chunked, got, want)
		}
	}
	// another log has the same id at the same place; and one far away shares the place here
	two := transport.Entry{Pos: 5, Update: &spec.Update{ID: "same", Topics: []string{"a"}, Data: "two"}}
	far := transport.Entry{Pos: 5 + replayPlaces, Update: &spec.Update{ID: "far", Topics: []string{"a"}, Data: "far"}}
	for _, e := range []transport.Entry{two, far, one} {
		if got := r.wire(e, true); got != nil {
			t.Errorf("%q stands for another update", got)
		}
		if got, want := r.wire(e, true), newFrame(e).wire(true); !bytes.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestReplaysKeepNothingBig(t *testing.T) {
	for name, u := range map[string]*spec.Update{
		"data":   {Topics: []string{"a"}, Data: strings.Repeat("x", replayBytes)},
		"topics": {Topics: []string{strings.Repeat("x", replayBytes)}},
	} {
		var r replays
		for range 3 {
			if r.wire(transport.Entry{Pos: 1, Update: u}, true) != nil {
				t.Errorf("big %s: it is kept", name)
			}
		}
	}
}

func TestReplaysAreSharedByManyReaders(t *testing.T) {
	var (
		r       replays
		wg      sync.WaitGroup
		entries []transport.Entry
	)
	for i := range 3 * replayPlaces {
		u := &spec.Update{Topics: []string{"a"}, Data: strings.Repeat("x", i%50)}
		entries = append(entries, transport.Entry{Pos: transport.Position(i + 1), Update: u})
	}
	for range 4 {
		wg.Go(func() {
			for _, e := range entries {
				if got := r.wire(e, true); got != nil && !bytes.Equal(got, newFrame(e).wire(true)) {
					t.Errorf("position %d: %q", e.Pos, got)
				}
			}
		})
	}
	wg.Wait()
}
