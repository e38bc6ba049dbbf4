package load

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// histogram counts durations in steps that grow with them: each power of two nanoseconds is cut into 64, so that
// what is read from it is at most 1.6 % too high. It holds up to 2^46 ns, 19 hours; what is longer counts as that.
// add is safe for concurrent use.
type histogram struct {
	counts [steps * powers]atomic.Uint64
	total  atomic.Uint64
	sum    atomic.Int64
	max    atomic.Int64
}

const (
	steps  = 64
	powers = 41
)

func stepOf(ns int64) int {
	if ns < steps {
		return int(max(ns, 0))
	}
	shift := bits.Len64(uint64(ns)) - 7
	return min((shift+1)*steps+int(ns>>shift)-steps, steps*powers-1)
}

// topOf is the longest duration that step i stands for.
func topOf(i int) int64 {
	if i < steps {
		return int64(i)
	}
	shift := i/steps - 1
	return int64(i%steps+steps+1)<<shift - 1
}

func (h *histogram) add(d time.Duration) {
	ns := max(int64(d), 0)
	h.counts[stepOf(ns)].Add(1)
	h.total.Add(1)
	h.sum.Add(ns)
	for {
		m := h.max.Load()
		if ns <= m || h.max.CompareAndSwap(m, ns) {
			return
		}
	}
}

// merge adds what o counted, which must be at rest.
func (h *histogram) merge(o *histogram) {
	for i := range o.counts {
		if n := o.counts[i].Load(); n > 0 {
			h.counts[i].Add(n)
		}
	}
	h.total.Add(o.total.Load())
	h.sum.Add(o.sum.Load())
	h.max.Store(max(h.max.Load(), o.max.Load()))
}

// quantile returns the duration that the share q of all does not exceed; 0 if there are none.
func (h *histogram) quantile(q float64) time.Duration {
	total := h.total.Load()
	if total == 0 {
		return 0
	}
	want := min(max(uint64(q*float64(total)+0.999999), 1), total)
	var seen uint64
	for i := range h.counts {
		if seen += h.counts[i].Load(); seen >= want {
			return time.Duration(min(topOf(i), h.max.Load()))
		}
	}
	return time.Duration(h.max.Load())
}

// summary is h in the result's form; nil if nothing was counted.
func (h *histogram) summary() *Latency {
	n := h.total.Load()
	if n == 0 {
		return nil
	}
	return &Latency{
		Mean: float64(h.sum.Load()) / float64(n) / 1e6,
		P50:  ms(h.quantile(.50)), P90: ms(h.quantile(.90)), P99: ms(h.quantile(.99)), Max: ms(time.Duration(h.max.Load())),
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
