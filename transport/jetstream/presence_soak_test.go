package jetstream

import (
	"context"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// TestEveryEndIsToldByOne has many come and go on a node that is cut off again and again, for longer than its lease:
// of everybody who had entered, either Leave says that he was there, or the node that has cleared him away tells of
// his end, once.
func TestEveryEndIsToldByOne(t *testing.T) {
	t.Parallel()
	s := startServers(t, []string{t.TempDir(), t.TempDir(), t.TempDir()}, func(_ int, o *server.Options) { o.Cluster.NoAdvertise = true })
	t.Cleanup(s.stopAll)
	target, err := url.Parse(s.urls(1)[0])
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, func() string { return target.Host })
	a := openExternal(t, s, Options{Node: "a", lease: shortLease})
	b := openAnywhere(t, Options{
		Servers: &Servers{URLs: []string{"nats://" + p.addr()}}, Node: "b", Follow: FollowAll, lease: shortLease, PublishTimeout: time.Second,
	})
	attend(t, a, nil)
	lost := attend(t, b, nil)

	type end struct{ entered, there bool }
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		ends = map[string]end{}
		done = make(chan struct{})
	)
	for w := 1; w <= 16; w++ {
		wg.Go(func() {
			for i := w * 1_000_000; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				one := somebody(i)
				e := end{entered: b.Enter(t.Context(), one) == nil}
				if e.entered && i%4 == 0 { // some stay for a while
					select {
					case <-done:
					case <-time.After(time.Duration(i%3000) * time.Millisecond):
					}
				}
				for {
					var err error
					if e.there, err = b.Leave(context.WithoutCancel(t.Context()), one.Subscriber); err == nil {
						break
					}
				}
				mu.Lock()
				ends[one.Subscriber] = e
				mu.Unlock()
			}
		})
	}
	for round := range 2 {
		enter(t, b, round, round+1) // and is there when the connection is cut
		p.cut()
		eventually(t, "b is cleared away", func() bool { return lists(t, a, 0, 0) })
		p.heal()
		select {
		case <-lost:
		case <-time.After(time.Minute):
			t.Fatal("b was not told")
		}
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(ends) }
		before := count()
		eventually(t, "some come and go in peace", func() bool { return count() > before+100 })
	}
	close(done)
	wg.Wait()
	eventually(t, "nobody is left", func() bool { return lists(t, a, 0, 0) && lists(t, b, 0, 0) })
	told := map[string]int{}
	eventually(t, "the log is quiet", func() bool {
		before := len(told)
		told = map[string]int{}
		for _, e := range scan(t, a, 0, 1<<60) {
			told[e.Update.Data]++
		}
		return len(told) == before
	})
	entered, swept := 0, 0
	for who, e := range ends {
		switch n := told[who]; {
		case !e.entered && n > 1, e.entered && e.there && n != 0, e.entered && !e.there && n != 1:
			t.Errorf("%s: entered %v, was there %v, and his end is told %d times", who, e.entered, e.there, n)
		case e.entered && n == 1:
			swept++
			entered++
		case e.entered:
			entered++
		}
	}
	t.Logf("%d had entered, %d of them were cleared away", entered, swept)
	if swept == 0 {
		t.Error("nobody was cleared away")
	}
}
