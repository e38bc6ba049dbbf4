package jetstream

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// publishing appends from several goroutines until stop is called, which returns what was acknowledged.
func publishing(t *testing.T, l *Log) (acked func() int, stop func() map[transport.Position]transport.Entry) {
	t.Helper()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		done = make(chan struct{})
		all  = map[transport.Position]transport.Entry{}
	)
	for p := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				e, err := l.Append(t.Context(), update(p*1_000_000+i))
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				mu.Lock()
				if _, twice := all[e.Pos]; twice {
					t.Errorf("position %d given twice", e.Pos)
				}
				all[e.Pos] = e
				mu.Unlock()
			}
		})
	}
	acked = func() int { mu.Lock(); defer mu.Unlock(); return len(all) }
	stop = func() map[transport.Position]transport.Entry { close(done); wg.Wait(); return all }
	return acked, stop
}

// mustHaveAll fails the test unless the follower got each stored entry once in order, and each acknowledged
// one is stored.
func mustHaveAll(t *testing.T, l *Log, c *collector, acked map[transport.Position]transport.Entry) {
	t.Helper()
	stored := scan(t, l, 0, 1<<60)
	if len(stored) < len(acked) {
		t.Errorf("%d entries are stored, %d were acknowledged", len(stored), len(acked))
	}
	data := map[string]bool{}
	for _, e := range stored {
		if a, ok := acked[e.Pos]; ok && a.Update.ID != e.Update.ID {
			t.Errorf("at %d stands %s, %s was acknowledged", e.Pos, e.Update.ID, a.Update.ID)
		}
		if data[e.Update.Data] {
			t.Errorf("%q is stored twice", e.Update.Data)
		}
		data[e.Update.Data] = true
	}
	mustBeSame(t, "followed", c.until(t, stored[len(stored)-1].Pos), stored)
}

func TestServerIsRestartedInPlace(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir()})
	c := follow(t, l)
	acked, stop := publishing(t, l)
	for range 3 {
		n := acked()
		eventually(t, "publishing", func() bool { return acked() > n+200 })
		old := l.server.current.Load()
		old.Shutdown()
		eventually(t, "new server", func() bool { s := l.server.current.Load(); return s != nil && s != old })
	}
	n := acked()
	eventually(t, "publishing after the restarts", func() bool { return acked() > n+200 })
	mustHaveAll(t, l, c, stop())
	if _, err := l.Span(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFollowerRecoversFromALostConsumer(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	l := openExternal(t, s, Options{Prefix: prefix})
	c := follow(t, l)
	acked, stop := publishing(t, l)
	stream, err := l.js.Stream(t.Context(), l.opts.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		n := acked()
		eventually(t, "publishing", func() bool { return acked() > n+100 })
		deleted := 0
		eventually(t, "a consumer to delete", func() bool {
			names := stream.ConsumerNames(t.Context())
			for name := range names.Name() {
				if err := stream.DeleteConsumer(t.Context(), name); err == nil {
					deleted++
				}
			}
			return deleted > 0
		})
	}
	mustHaveAll(t, l, c, stop())
}

func TestFollowerRecoversFromACutConnection(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir()})
	c := follow(t, l)
	acked, stop := publishing(t, l)
	for range 5 {
		n := acked()
		eventually(t, "publishing", func() bool { return acked() > n+100 })
		if err := l.nc.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
	}
	mustHaveAll(t, l, c, stop())
}

func TestAnUpdateSentAgainIsStoredOnce(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	m, err := encode("cinnabar.u.t.-.x", newNonce(), update(1))
	if err != nil {
		t.Fatal(err)
	}
	first, err := l.publish(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.publish(t.Context(), m)
	if err != nil || again.Sequence != first.Sequence {
		t.Errorf("sent again: %+v, %v; want sequence %d", again, err, first.Sequence)
	}
	if x, err := l.freshExtent(t.Context()); err != nil || x.messages != 1 {
		t.Errorf("the log holds %+v, %v; want one entry", x, err)
	}
}

func TestAStreamThatIsGoneIsUnavailable(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir(), PublishTimeout: 300 * time.Millisecond})
	e := add(t, l, update(1))
	if err := l.js.DeleteStream(t.Context(), l.opts.Prefix); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := l.Append(t.Context(), update(2)); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("append: %v", err)
	}
	if waited := time.Since(began); waited < 300*time.Millisecond || waited > 30*time.Second {
		t.Errorf("append gave up after %v", waited)
	}
	if st := l.Stats(); st.AppendRetries == 0 || st.AppendErrors != 1 {
		t.Errorf("stats are %+v", st)
	}
	if _, err := l.Span(t.Context()); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("span: %v", err)
	}
	if _, err := l.Locate(t.Context(), e.Update.ID); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("locate: %v", err)
	}
	for _, err := range l.Scan(t.Context(), 0, 1, nil) {
		if !errors.Is(err, transport.ErrUnavailable) {
			t.Errorf("scan: %v", err)
		}
	}
}

func TestAFollowerThatIsAheadOfTheLogGoesBack(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	c := follow(t, l)
	add(t, l, update(0))
	c.until(t, 1)
	l.follower.reach(10) // as if nine entries had been lost
	l.follower.restart()
	eventually(t, "the follower to go back", func() bool { return l.follower.reached.Load() == 1 })
	add(t, l, update(1))
	if got := c.until(t, 2); len(got) != 2 {
		t.Errorf("the follower got %d entries", len(got))
	}
}

func TestForeignMessagesInTheStreamAreSteppedOver(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	c := follow(t, l)
	first := add(t, l, update(0))
	if _, err := l.js.Publish(t.Context(), l.opts.Prefix+".u.x", []byte("not ours")); err != nil {
		t.Fatal(err)
	}
	second := add(t, l, update(1))
	want := []transport.Entry{first, second}
	mustBeSame(t, "followed", c.until(t, second.Pos), want)
	mustBeSame(t, "scanned", scan(t, l, 0, 10), want)
}
