package jetstream

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// A log that has lost its end may say so at any moment, also when there is no reader yet that could be told: what comes
// next is handed out all the same, from where the log ends now.
func TestTheFollowerIsSentBackBeforeItReads(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir()})
	f := l.follower
	f.rewind.Store(1)
	if err := f.use(make(stopper, 1)); !errors.Is(err, errSentBack) {
		t.Errorf("reads on: %v", err)
	}
	f.rewind.Store(0)
	f.renewed.Store(1)
	if err := f.use(make(stopper, 1)); !errors.Is(err, errSentBack) {
		t.Errorf("reads on in another log: %v", err)
	}
	f.renewed.Store(0)
	if err := f.use(make(stopper, 1)); err != nil {
		t.Errorf("does not read: %v", err)
	}
}

// The log loses its end while the follower hands an entry out, and what takes the lost places is there before the
// follower looks: it comes in its order, and once.
func TestWhatIsAppendedAfterALossWaitsForWhatStandsBeforeIt(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir()})
	var (
		c       collector
		entered = make(chan struct{})
		leave   = make(chan struct{})
	)
	if _, err := l.Follow(t.Context(), func(e transport.Entry) {
		c.take(e)
		if e.Update.ID == "lost" {
			close(entered)
			<-leave
		}
	}); err != nil {
		t.Fatal(err)
	}
	var want []transport.Entry
	for i := range 10 {
		want = append(want, add(t, l, update(i)))
	}
	c.until(t, 10)
	lost := *update(100)
	lost.ID = "lost"
	gone := transport.Entry{Pos: 11, Update: &lost} // acknowledged, and then lost
	l.newest.raise(gone)
	l.tail.end(&pending{}, gone)
	<-entered
	l.follower.mu.Lock()
	reader := l.follower.reader
	l.follower.reader = nil // nobody is told: the follower is about to look by itself
	l.follower.mu.Unlock()
	if err := l.forgetLost(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.follower.mu.Lock()
	l.follower.reader = reader
	l.follower.mu.Unlock()
	want = append(want, gone)
	for i := range 5 {
		want = append(want, add(t, l, update(200+i)))
	}
	if want[11].Pos != 11 {
		t.Fatalf("the first new entry is at %d", want[11].Pos)
	}
	close(leave)
	mustBeSame(t, "followed", c.until(t, 15), want)
}

// A backup of this very log is restored into it after retention has taken everything: the identity is the same, and the
// positions after the backup are given a second time.
func TestALogRestoredToAnEarlierStateIsFollowed(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir()})
	c := follow(t, l)
	var want []transport.Entry
	for i := range 10 {
		want = append(want, add(t, l, update(i)))
	}
	var backup bytes.Buffer
	if _, err := l.Backup(t.Context(), &backup, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		want = append(want, add(t, l, update(10+i)))
	}
	c.until(t, 20)
	s, err := l.js.Stream(t.Context(), l.opts.Prefix)
	if err == nil {
		err = s.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Restore(t.Context(), &backup, nil); err != nil {
		t.Fatal(err)
	}
	var after []transport.Entry
	for i := range 11 { // beyond what was followed before
		after = append(after, add(t, l, update(100+i)))
	}
	if after[0].Pos != 11 {
		t.Fatalf("the first entry after the backup is at %d", after[0].Pos)
	}
	mustBeSame(t, "scan", scan(t, l, 10, 21), after)
	mustBeSame(t, "followed", c.until(t, 21), append(want, after...))
}
