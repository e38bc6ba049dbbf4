package jetstream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// farewell makes the update that tells of the end of p.
func farewell(p transport.Presence) []*spec.Update {
	return []*spec.Update{{Topics: []string{"https://example.com/gone"}, Data: p.Subscriber}}
}

// attend attends l's directory. gone is called before farewell, if it is not nil. The channel gets a value with each
// call of lost.
func attend(t *testing.T, l *Log, gone func()) (lost chan struct{}) {
	t.Helper()
	lost = make(chan struct{}, 100)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	err := l.Attend(ctx, func(p transport.Presence) []*spec.Update {
		if gone != nil {
			gone()
		}
		return farewell(p)
	}, func() { lost <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	return lost
}

// enter enters the subscribers from up to, not including, to.
func enter(t *testing.T, l *Log, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := l.Enter(t.Context(), somebody(i)); err != nil {
			t.Fatalf("enter %d: %v", i, err)
		}
	}
}

// depart takes them out again; each was there.
func depart(t *testing.T, l *Log, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if there, err := l.Leave(t.Context(), somebody(i).Subscriber); err != nil || !there {
			t.Fatalf("leave %d: %v, %v", i, there, err)
		}
	}
}

// lists reports whether l lists exactly those.
func lists(t *testing.T, l *Log, from, to int) bool {
	t.Helper()
	list, err := l.List(t.Context())
	if err != nil {
		t.Logf("list: %v", err)
		return false
	}
	var got, want []string
	for _, p := range list {
		got = append(got, p.Subscriber)
	}
	for i := from; i < to; i++ {
		want = append(want, somebody(i).Subscriber)
	}
	slices.Sort(got)
	return slices.Equal(got, want)
}

func mustList(t *testing.T, l *Log, from, to int) {
	t.Helper()
	eventually(t, "the directory to answer", func() bool { _, err := l.List(t.Context()); return err == nil })
	if !lists(t, l, from, to) {
		list, err := l.List(t.Context())
		t.Fatalf("lists %d, %v; want those from %d to %d", len(list), err, from, to)
	}
}

// mustTell fails the test unless the log tells of the end of these, once each, and of no others. Who is dead is off the
// list before that is told.
func mustTell(t *testing.T, l *Log, from, to int) {
	t.Helper()
	var told map[string]int
	eventually(t, "it is told", func() bool {
		told = map[string]int{}
		for _, e := range scan(t, l, 0, 1<<60) {
			told[e.Update.Data]++
		}
		return len(told) >= to-from
	})
	for i := from; i < to; i++ {
		if n := told[somebody(i).Subscriber]; n != 1 {
			t.Errorf("the end of %d is told %d times", i, n)
		}
	}
	if len(told) != to-from {
		t.Errorf("the end of %d is told, want %d", len(told), to-from)
	}
}

// churn has some come and go until stop is called.
func churn(t *testing.T, l *Log, from int) (stop func()) {
	t.Helper()
	var wg sync.WaitGroup
	done := make(chan struct{})
	for w := range 4 {
		wg.Go(func() {
			for i := from + w*1_000_000; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				p := somebody(i)
				if err := l.Enter(t.Context(), p); err != nil {
					t.Errorf("enter: %v", err)
					return
				}
				if there, err := l.Leave(t.Context(), p.Subscriber); err != nil || !there {
					t.Errorf("leave: %v, %v", there, err)
					return
				}
			}
		})
	}
	return func() { close(done); wg.Wait() }
}

func TestTheDirectorySurvivesBrokenConnections(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir(), lease: shortLease})
	lost := attend(t, l, nil)
	enter(t, l, 0, 10)
	stop := churn(t, l, 1000)
	for range 8 {
		if err := l.nc.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it lists", func() bool { _, err := l.List(t.Context()); return err == nil })
	}
	stop()
	mustList(t, l, 0, 10)
	mustTell(t, l, 0, 0)
	if len(lost) > 0 {
		t.Error("it was taken for dead")
	}
}

func TestTheDirectorySurvivesARestartInPlace(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir(), lease: shortLease})
	lost := attend(t, l, nil)
	enter(t, l, 0, 10)
	stop := churn(t, l, 1000)
	for range 2 {
		old := l.server.current.Load()
		old.Shutdown()
		eventually(t, "new server", func() bool { s := l.server.current.Load(); return s != nil && s != old })
		eventually(t, "it lists", func() bool { _, err := l.List(t.Context()); return err == nil })
	}
	stop()
	mustList(t, l, 0, 10)
	mustTell(t, l, 0, 0)
	if len(lost) > 0 {
		t.Error("it was taken for dead")
	}
}

// TestADirectoryThatIsGoneIsMadeAnew: somebody has deleted it.
func TestADirectoryThatIsGoneIsMadeAnew(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir(), lease: shortLease})
	lost := attend(t, l, nil)
	enter(t, l, 0, 10)
	if err := l.js.DeleteStream(t.Context(), presenceName(l.opts.Prefix)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all are listed again", func() bool { return lists(t, l, 0, 10) })
	depart(t, l, 0, 10)
	mustList(t, l, 0, 0)
	mustTell(t, l, 0, 0)
	if len(lost) > 0 {
		t.Error("it was taken for dead")
	}
}

// TestWhatAFailedCallHasDoneIsUndone: a presence that nobody knows of is taken out, and one that is missing comes
// back.
func TestWhatAFailedCallHasDoneIsUndone(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir(), lease: shortLease})
	attend(t, l, nil)
	enter(t, l, 0, 3)
	d := l.attendance.directory
	body, err := encodePresence(somebody(99))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.publish(t.Context(), d.message(d.connection(d.ownTerm(), hash(somebody(99).Subscriber)), body)); err != nil {
		t.Fatal(err)
	}
	if lists(t, l, 0, 3) {
		t.Fatal("the ghost is not listed")
	}
	eventually(t, "the ghost is out", func() bool { return lists(t, l, 0, 3) })
	if outcome, err := d.takeOut(t.Context(), d.connection(d.ownTerm(), hash(somebody(1).Subscriber)), 1, "somebody else"); err != nil || outcome != takenOut {
		t.Fatal(outcome, err)
	}
	if lists(t, l, 0, 3) {
		t.Fatal("the missing one is listed")
	}
	eventually(t, "the missing one is back", func() bool { return lists(t, l, 0, 3) })
	depart(t, l, 0, 3)
	mustTell(t, l, 0, 0)
}

// TestWhoeverCouldNotEnterLeaves: what is stored of an Enter that has failed is not listed any more when Leave returns,
// and has not been there, as nobody was told of it.
func TestWhoeverCouldNotEnterLeaves(t *testing.T) {
	t.Parallel()
	quiet := shortLease
	quiet.tidy = time.Hour
	l := open(t, Options{Dir: t.TempDir(), lease: quiet})
	attend(t, l, nil)
	enter(t, l, 0, 2)
	d := l.attendance.directory
	d.mu.Lock()
	r := d.records[hash(somebody(0).Subscriber)]
	r.seq, r.failed = 0, true // as if the acknowledgement had not come
	d.mu.Unlock()
	if there, err := l.Leave(t.Context(), somebody(0).Subscriber); err != nil || there {
		t.Errorf("leave: %v, %v", there, err)
	}
	mustList(t, l, 1, 2)
	enter(t, l, 0, 1)
	mustList(t, l, 0, 2)
}

// TestANodeLeavesWhateverItsLastRefreshHasDone: Close comes while one is under way.
func TestANodeLeavesWhateverItsLastRefreshHasDone(t *testing.T) {
	s, prefix := sharedServers(t)
	logs, _ := nodesOn(t, s, prefix, 2)
	enter(t, logs[1], 0, 5)
	d := logs[1].attendance.directory
	name := d.ownTerm()
	d.end(transport.ErrClosed)
	d.work.Wait()
	if _, err := logs[1].publish(t.Context(), d.replacing(d.lease(d.term.name), d.term.seq, stateAlive, "", d.times.ttl)); err != nil {
		t.Fatal(err) // stored, and its acknowledgement is not waited for
	}
	if err := logs[1].Close(background(t)); err != nil {
		t.Fatal(err)
	}
	mustList(t, logs[0], 0, 0)
	if n := logs[0].attendance.directory.mirror.count(name); n > 0 {
		t.Errorf("%d connections are left in the stream", n)
	}
	mustTell(t, logs[0], 0, 0)
}

// TestAStandaloneHubThatDiedIsClearedAwayWhenItStartsAgain does not wait for a lease: nobody else can be there.
func TestAStandaloneHubThatDiedIsClearedAwayWhenItStartsAgain(t *testing.T) {
	t.Parallel()
	lasting := leaseTimes{ttl: time.Minute, refresh: time.Second, look: 100 * time.Millisecond, tidy: time.Second}
	l := open(t, Options{Dir: t.TempDir(), lease: lasting})
	attend(t, l, nil)
	enter(t, l, 0, 600)
	depart(t, l, 0, 10)
	l.nc.Close() // from now on nothing is written
	if err := l.Close(background(t)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	l = open(t, l.opts)
	attend(t, l, nil)
	enter(t, l, 600, 605)
	eventually(t, "the dead are out", func() bool { return lists(t, l, 600, 605) })
	if took := time.Since(began); took > lasting.ttl*3/4 {
		t.Errorf("it took %v", took)
	}
	mustTell(t, l, 10, 600)
}

// nodesOn opens n nodes that attend one directory on s.
func nodesOn(t *testing.T, s *servers, prefix string, n int) (logs []*Log, lost []chan struct{}) {
	t.Helper()
	for i := range n {
		l := openExternal(t, s, Options{Prefix: prefix, Node: fmt.Sprintf("n%d", i+1), lease: shortLease})
		logs = append(logs, l)
		lost = append(lost, attend(t, l, nil))
	}
	return logs, lost
}

func TestOneOfManySweeps(t *testing.T) {
	s, prefix := sharedServers(t)
	logs, _ := nodesOn(t, s, prefix, 5)
	for round := range 20 { // of four who claim a term, one gets it
		name := fmt.Sprintf("term%d", round)
		outcomes := make([]error, 4)
		var wg sync.WaitGroup
		for i := range outcomes {
			wg.Go(func() {
				_, outcomes[i] = logs[i].attendance.directory.claim(t.Context(), name, 0, time.Now().Add(time.Minute))
			})
		}
		wg.Wait()
		won := 0
		for _, err := range outcomes {
			switch {
			case err == nil:
				won++
			case !refused(err):
				t.Errorf("claim: %v", err)
			}
		}
		if won != 1 {
			t.Errorf("%d have claimed the term", won)
		}
	}
	enter(t, logs[4], 0, 600) // more than are cleared under one renewal
	victim := logs[4].attendance.directory.ownTerm()
	logs[4].nc.Close()
	eventually(t, "it is cleared away", func() bool { return logs[0].attendance.directory.mirror.count(victim) == 0 })
	mustTell(t, logs[0], 0, 600)
	mustList(t, logs[0], 0, 0)
}

// TestASweeperThatDiesIsReplaced: what it has begun, another ends, and nothing is told twice.
func TestASweeperThatDiesIsReplaced(t *testing.T) {
	s, prefix := sharedServers(t)
	var (
		logs []*Log
		mu   sync.Mutex
		told int
		died = -1
	)
	for i := range 3 {
		l := openExternal(t, s, Options{Prefix: prefix, Node: fmt.Sprintf("n%d", i+1), lease: shortLease})
		logs = append(logs, l)
		attend(t, l, func() {
			mu.Lock()
			defer mu.Unlock()
			if told++; told == 100 {
				died = i
				l.nc.Close()
			}
		})
	}
	victim := openExternal(t, s, Options{Prefix: prefix, Node: "victim", lease: shortLease})
	attend(t, victim, nil)
	enter(t, victim, 0, 300)
	victim.nc.Close()
	eventually(t, "a sweeper dies", func() bool { mu.Lock(); defer mu.Unlock(); return died >= 0 })
	alive := logs[(died+1)%len(logs)]
	mustTell(t, alive, 0, 300)
	eventually(t, "the sweep has ended", func() bool {
		return alive.attendance.directory.mirror.count(victim.attendance.directory.ownTerm()) == 0
	})
	mustList(t, alive, 0, 0)
	mustTell(t, alive, 0, 300)
}

// TestTheDirectoryWhileItsLeaderChanges loses the leader and a node of the hub at the same time.
func TestTheDirectoryWhileItsLeaderChanges(t *testing.T) {
	s := newServers(t, 3)
	logs, lost := nodesOn(t, s, "hub", 3)
	enter(t, logs[0], 0, 20)
	enter(t, logs[1], 20, 40)
	enter(t, logs[2], 40, 60)
	for _, l := range logs {
		mustList(t, l, 0, 60)
	}
	stop := churn(t, logs[0], 1000)
	leader := s.leader(presenceName("hub"))
	if leader < 0 {
		t.Fatal("no leader")
	}
	logs[2].nc.Close()
	s.stop(leader)
	eventually(t, "an election", func() bool { return s.leader(presenceName("hub")) >= 0 })
	eventually(t, "it lists", func() bool { _, err := logs[1].List(t.Context()); return err == nil })
	s.start(t, leader)
	stop()
	for _, l := range logs[:2] {
		eventually(t, "the dead are out", func() bool { return lists(t, l, 0, 40) })
	}
	mustTell(t, logs[0], 40, 60)
	if len(lost[0]) > 0 || len(lost[1]) > 0 {
		t.Error("somebody else was taken for dead")
	}
}

func TestTheDirectoryOfAnEmbeddedCluster(t *testing.T) {
	logs := openCluster(t, 3, Options{lease: shortLease})
	for i, l := range logs {
		attend(t, l, nil)
		enter(t, l, 10*i, 10*(i+1))
	}
	for _, l := range logs {
		mustList(t, l, 0, 30)
	}
	logs[2].nc.Close() // its process dies, and its server with it
	if err := logs[2].Close(background(t)); err != nil {
		t.Fatal(err)
	}
	for _, l := range logs[:2] {
		eventually(t, "the dead are out", func() bool { return lists(t, l, 0, 20) })
	}
	mustTell(t, logs[0], 20, 30)
}
