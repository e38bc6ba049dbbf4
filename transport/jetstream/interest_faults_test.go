package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// alone is a follower that nothing runs and that has come to pos.
func alone(pos transport.Position) *interestFollower {
	l := &Log{opts: Options{MaxFilters: 100}, subjects: newSubjects("p", nil, ""), conn: newConn()}
	l.opts.Logger = slog.New(slog.DiscardHandler)
	l.follower = newFollower(l)
	f := newInterestFollower(l)
	l.interest = f
	f.reached, f.safe, f.begun = pos, pos, true
	return f
}

// What a leader has stored is taken for sent only if it still leads: one that has lost its office between the two
// sends nothing any more, and its successor, which has stored the same, does not either.
func TestWhatANewLeaderHasStoredIsNotTakenForSent(t *testing.T) {
	for leader, want := range map[string]transport.Position{"one": 12, "other": 10} {
		f := alone(10)
		f.leader, f.end, f.endAt = "one", &end{last: 12, leader: "one"}, time.Now().Add(-2*endAge)
		f.flight = &flight{round: newRound(), known: 10, sent: time.Now()}
		if f.fenced(12) {
			f.ended(end{last: 12, leader: leader})
		}
		if f.safe != want || f.suspicious() != (leader == "other") {
			t.Errorf("%s leads: safe is %d, want %d; suspicious: %v", leader, f.safe, want, f.suspicious())
		}
	}
}

// An Add that could not wait any longer relies on safe, which stands still from then on.
func TestSafeStandsStillOnceItIsPromised(t *testing.T) {
	f := alone(10)
	f.leader, f.end, f.endAt = "one", &end{last: 12, leader: "one"}, time.Now().Add(-2*endAge)
	f.flight = &flight{round: newRound(), known: 10, sent: time.Now()}
	ask := f.fenced(12)
	if from := f.promise([]*round{f.flight.round}); from != f.safe {
		t.Fatalf("promised %d, safe is %d", from, f.safe)
	}
	promised := f.safe
	if ask {
		f.ended(end{last: 12, leader: "one"})
	}
	if f.safe != promised {
		t.Errorf("safe was %d and is %d", promised, f.safe)
	}
}

// Without a quorum nothing is subscribed to for good; what nobody follows any more is forgotten all the same.
func TestFiltersAreLeftWhileTheFollowerIsNotSure(t *testing.T) {
	t.Parallel()
	s := startServers(t, []string{t.TempDir(), t.TempDir(), t.TempDir()})
	t.Cleanup(s.stopAll)
	l := openExternal(t, s, Options{Follow: FollowInterest})
	in, err := l.Follow(t.Context(), func(transport.Entry) {})
	if err != nil {
		t.Fatal(err)
	}
	calm(t, l)
	if _, err := in.Add(t.Context(), classic("stays")); err != nil {
		t.Fatal(err)
	}
	few := l.Stats().Filters
	s.stop(1)
	s.stop(2)
	eventually(t, "the loss to be noticed", func() bool { return s.leader("cinnabar") < 0 && l.interest.suspicious() })
	for i := range 500 {
		name := classic(numbered(i))
		if _, err := in.Add(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		in.Remove(name)
	}
	eventually(t, "the filters to be left", func() bool {
		f := l.interest
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.suspected.IsZero() {
			t.Fatal("the follower is sure again")
		}
		return len(f.filters) == few && len(f.leaving) == 0 && len(f.subs) <= few
	})
	s.start(t, 1)
	s.start(t, 2)
	calm(t, l)
	if n := l.nc.NumSubscriptions(); n > few+20 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// A node that follows everything, because it has to, counts no filters.
func TestAFollowerThatHasFallenBackKeepsNoFilters(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir(), Follow: FollowInterest})
	f := l.interest
	if err := f.follow(t.Context(), func(transport.Entry) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Add(t.Context(), classic("early")); err != nil { // nobody runs it: a promise
		t.Fatal(err)
	}
	f.fallBack(t.Context())
	for i := range 100 {
		name := classic(numbered(i))
		if _, err := f.Add(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		f.Remove(name)
	}
	f.Remove(classic("early"))
	if len(f.filters) > 0 || len(f.leaving) > 0 || len(f.watched) > 0 {
		t.Errorf("%d filters, %d leaving, %d watched", len(f.filters), len(f.leaving), len(f.watched))
	}
}

// A storm of subscribers with filters of their own keeps the follower reading the log. It is in order while it does:
// all that is published is handed out.
func TestAStormOfFiltersIsNoReasonNotToBeReady(t *testing.T) {
	f := alone(10)
	long := time.Now().Add(-2 * silentPatience)
	f.suspected = long
	if err := f.log.stalled(); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("not sure for long: %v", err)
	}
	f.fresh = []*filter{{name: "another"}}
	f.dials = f.log.conn.dialed()
	if f.settled() {
		t.Fatal("settled with a filter that is not subscribed")
	}
	if err := f.log.stalled(); err != nil {
		t.Errorf("not sure for long, and the log has just been read to its end: %v", err)
	}
	if _, since, _ := f.log.interesting(); !since.Equal(long) {
		t.Errorf("not sure since %v, want %v", since, long)
	}
}

// What has left the log is counted without going through it position by position.
func TestManyLostEntriesAreCountedAtOnce(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir(), Follow: FollowInterest})
	if err := l.interest.follow(t.Context(), func(transport.Entry) {}); err != nil {
		t.Fatal(err)
	}
	s, err := l.js.Stream(t.Context(), l.opts.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	const first = 4_000_000_000
	if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(first)); err != nil {
		t.Fatal(err)
	}
	f := l.interest
	f.handed.add(7)
	began := time.Now()
	if err := f.skip(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if lost := l.Stats().Lost; f.safe != first-1 || f.seen.lost.Load() != first-2 {
		t.Errorf("safe is %d, lost %d", f.safe, lost)
	}
}

// A log that was made anew by somebody who does not need the bus is followed all the same, and put in order.
func TestALogThatIsNotSentAgainIsFollowed(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	l := openExternal(t, s, Options{Prefix: prefix, Node: "b", Follow: FollowInterest})
	n := listenTo(t, l)
	n.until(t, add(t, l, named(numbered(1))).Pos)
	if err := l.js.DeleteStream(t.Context(), prefix); err != nil {
		t.Fatal(err)
	}
	a := openExternal(t, s, Options{Prefix: prefix, Node: "a", Follow: FollowAll})
	heard := func(data string) {
		t.Helper()
		add(t, a, &spec.Update{Topics: []string{numbered(1)}, Data: data})
		eventually(t, data+" to be handed out", func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return len(n.entries) > 0 && n.entries[len(n.entries)-1].Update.Data == data
		})
	}
	for i := range 3 {
		heard(fmt.Sprint("new ", i))
	}
	eventually(t, "the log to be sent again", func() bool {
		s, err := a.js.Stream(t.Context(), prefix)
		return err == nil && s.CachedInfo().Config.RePublish != nil
	})
	calm(t, l)
	before := l.Stats().Reread
	heard("at last")
	if again := l.Stats().Reread; again != before {
		t.Errorf("%d were read from the log", again-before)
	}
	if late := l.Stats().Late; late > 0 {
		t.Errorf("%d were late", late)
	}
}

// Nothing is handed out after the end of the follower's context, also of what is read from the log.
func TestAFollowerThatReadsTheLogEndsWithItsContext(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir(), Follow: FollowInterest})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	if err := l.interest.follow(ctx, func(transport.Entry) { calls++; cancel() }); err != nil {
		t.Fatal(err)
	}
	if _, err := l.interest.Add(ctx, classic("a")); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		add(t, l, named("a"))
	}
	l.interest.run(ctx) // reads first
	if calls != 1 {
		t.Errorf("%d entries were handed out", calls)
	}
}
