package load

import (
	"sync/atomic"
	"time"
)

// tally is what all subscribers of a run have seen. Safe for concurrent use.
type tally struct {
	run     uint32
	started time.Time // the zero of every mark's time
	phase   atomic.Uint32
	goal    int64 // updates after which a subscriber has caught up, 0 = none; set before streams are opened

	ledger     *ledger
	duplicated atomic.Int64
	disordered atomic.Int64
	unwanted   atomic.Int64
	foreign    atomic.Int64 // events that this run did not publish
	heartbeats atomic.Int64

	shards   [16]shard // by subscriber, to keep processors off each other's cache lines
	caughtUp histogram // since goalFrom
	goalFrom time.Time
}

type shard struct {
	latency histogram
	last    atomic.Int64 // arrival of the last measured update, nanoseconds since started
	_       [64]byte
}

func newTally(run uint32, started time.Time) *tally {
	return &tally{run: run, started: started, ledger: newLedger()}
}

// latency returns the timings of all measured deliveries, and when the last one came. Streams must be closed.
func (t *tally) latency() (*histogram, time.Time) {
	all := &histogram{}
	var last int64
	for i := range t.shards {
		all.merge(&t.shards[i].latency)
		last = max(last, t.shards[i].last.Load())
	}
	return all, t.started.Add(time.Duration(last))
}

// lane is what one subscriber has had of one publisher, whose updates to a topic are numbered and sent one after
// the other.
type lane struct {
	next int64                 // after the highest number seen
	got  int64                 // different numbers seen
	seen [laneSpan / 64]uint64 // of the last laneSpan numbers, by number modulo laneSpan
}

// laneSpan bounds how late an update may come and still be told from a repetition.
const laneSpan = 256

type sighting uint8

const (
	fresh sighting = iota
	late           // for the first time, after a later one
	again
)

func (l *lane) see(n int64) sighting {
	bit := func(n int64) (*uint64, uint64) { return &l.seen[n%laneSpan/64], 1 << (n % 64) }
	if n >= l.next {
		for skipped := max(l.next, n-laneSpan+1); skipped < n; skipped++ {
			word, mask := bit(skipped)
			*word &^= mask
		}
		word, mask := bit(n)
		*word |= mask
		l.next = n + 1
		l.got++
		return fresh
	}
	word, mask := bit(n)
	if l.next-n > laneSpan || *word&mask != 0 {
		return again
	}
	*word |= mask
	l.got++
	return late
}

// subscriber is one place of a swarm. It belongs to the goroutine that reads its stream, while there is one.
type subscriber struct {
	index  int
	topic  int
	cursor string // Last-Event-ID to come back with, empty = none
	got    int64
	lanes  []lane // by publisher
}

// receive sorts one event in.
func (s *subscriber) receive(t *tally, data string) {
	now := time.Since(t.started)
	m, ok := parseMark(data)
	if !ok || m.run != t.run || m.publisher < 0 || m.publisher >= len(s.lanes) || m.sequence < 0 {
		t.foreign.Add(1)
		return
	}
	if m.topic != s.topic {
		t.unwanted.Add(1)
		return
	}
	switch s.lanes[m.publisher].see(m.sequence) {
	case again:
		t.duplicated.Add(1)
		return
	case late:
		t.disordered.Add(1)
	case fresh:
	}
	s.got++
	if m.phase == measured && t.goal == 0 { // what waited for its subscriber is not timed
		sh := &t.shards[s.index%len(t.shards)]
		sh.latency.add(now - time.Duration(m.sent))
		sh.last.Store(max(sh.last.Load(), int64(now))) // a shard's readers may overwrite each other by microseconds
	}
	if s.got == t.goal {
		t.caughtUp.add(time.Since(t.goalFrom))
	}
	t.ledger.arrive()
}
