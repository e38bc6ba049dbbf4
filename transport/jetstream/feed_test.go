package jetstream

import (
	"sync"
	"testing"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// untold appends an update as an append does whose acknowledgement is lost: the log has it, this process does not know.
func untold(t *testing.T, l *Log, i int) transport.Entry {
	t.Helper()
	nonce := newNonce()
	m, err := encode(l.subjects.of(update(i).Topics), nonce, update(i))
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.publish(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	e, found, err := l.at(t.Context(), transport.Position(a.Sequence))
	if err != nil || !found {
		t.Fatalf("position %d is not stored: %v", a.Sequence, err)
	}
	return e
}

func TestTheFeedHandsOutWhatNoAcknowledgementTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ known []bool }{
		"in the middle": {[]bool{true, false, true}},
		"two":           {[]bool{true, false, false, true}},
		"at the end":    {[]bool{true, false}},
		"all":           {[]bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, Options{Dir: t.TempDir()})
			f := follow(t, l)
			var want []transport.Entry
			for i, known := range c.known {
				if known {
					want = append(want, add(t, l, update(i)))
				} else {
					want = append(want, untold(t, l, i))
				}
			}
			mustBeSame(t, "followed", f.until(t, want[len(want)-1].Pos), want)
		})
	}
}

// Entries that retention takes at once are handed out all the same, in order, also when a restart of the follower
// comes in between.
func TestTheFeedIsInOrderWhateverEndsItOnTheWay(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir(), MaxMessages: 1})
	f := follow(t, l)
	const publishers, each = 8, 100
	var (
		mu   sync.Mutex
		ids  = map[transport.Position]string{}
		last transport.Position
		wg   sync.WaitGroup
	)
	for range publishers {
		wg.Go(func() {
			for i := range each {
				e, err := l.Append(t.Context(), update(i))
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				mu.Lock()
				ids[e.Pos], last = e.Update.ID, max(last, e.Pos)
				mu.Unlock()
				if i%25 == 0 {
					l.follower.restart()
				}
			}
		})
	}
	wg.Wait()
	got := f.until(t, last)
	if len(got) != publishers*each {
		t.Errorf("%d entries were handed out, %d appended", len(got), publishers*each)
	}
	for i, e := range got {
		if i > 0 && e.Pos <= got[i-1].Pos {
			t.Fatalf("%d comes after %d", e.Pos, got[i-1].Pos)
		}
		if ids[e.Pos] != e.Update.ID {
			t.Errorf("at %d stands %q, %q was acknowledged", e.Pos, e.Update.ID, ids[e.Pos])
		}
	}
}
