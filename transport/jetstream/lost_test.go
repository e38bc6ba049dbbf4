package jetstream

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// A server that was restarted in place has lost the end of the log: what is known of it is forgotten, and the
// entries that take the lost positions are followed, scanned and located.
func TestALostEndIsForgotten(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	c := follow(t, l)
	for i := range 10 {
		add(t, l, update(i))
	}
	c.until(t, 10)
	scan(t, l, 0, 10)
	for pos := transport.Position(11); pos <= 20; pos++ { // appended and followed, and then lost
		u := *update(int(pos))
		u.ID = "lost"
		e := transport.Entry{Pos: pos, Update: &u}
		l.newest.raise(e)
		l.window.append(pos-1, pos, []transport.Entry{e})
		switch pos {
		case 19: // its acknowledgement is on its way
		case 20:
			l.tail.end(&pending{}, e)
		default:
			l.follower.reach(pos)
		}
	}
	if err := l.forgetLost(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pos, id := l.newest.get(); pos != 10 || id != "" {
		t.Errorf("the newest known is %q at %d", id, pos)
	}
	if _, ok := l.tail.get(20); ok {
		t.Error("a lost entry is kept for the follower")
	}
	eventually(t, "the follower to go back", func() bool { return l.follower.reached.Load() == 10 })
	var got []transport.Entry
	for i := range 15 {
		got = append(got, add(t, l, update(1000+i)))
	}
	if got[0].Pos != 11 {
		t.Fatalf("the first new entry is at %d", got[0].Pos)
	}
	mustBeSame(t, "scan", scan(t, l, 10, 25), got)
	mustBeSame(t, "followed", c.until(t, 25)[10:], got)
	if s, err := l.Span(t.Context()); err != nil || s.LastID != got[14].Update.ID {
		t.Errorf("span is %+v, %v", s, err)
	}
	if err := l.forgetLost(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustBeSame(t, "scan when nothing was lost", scan(t, l, 10, 25), got)
}

// The log has grown beyond what the follower had reached before the follower looked: it goes back all the same.
func TestTheFollowerIsSentBack(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	c := follow(t, l)
	var want []transport.Entry
	for i := range 5 {
		want = append(want, add(t, l, update(i)))
	}
	c.until(t, 5)
	l.follower.rewind.Store(3 + 1)
	l.follower.restart()
	want = append(want, want[3:]...)
	eventually(t, "the follower to go back", func() bool { return l.follower.rewind.Load() == 0 })
	want = append(want, add(t, l, update(5)))
	mustBeSame(t, "followed", c.until(t, 6), want)
}

// The description of the stream is lost, as by a power cut: the history keeps its ids.
func TestAStreamWithoutItsDescriptionKeepsItsIDs(t *testing.T) {
	for name, damage := range map[string]func(meta string) error{
		"empty":       func(meta string) error { return os.Truncate(meta, 0) },
		"gone":        os.Remove,
		"no checksum": func(meta string) error { return os.Truncate(filepath.Join(filepath.Dir(meta), "meta.sum"), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Dir: t.TempDir()}
			l := open(t, o)
			var last transport.Entry
			for i := range 10 {
				last = add(t, l, update(i))
			}
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := damage(filepath.Join(o.Dir, storeDir, account, "streams", l.opts.Prefix, "meta.inf")); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				l = open(t, o)
				mustLocate(t, l, last.Update.ID, last.Pos)
				if got := scan(t, l, 0, last.Pos); len(got) != 10 {
					t.Errorf("%d entries", len(got))
				}
				if err := l.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A stream that is new in truth has a new identity, whatever is kept.
func TestARecreatedStreamHasAnotherIdentity(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	l := open(t, o)
	e := add(t, l, update(1))
	if err := l.js.DeleteStream(t.Context(), l.opts.Prefix); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l = open(t, o)
	add(t, l, update(2))
	if _, err := l.Locate(t.Context(), e.Update.ID); !errors.Is(err, transport.ErrUnknown) {
		t.Errorf("locate an id of the stream before: %v", err)
	}
}

func TestCloseWithoutTimeGivesTheDirectoryBack(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	l := open(t, o)
	follow(t, l)
	add(t, l, update(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	open(t, o)
}

// What is larger than the average lets the window give up, not read the same again and again.
func TestTheWindowGivesUpWhatDoesNotFit(t *testing.T) {
	if testing.Short() {
		t.Skip("appends 8,000 entries")
	}
	const limit, small, large, behind = 4 << 20, 8000, 100, 500
	l := open(t, Options{Dir: t.TempDir(), WindowBytes: limit})
	fillConcurrently(t, l, small)
	for range large {
		add(t, l, &spec.Update{Topics: []string{"large"}, Data: strings.Repeat("y", 64<<10)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 3 {
		n := 0
		for _, err := range l.Scan(ctx, small-behind, small+large, nil) {
			if err != nil {
				t.Fatalf("scan after %d entries: %v", n, err)
			}
			n++
		}
		if n != behind+large {
			t.Errorf("%d entries", n)
		}
	}
	l.window.mu.Lock()
	defer l.window.mu.Unlock()
	if l.window.bytes > limit {
		t.Errorf("the window holds %d bytes", l.window.bytes)
	}
}

// A panic while the window is filled, contained by whoever called, lets others go on.
func TestAPanicWhileFillingTheWindowHangsNobody(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	add(t, l, update(1))
	id := l.identity.Load()
	l.identity.Store(&identity{epoch: id.epoch, key: id.key}) // decoding panics
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		scan(t, l, 0, 1)
	}()
	l.identity.Store(id)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, err := range l.Scan(ctx, 0, 1, nil) {
		if err != nil {
			t.Error(err)
		}
	}
}
