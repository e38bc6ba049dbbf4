package jetstream

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/transporttest"
)

func TestTransportOnExternalServers(t *testing.T) {
	t.Parallel()
	transporttest.Run(t, transporttest.Implementation{
		Open: func(t *testing.T, l transporttest.Limits) transport.Transport {
			t.Helper()
			s, prefix := sharedServers(t)
			return openExternal(t, s, Options{Prefix: prefix, MaxMessages: int64(l.MaxMessages), MaxAge: l.MaxAge})
		},
		Reopen: func(t *testing.T, tr transport.Transport) transport.Transport {
			t.Helper()
			return openAnywhere(t, tr.(*Log).opts)
		},
		TooLarge:  3 << 20,
		ReadAhead: readBatch,
	})
}

func TestTheNodesOfAClusterHaveOneLog(t *testing.T) {
	t.Parallel()
	logs := openCluster(t, 3, Options{})
	a, b, c := logs[0], logs[1], logs[2]
	followed := follow(t, b)
	var want []transport.Entry
	for i := range 50 {
		want = append(want, add(t, a, update(i)))
	}
	mustBeSame(t, "followed on b", followed.until(t, want[49].Pos), want)
	mustBeSame(t, "scanned on c", scan(t, c, 0, want[49].Pos), want)
	mustLocate(t, c, want[20].Update.ID, want[20].Pos)
}

// One node dies, then a second, and they come back: what goes on, what does not, and what is told.
func TestNodesOfAClusterDieAndComeBack(t *testing.T) {
	t.Parallel()
	options := clusterOptions(t, 3, Options{PublishTimeout: 6 * time.Second})
	logs := openNodes(t, options)
	a, b, c := logs[0], logs[1], logs[2]
	followed := follow(t, a)
	var want []transport.Entry
	publish := func(l *Log, n int) {
		t.Helper()
		for range n {
			u := update(len(want))
			if len(want)%10 == 0 {
				u.ID = fmt.Sprintf("publisher-%d", len(want))
			}
			want = append(want, add(t, l, u))
		}
	}
	publish(a, 30)
	// the one that leads dies, if it is not the one that this test looks from
	victim, other := b, c
	if c.server.current.Load().JetStreamIsStreamLeader(account, "cinnabar") {
		victim, other = c, b
	}
	shut(t, victim)
	publish(a, 30)
	publish(other, 30)
	mustBeSame(t, "followed", followed.until(t, want[89].Pos), want)
	mustBeSame(t, "scanned", scan(t, other, 0, want[89].Pos), want)
	if err := a.Ready(t.Context()); err != nil {
		t.Errorf("two of three are there, and a is not ready: %v", err)
	}

	shut(t, other)
	began := time.Now()
	if e, err := a.Append(t.Context(), update(1000)); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("append with one of three: %+v, %v", e, err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("a publisher has waited for %v", took)
	}
	eventually(t, "a not to be ready", func() bool { return errors.Is(a.Ready(t.Context()), transport.ErrUnavailable) })
	eventually(t, "the leader to be known as gone", a.extents.left)
	a.window.reset()
	mustBeSame(t, "scanned with one of three", scan(t, a, 0, want[89].Pos), want)
	for _, e := range []transport.Entry{want[3], want[10], want[89]} {
		mustLocate(t, a, e.Update.ID, e.Pos)
	}
	if s, err := a.Span(t.Context()); err != nil || s.First != want[0].Pos || s.Last < want[89].Pos {
		t.Errorf("span is %+v, %v", s, err)
	}
	if pos, err := a.Locate(t.Context(), "nobody's"); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("an unknown id with one of three is at %d, %v; nobody can know", pos, err)
	}

	logs = openNodes(t, []Options{victim.opts, other.opts})
	eventually(t, "a to be ready", func() bool { return a.Ready(t.Context()) == nil })
	last := add(t, a, update(2000))
	got := followed.until(t, last.Pos) // the update that was refused may be among them
	mustBeSame(t, "scanned by one that came back", scan(t, logs[0], 0, last.Pos), got)
	mustLocate(t, logs[1], last.Update.ID, last.Pos)
}

// shut closes a log now.
func shut(t *testing.T, l *Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}
