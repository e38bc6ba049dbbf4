package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// An id acknowledged on one node is found at once on another, and history is read up to it.
func TestAnIDIsFoundAtOnceOnAnotherNode(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	a := openExternal(t, s, Options{Prefix: prefix})
	b := openAnywhere(t, Options{Prefix: prefix, Servers: &Servers{URLs: s.urls(1)[:1]}, Follow: FollowAll})
	c := openAnywhere(t, Options{Prefix: prefix, Servers: &Servers{URLs: s.urls(2)[:1]}, Follow: FollowAll})
	var want []transport.Entry
	for i := range 100 {
		u := update(i)
		if i%2 == 1 {
			u.ID = fmt.Sprintf("publisher-%d", i)
		}
		e := add(t, a, u)
		want = append(want, e)
		for _, l := range []*Log{b, c} {
			mustLocate(t, l, e.Update.ID, e.Pos)
			mustBeSame(t, "scanned", scan(t, l, e.Pos-1, beyondAll), want[i:])
		}
	}
}

// beyondAll is a position beyond the end.
const beyondAll = transport.Position(1<<64 - 1)

// A replica that lags answers direct gets, too: what it does not have is not missing.
func TestAReplicaThatLagsIsNotBelieved(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	a := openExternal(t, s, Options{Prefix: prefix})
	var want []transport.Entry
	for i := range 60 {
		u := update(i)
		if i%3 == 0 {
			u.ID = fmt.Sprintf("publisher-%d", i)
		}
		want = append(want, add(t, a, u))
	}
	last := want[59].Pos
	b := openExternal(t, s, Options{Prefix: prefix})
	asked := lagAt(t, s, b, 20)
	for range 20 {
		b.window.reset()
		mustBeSame(t, "scanned", scan(t, b, 0, last), want)
		for _, e := range []transport.Entry{want[5], want[19], want[20], want[45], want[57], want[59]} {
			mustLocate(t, b, e.Update.ID, e.Pos)
		}
		if s, err := b.Span(t.Context()); err != nil || s.LastID != want[59].Update.ID {
			t.Errorf("span is %+v, %v", s, err)
		}
	}
	x, err := b.freshExtent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // as when it is no longer in recent history
		if pos, _, err := b.locateIndexed(t.Context(), want[57].Update.ID, x); err != nil || pos != want[57].Pos {
			t.Errorf("the index has the id at %d, %v", pos, err)
		}
	}
	if _, err := b.Locate(t.Context(), "nobody's"); !errors.Is(err, transport.ErrUnknown) {
		t.Errorf("an unknown id: %v", err)
	}
	if n := asked.Load(); n < 20 {
		t.Errorf("the replica that lags was asked %d times only", n)
	}
	// what an operator has deleted is stepped over, and what lags is not taken for it
	stream, err := a.js.Stream(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), uint64(want[30].Pos)); err != nil {
		t.Fatal(err)
	}
	without := slices.Concat(want[:30], want[31:])
	for range 10 {
		b.window.reset()
		mustBeSame(t, "scanned with one deleted", scan(t, b, 0, last), without)
	}
}

// lagAt has every other direct get of l answered by a replica that has nothing after upto, and no ids. It counts
// what that was asked.
func lagAt(t *testing.T, s *servers, l *Log, upto uint64) *atomic.Int64 {
	t.Helper()
	nc, err := nats.Connect(l.nc.ConnectedUrl())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	stream, err := l.js.Stream(t.Context(), l.opts.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	known := make([]*nats.Msg, 0, upto)
	for seq := uint64(1); seq <= upto; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		m.Header.Set("Nats-Sequence", strconv.FormatUint(seq, 10))
		known = append(known, &nats.Msg{Header: m.Header, Data: m.Data})
	}
	var asked atomic.Int64
	answer := func(m *nats.Msg) {
		asked.Add(1)
		var ask struct {
			Seq   uint64
			Batch int
			Last  string `json:"last_by_subj"`
		}
		err := json.Unmarshal(m.Data, &ask)
		say := func(a *nats.Msg) {
			a.Subject = m.Reply
			err = errors.Join(err, nc.PublishMsg(a))
		}
		status := func(code string) {
			say(&nats.Msg{Header: nats.Header{headerStatus: {code}}})
		}
		switch {
		case m.Subject != "lags."+l.opts.Prefix, ask.Last == "" && (ask.Seq == 0 || ask.Seq > upto):
			status(statusNone)
		case ask.Last != "":
			say(&nats.Msg{Header: known[upto-1].Header, Data: known[upto-1].Data})
		case ask.Batch == 0:
			say(&nats.Msg{Header: known[ask.Seq-1].Header, Data: known[ask.Seq-1].Data})
		default:
			for _, k := range known[ask.Seq-1 : min(int(upto), int(ask.Seq)-1+ask.Batch)] {
				say(&nats.Msg{Header: k.Header, Data: k.Data})
			}
			status(statusEnd)
		}
		if err != nil {
			t.Errorf("the replica that lags: %v", err)
		}
	}
	for _, name := range []string{l.opts.Prefix, idsName(l.opts.Prefix)} {
		if _, err := nc.Subscribe("lags."+name, answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, srv := range s.running { // the one to which l is connected does it
		acc, err := srv.LookupAccount(account)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{l.opts.Prefix, idsName(l.opts.Prefix)} {
			whole, lags := directGetSubject+name, "lags."+name
			if err := acc.AddWeightedMappings(whole, server.NewMapDest(whole, 50), server.NewMapDest(lags, 50)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { acc.RemoveMapping(whole) })
		}
	}
	return &asked
}

// The server that leads the stream, and to which the node is connected, is stopped while updates are published.
func TestAppendsGoOnWhenTheLeaderIsStopped(t *testing.T) {
	t.Parallel()
	s := newServers(t, 3)
	first := openExternal(t, s, Options{})
	leader := s.leader("cinnabar")
	l := openAnywhere(t, Options{Servers: &Servers{URLs: s.urls(leader)}, Follow: FollowAll, PublishTimeout: 6 * time.Second})
	followed := follow(t, l)
	var want []transport.Entry
	for i := range 300 {
		if i == 100 {
			s.stop(leader)
		}
		want = append(want, add(t, l, update(i)))
	}
	last := want[299].Pos
	mustBeSame(t, "scanned", scan(t, first, 0, last), want) // each once, whatever was sent again
	mustBeSame(t, "followed", followed.until(t, last), want)
	s.start(t, leader)
	s.stop((leader + 1) % 3)
	want = append(want, add(t, first, update(300)))
	mustBeSame(t, "followed", followed.until(t, want[300].Pos), want)

	for i := range s.running {
		s.stop(i)
	}
	began := time.Now()
	if _, err := l.Append(t.Context(), update(301)); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("append without servers: %v", err)
	}
	if took := time.Since(began); took < l.opts.PublishTimeout || took > 2*l.opts.PublishTimeout {
		t.Errorf("the publisher waited %v of %v", took, l.opts.PublishTimeout)
	}
	if err := l.Ready(t.Context()); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("ready without servers: %v", err)
	}
	for i := range s.running {
		s.start(t, i)
	}
	eventually(t, "the log to be ready again", func() bool { return l.Ready(t.Context()) == nil })
	want = append(want, add(t, l, update(302)))
	mustBeSame(t, "followed", followed.until(t, want[301].Pos), want)
}

// Somebody deletes the stream and makes it again: the nodes go on with the new one.
func TestAStreamThatIsMadeAnewIsNoticed(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	l := openExternal(t, s, Options{Prefix: prefix})
	followed := follow(t, l)
	var old transport.Entry
	for i := range 10 {
		old = add(t, l, update(i))
	}
	followed.until(t, old.Pos)
	epoch := l.identity.Load().epoch
	config := logConfig(l.opts)
	if err := l.js.DeleteStream(t.Context(), prefix); err != nil {
		t.Fatal(err)
	}
	if _, err := l.js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new epoch to be known", func() bool { return l.identity.Load().epoch != epoch })
	if _, err := l.Locate(t.Context(), old.Update.ID); !errors.Is(err, transport.ErrUnknown) {
		t.Errorf("an id of the log before: %v", err)
	}
	var want []transport.Entry
	for i := range 5 {
		want = append(want, add(t, l, update(100+i)))
	}
	if want[0].Pos != 1 {
		t.Errorf("the new log begins at %d", want[0].Pos)
	}
	mustLocate(t, l, want[4].Update.ID, 5)
	mustBeSame(t, "scanned", scan(t, l, 0, 5), want)
	eventually(t, "the follower to go on", func() bool {
		followed.mu.Lock()
		defer followed.mu.Unlock()
		return len(followed.entries) == 15
	})
	mustBeSame(t, "followed", followed.until(t, 5)[10:], want)
	if err := l.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAStreamThatDiffersIsAConflict(t *testing.T) {
	t.Parallel()
	s, _ := sharedServers(t)
	helper := openExternal(t, s, Options{Prefix: "conflicts"})
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"subjects":             func(c *jetstream.StreamConfig) { c.Subjects = []string{c.Name + ".u.*"} },
		"retention":            func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"discard":              func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardNew },
		"storage":              func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"allow_direct":         func(c *jetstream.StreamConfig) { c.AllowDirect = false },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
		"republish": func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: c.Name + ".u.>", Destination: "elsewhere." + c.Name + ".>"}
		},
	} {
		prefix := "conflict-" + name
		config := logConfig(Options{Prefix: prefix})
		change(&config)
		if _, err := helper.js.CreateStream(t.Context(), config); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		_, err := Open(ctx, Options{Prefix: prefix, Servers: &Servers{URLs: s.urls(0)}})
		cancel()
		if err == nil || !strings.Contains(err.Error(), name+" is ") || !strings.Contains(err.Error(), prefix) {
			t.Errorf("%s: %v; want the stream and the field", name, err)
		}
	}
}

// What the options name is changed of a stream that exists; how many copies it has, only if they say so.
func TestWhatTheOptionsNameIsChanged(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	config := func(l *Log) jetstream.StreamConfig {
		t.Helper()
		stream, err := l.js.Stream(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().Config
	}
	if c := config(openExternal(t, s, Options{Prefix: prefix, Replicas: 1, Follow: FollowAll})); c.Replicas != 1 || c.RePublish != nil {
		t.Errorf("made with %d replicas, republish %v", c.Replicas, c.RePublish)
	}
	if c := config(openExternal(t, s, Options{Prefix: prefix, Follow: FollowInterest})); c.Replicas != 1 || c.RePublish == nil {
		t.Errorf("%d replicas, republish %v", c.Replicas, c.RePublish)
	}
	if c := config(openExternal(t, s, Options{Prefix: prefix, Replicas: 3, MaxMessages: 7})); c.Replicas != 3 || c.RePublish == nil || c.MaxMsgs != 7 {
		t.Errorf("%d replicas, republish %v, at most %d messages", c.Replicas, c.RePublish, c.MaxMsgs)
	}
}

func TestOneServerKeepsOneCopy(t *testing.T) {
	t.Parallel()
	s := newServers(t, 1)
	l := openExternal(t, s, Options{})
	e := add(t, l, update(1))
	mustLocate(t, l, e.Update.ID, e.Pos)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := Open(ctx, Options{Servers: &Servers{URLs: s.urls(0)}, Replicas: 3}); err == nil {
		t.Error("three copies on one server")
	}
}

// Nodes that open the same new log at once make one of it.
func TestNodesThatStartAtOnceHaveOneLog(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	options := make([]Options, 5)
	for i := range options {
		options[i] = Options{
			Prefix: prefix, Servers: &Servers{URLs: s.urls(i)}, Node: fmt.Sprintf("n%d", i), Follow: FollowAll,
			Logger: testLogger(t, fmt.Sprintf("n%d", i)),
		}
	}
	logs := openNodes(t, options)
	e := add(t, logs[0], update(1))
	for i, l := range logs {
		if got := l.identity.Load(); got.epoch != logs[0].identity.Load().epoch || got.key != logs[0].identity.Load().key {
			t.Errorf("node %d has another identity", i)
		}
		mustLocate(t, l, e.Update.ID, e.Pos)
	}
}

func TestAConnectionThatHasEndedIsTold(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	l := openExternal(t, s, Options{Prefix: prefix})
	l.nc.Close()
	eventually(t, "the log to say so", func() bool { return errors.Is(l.Ready(t.Context()), errEnded) })
	if _, err := l.Append(t.Context(), update(1)); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("append: %v", err)
	}
}

func TestAShorterLogIsNotBelievedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shortness
		for range 14 {
			if s.lasts(true) {
				t.Fatal("believed at once")
			}
			time.Sleep(time.Second)
		}
		s.lasts(false)
		for range 15 {
			if s.lasts(true) {
				t.Fatal("believed although it was whole meanwhile")
			}
			time.Sleep(time.Second)
		}
		if !s.lasts(true) {
			t.Error("not believed in the end")
		}
	})
}

// A leader that has lost the others answers for a while, and a replica without a leader for itself.
func TestWhoCountsForAQuorum(t *testing.T) {
	for _, c := range []struct {
		info        string
		led, quorum bool
	}{
		{`{"state":{}}`, true, true},
		{`{"config":{"num_replicas":1},"cluster":{"leader":"a"}}`, true, true},
		{`{"config":{"num_replicas":3},"cluster":{"leader":"a","replicas":[{"active":900000000},{"offline":true,"active":1000}]}}`, true, true},
		{`{"config":{"num_replicas":3},"cluster":{"leader":"a","replicas":[{"active":9000000000},{"active":9000000000}]}}`, true, false},
		{`{"config":{"num_replicas":3},"cluster":{"leader":"a","replicas":[{"offline":true},{"offline":true}]}}`, true, false},
		{`{"config":{"num_replicas":3},"cluster":{"leader":"a"}}`, true, false},
		{`{"config":{"num_replicas":3},"cluster":{"replicas":[{"active":1},{"active":1},{"active":1}]}}`, false, false},
	} {
		var info streamInfo
		if err := json.Unmarshal([]byte(c.info), &info); err != nil {
			t.Fatal(err)
		}
		if info.led() != c.led || info.quorum() != c.quorum {
			t.Errorf("%s: led %v, quorum %v", c.info, info.led(), info.quorum())
		}
	}
}
