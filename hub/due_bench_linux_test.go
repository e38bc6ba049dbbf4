package hub

import (
	"container/heap"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// timers is what a shard wants of what keeps its streams by their times; dueWheel is one.
type timers interface {
	add(s *subscriber)
	remove(s *subscriber)
	schedule(s *subscriber, at time.Time)
	advance(now time.Time) *subscriber // returns first
	first() *subscriber
	next() (time.Time, bool)
}

// oneHeap is the plain way, to compare with: all streams in one heap.
type oneHeap struct{ dueHeap }

func (h *oneHeap) add(s *subscriber)    { heap.Push(&h.dueHeap, s) }
func (h *oneHeap) remove(s *subscriber) { heap.Remove(&h.dueHeap, int(s.place)) }
func (h *oneHeap) schedule(s *subscriber, at time.Time) {
	s.at = at
	heap.Fix(&h.dueHeap, int(s.place))
}
func (h *oneHeap) advance(time.Time) *subscriber { return h.first() }
func (h *oneHeap) first() *subscriber {
	if len(h.dueHeap) == 0 {
		return nil
	}
	return h.dueHeap[0]
}

func (h *oneHeap) next() (time.Time, bool) {
	if s := h.first(); s != nil {
		return s.at, true
	}
	return time.Time{}, false
}

// BenchmarkDue keeps 20,000 streams of a shard by their times, on a clock of its own. An operation is one write to
// one stream (later, acked), one heartbeat, or one stream that comes while another leaves (churn).
//
//   - later: each write moves the heartbeat; 20,000 writes a second, to anybody.
//   - acked: as a shard does it. A write begins to wait for its acknowledgement, which comes before the heartbeat;
//     when that time has come, the heartbeat is next.
//   - heartbeats: nothing is published.
func BenchmarkDue(b *testing.B) {
	for _, what := range []struct {
		name string
		run  func(d *dueBench, n int)
	}{
		{"later", (*dueBench).later},
		{"acked", (*dueBench).acked},
		{"heartbeats", (*dueBench).heartbeats},
		{"churn", (*dueBench).churn},
	} {
		b.Run(what.name+"/by=heap", func(b *testing.B) {
			d := newDueBench(func(time.Time) timers { return &oneHeap{} })
			d.measure(b, what.run)
		})
		b.Run(what.name+"/by=wheel", func(b *testing.B) {
			d := newDueBench(func(now time.Time) timers { return newDueWheel(now) })
			d.measure(b, what.run)
		})
	}
}

// Those of a hub as it comes.
const (
	benchHeartbeat = 15 * time.Second
	benchAck       = 10 * time.Second
	benchStreams   = 20_000
	benchWrites    = 64 // in one turn of the loop
)

type dueBench struct {
	timers
	now     time.Time
	rnd     *rand.Rand
	streams []*subscriber // in no order of their places in memory
	wakes   int           // of the loop, where they are counted
}

func newDueBench(of func(time.Time) timers) *dueBench {
	d := &dueBench{now: time.Now(), rnd: rand.New(rand.NewPCG(1, 2))}
	d.timers = of(d.now)
	for range benchStreams {
		s := &subscriber{}
		s.place = absent
		s.at = d.now.Add(time.Duration(d.rnd.Int64N(int64(benchHeartbeat))))
		d.add(s)
		d.streams = append(d.streams, s)
	}
	d.rnd.Shuffle(benchStreams, func(i, j int) { d.streams[i], d.streams[j] = d.streams[j], d.streams[i] })
	return d
}

// measure reports the processor's time, too: on a machine that does something else as well it is the one to compare.
func (d *dueBench) measure(b *testing.B, run func(d *dueBench, n int)) {
	b.Helper()
	b.ReportAllocs()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime(b)
	b.ResetTimer()
	run(d, b.N)
	b.ReportMetric(float64(threadTime(b)-began)/float64(b.N), "cpu-ns/op")
	if d.wakes > 0 {
		b.ReportMetric(float64(b.N)/float64(d.wakes), "beats/wake")
	}
}

func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heartbeat is when the next one is due, up to a fifth sooner than the interval.
func (d *dueBench) heartbeat() time.Time {
	return d.now.Add(benchHeartbeat - time.Duration(d.rnd.Int64N(int64(benchHeartbeat/5))))
}

// turn does what is due, and what is about to be.
func (d *dueBench) turn() (beats int) {
	for s := d.advance(d.now); s != nil && s.at.Sub(d.now) <= maxSlack; s = d.first() {
		d.schedule(s, d.heartbeat())
		beats++
	}
	return beats
}

func (d *dueBench) later(n int) {
	for i := range n {
		d.schedule(d.streams[d.rnd.IntN(benchStreams)], d.heartbeat())
		if i%benchWrites == 0 {
			d.now = d.now.Add(benchWrites * time.Second / benchStreams)
			d.turn()
		}
	}
}

func (d *dueBench) acked(n int) {
	for i := range n {
		s := d.streams[d.rnd.IntN(benchStreams)]
		if at := d.now.Add(benchAck); at.Before(s.at) {
			d.schedule(s, at)
		}
		if i%benchWrites == 0 {
			d.now = d.now.Add(benchWrites * time.Second / benchStreams)
			d.turn()
		}
	}
}

func (d *dueBench) heartbeats(n int) {
	for beats := 0; beats < n; d.wakes++ {
		d.now, _ = d.next()
		beats += d.turn()
	}
}

func (d *dueBench) churn(n int) {
	for i := range n {
		s := d.streams[d.rnd.IntN(benchStreams)]
		d.remove(s)
		s.at = d.heartbeat()
		d.add(s)
		if i%benchWrites == 0 {
			d.now = d.now.Add(benchWrites * time.Second / benchStreams)
			d.turn()
		}
	}
}
