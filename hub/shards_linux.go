package hub

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// shards are a node's writer shards, one a core, each with its poller.
type shards struct {
	list []*shard
	next atomic.Uint32
}

func (ss *shards) available() bool { return true }

// start makes the shards.
func (ss *shards) start(h *Hub) error {
	for range runtime.GOMAXPROCS(0) {
		p, err := newPoller()
		if err != nil {
			for _, sh := range ss.list {
				sh.poller.close()
			}
			return err
		}
		ss.list = append(ss.list, newShard(h, p))
	}
	return nil
}

// run serves until ctx ends and every stream has left.
func (ss *shards) run(ctx context.Context) {
	var loops, pollers sync.WaitGroup
	for _, sh := range ss.list {
		pollers.Go(sh.poller.run)
		loops.Go(func() { sh.run(ctx) })
	}
	loops.Wait()
	for _, sh := range ss.list {
		sh.poller.close()
	}
	pollers.Wait()
}

// take gives a live stream to a shard; false means that it stays with its goroutine.
func (ss *shards) take(s *subscriber, k *h1Sink) bool {
	if k.raw == nil || len(ss.list) == 0 {
		return false
	}
	if err := k.conn.SetWriteDeadline(time.Time{}); err != nil {
		return false
	}
	return ss.list[int(ss.next.Add(1))%len(ss.list)].adopt(s)
}
