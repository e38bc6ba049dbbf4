package jetstream

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/transport"
)

func TestWhereMendingBegins(t *testing.T) {
	for _, c := range []struct {
		what string
		last idEntry
		x    extent
		want transport.Position
	}{
		{"a new log", idEntry{}, extent{first: 1}, 0},
		{"no id yet", idEntry{}, extent{first: 1, last: 5000}, 5000 - mendReach},
		{"a recent id", idEntry{pos: 4000, revision: 1}, extent{first: 1, last: 5000}, 4000 - mendReach},
		{"an id long ago", idEntry{pos: 1, revision: 1}, extent{first: 1, last: 200_000}, 200_000 - mendMost},
		{"trimmed since", idEntry{pos: 10, revision: 1}, extent{first: 4500, last: 5000}, 4499},
		{"another log's id", idEntry{revision: 1, foreign: true}, extent{first: 1, last: 5000}, 5000 - mendReach},
		{"an index ahead of the log", idEntry{pos: 9000, revision: 1}, extent{first: 1, last: 5000}, 5000 - mendReach},
	} {
		if got := mendFrom(c.last, c.x); got != c.want {
			t.Errorf("%s: after %d, want %d", c.what, got, c.want)
		}
	}
}

func TestMendingIsOvertakenByRetention(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir(), MaxMessages: 700})
	fillConcurrently(t, l, 700)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 3000 {
			if _, err := l.Append(t.Context(), update(i)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for {
		if err := l.mendIndex(t.Context()); err != nil {
			t.Error(err)
		}
		select {
		case <-done:
			return
		default:
			l.window.reset()
		}
	}
}

func TestAnIndexThatCannotBeMendedIsNoReasonNotToStart(t *testing.T) {
	o := Options{Dir: t.TempDir(), MaxIDs: 1}
	l := open(t, o)
	u := update(0)
	u.ID = "e1"
	add(t, l, u)
	stream, err := l.js.Stream(t.Context(), idsName(l.opts.Prefix))
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Discard = jetstream.DiscardNew // the index is full
	if _, err := l.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	pos := storeOnly(t, l, "e2")
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var lines logBuffer
	o.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	l, err = Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	mustLocate(t, l, "e2", pos) // from recent history
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if !lines.has("not all indexed") {
		t.Error("nothing was logged")
	}
}

func TestAnIndexEntryWhoseUpdateWasLostIsReplaced(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	if err := l.putID(t.Context(), "e1", 3); err != nil { // the log has lost its end since
		t.Fatal(err)
	}
	for i := range 5 {
		add(t, l, update(i))
	}
	u := update(6)
	u.ID = "e1"
	e := add(t, l, u)
	if entry, err := l.getID(t.Context(), l.subjects.id("e1")); err != nil || entry.foreign || entry.pos != e.Pos {
		t.Errorf("the index says %+v, %v; want %d", entry, err, e.Pos)
	}
	mustLocate(t, l, "e1", e.Pos)
}

func TestTheIndexIsAskedWithoutReading(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	u := update(0)
	u.ID = "e1"
	add(t, l, u)
	for id, want := range map[string]bool{"e1": true, "e2": false} {
		if known, err := l.indexKnows(t.Context(), id); err != nil || known != want {
			t.Errorf("%s: %v, %v", id, known, err)
		}
	}
}

func TestIDsOutliveUpdatesAtMostForever(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{0: 0, time.Hour: 2 * time.Hour, 1<<63 - 1: 0, 1 << 62: 0} {
		if got := idsAge(age); got != want {
			t.Errorf("%v: %v, want %v", age, got, want)
		}
	}
}

func TestAcknowledgementsAreRead(t *testing.T) {
	for text, want := range map[string]uint64{
		`{"stream":"cinnabar","seq":17}`:                     17,
		`{"stream":"cinnabar","seq":17,"duplicate":true}`:    17,
		`{"stream":"cinnabar","domain":"d","seq":17}`:        17,
		`{"stream":"cinnabar","seq":0}`:                      0,
		`{"stream":"cinnabar","seq":}`:                       0,
		`{"stream":"cinnabar","seq":17`:                      0,
		`{"error":{"code":503},"stream":"cinnabar","seq":1}`: 0,
		`{"stream":"cinnabar"}`:                              0,
		``:                                                   0,
	} {
		if got, ok := plainAck([]byte(text)); got != want || ok != (want > 0) {
			t.Errorf("%s: %d, %v; want %d", text, got, ok, want)
		}
	}
}
