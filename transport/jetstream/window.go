package jetstream

import (
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// A storm of clients that resume asks for nearly the same history thousands of times. The window is a
// contiguous piece of recent log in memory, indexed by topic, from which all of them are served. It is
// filled on demand by one of them while the others wait, extended to the newest entry as needed, and
// dropped when nobody has used it for a while.

const (
	windowReach = 10_000           // entries: who is further behind than this reads from the store
	windowSlack = 1_000            // entries read before what was asked for
	windowIdle  = 30 * time.Second // without use
	scanBatch   = 256              // entries that a scan takes from the window at a time
)

type window struct {
	limit int64 // bytes

	mu      sync.Mutex // guards below; never held over I/O
	after   transport.Position
	upto    transport.Position              // the window holds what is retained of (after, upto]
	entries []transport.Entry               // in order
	topics  map[string][]transport.Position // where each topic occurs, in order
	ids     map[string]transport.Position   // publishers' and hub's ids, the earliest place of each
	bytes   int64
	floor   transport.Position // what lies before it did not fit; 0 = not known
	used    time.Time
	filling chan struct{} // non-nil while somebody fills; closed when done
	stale   bool          // what is being filled in was read of a log that is no more
}

func newWindow(limit int64) *window {
	w := &window{limit: limit}
	w.reset()
	return w
}

// reset empties the window, and lets what is being filled in be in vain.
func (w *window) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stale = w.filling != nil
	w.clear()
}

func (w *window) clear() {
	w.after, w.upto, w.entries, w.bytes, w.floor = 0, 0, nil, 0, 0
	w.topics, w.ids = map[string][]transport.Position{}, map[string]transport.Position{}
}

// expire drops a window that nobody uses.
func (w *window) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.filling == nil && len(w.entries) > 0 && time.Since(w.used) > windowIdle {
		w.clear()
	}
}

// covers reports whether the window holds (after, upto]. Called with mu held.
func (w *window) covers(after, upto transport.Position) bool {
	return w.upto > 0 && w.after <= after && upto <= w.upto
}

// roomFor reports whether so many bytes more may be held.
func (w *window) roomFor(bytes int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes+bytes <= w.limit
}

// sink notes that what lies before pos did not fit: else each who resumes there would read it in vain.
func (w *window) sink(pos transport.Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stale {
		w.floor = max(w.floor, pos)
	}
}

// append adds the entries of (from, upto]. If that does not join, the window begins anew.
func (w *window) append(from, upto transport.Position, batch []transport.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stale {
		return
	}
	if w.upto != from || w.upto == 0 {
		w.clear()
		w.after = from
	}
	w.upto = upto
	for _, e := range batch {
		w.entries = append(w.entries, e)
		w.add(e)
	}
	if w.bytes > w.limit {
		w.shrink()
	}
}

// prepend adds the entries of (from, to] if the window still begins at to.
func (w *window) prepend(from, to transport.Position, older []transport.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stale || w.upto == 0 || w.after != to {
		return
	}
	all, upto, floor := slices.Concat(older, w.entries), w.upto, w.floor
	w.clear()
	w.after, w.upto, w.entries, w.floor = from, upto, all, floor
	for _, e := range all {
		w.add(e)
	}
	if w.bytes > w.limit {
		w.shrink()
	}
}

// add indexes an entry. Called with mu held, in log order.
func (w *window) add(e transport.Entry) {
	w.bytes += size(e)
	for i, t := range e.Update.Topics {
		if !slices.Contains(e.Update.Topics[:i], t) {
			w.topics[t] = append(w.topics[t], e.Pos)
		}
	}
	if _, ok := w.ids[e.Update.ID]; !ok {
		w.ids[e.Update.ID] = e.Pos
	}
}

// shrink drops the older half. Called with mu held.
func (w *window) shrink() {
	keep, bytes := len(w.entries), int64(0)
	for keep > 0 && bytes+size(w.entries[keep-1]) <= w.limit/2 {
		keep--
		bytes += size(w.entries[keep])
	}
	rest, upto, after := slices.Clone(w.entries[keep:]), w.upto, w.upto
	if keep > 0 {
		after = w.entries[keep-1].Pos
	}
	floor := w.floor
	w.clear()
	w.after, w.upto, w.entries, w.floor = after, upto, rest, floor
	for _, e := range rest {
		w.add(e)
	}
}

// read returns the next entries of (after, upto] and how far they reach, or false if the window does not
// hold them any more. With topics, only entries that have one of them.
func (w *window) read(after, upto transport.Position, topics []string) (batch []transport.Entry, next transport.Position, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.covers(after, upto) {
		return nil, after, false
	}
	w.used = time.Now()
	if topics != nil {
		return w.pick(after, upto, topics)
	}
	i, end := w.index(after+1), w.index(upto+1)
	if end-i > scanBatch {
		end = i + scanBatch
		upto = w.entries[end-1].Pos
	}
	return slices.Clone(w.entries[i:end]), upto, true
}

// pick merges the places of several topics. Called with mu held.
func (w *window) pick(after, upto transport.Position, topics []string) (batch []transport.Entry, next transport.Position, ok bool) {
	var at []transport.Position
	for _, t := range topics {
		places := w.topics[t]
		places = places[sort.Search(len(places), func(i int) bool { return places[i] > after }):]
		for _, p := range places[:min(len(places), scanBatch)] {
			if p > upto {
				break
			}
			at = append(at, p)
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	next = upto
	if len(at) >= scanBatch {
		at = at[:scanBatch]
		next = at[scanBatch-1]
	}
	for _, p := range at {
		batch = append(batch, w.entries[w.index(p)])
	}
	return batch, next, true
}

// index returns the place of the first entry at or after pos. Called with mu held.
func (w *window) index(pos transport.Position) int {
	return sort.Search(len(w.entries), func(i int) bool { return w.entries[i].Pos >= pos })
}

// find returns the earliest position of an event id within the window.
func (w *window) find(id string) (transport.Position, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pos, ok := w.ids[id]
	return pos, ok
}

// at returns the entry at pos if the window holds it.
func (w *window) at(pos transport.Position) (transport.Entry, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := w.index(pos); i < len(w.entries) && w.entries[i].Pos == pos {
		return w.entries[i], true
	}
	return transport.Entry{}, false
}
