package hub

import (
	"container/heap"
	"math/bits"
	"time"
)

// dueWheel keeps a shard's streams by when they need attention: in a ring of slots, one a tick, until that tick begins,
// and then in a small heap by their exact times. Most streams are told a later time before theirs has come: such a
// stream stays where it is, and is moved when its slot is opened. Nothing is looked at later than its time.
//
// The zero value is not usable. Owned by the shard's loop.
type dueWheel struct {
	seen    time.Time     // the time of the last advance
	elapsed time.Duration // from the making of the wheel to seen, whatever the wall clock did meanwhile
	opened  int64         // streams of the ticks before this one are in near
	count   int
	near    dueHeap
	used    [wheelSlots / 64]uint64 // a bit for each slot that is not empty
	slots   [wheelSlots]*subscriber // heads of doubly linked lists
}

// A tick is about 17 ms, so that heartbeats of one tick are sent together (maxSlack), and a turn of the wheel about
// 17 s, a heartbeat and more. What is due later than that is put into the last slot, and put back when it is opened.
const (
	wheelShift = 24 // of nanoseconds
	wheelSlots = 1024
	wheelTurn  = wheelSlots << wheelShift * time.Nanosecond
)

// absent and inSlot are places of a stream that is not in the near heap.
const (
	absent = -1
	inSlot = -2
)

func newDueWheel(now time.Time) *dueWheel { return &dueWheel{seen: now} }

// tick is the one in which at falls, or one beyond the wheel.
func (w *dueWheel) tick(at time.Time) int64 {
	return int64(w.elapsed+min(at.Sub(w.seen), wheelTurn)) >> wheelShift
}

// add takes in s, which is to be looked at at s.at.
func (w *dueWheel) add(s *subscriber) {
	w.count++
	w.put(s, w.tick(s.at))
}

func (w *dueWheel) put(s *subscriber, tick int64) {
	if tick < w.opened {
		heap.Push(&w.near, s)
		return
	}
	i := min(tick, w.opened+wheelSlots-1) % wheelSlots
	s.place, s.slot, s.prev, s.next = inSlot, int32(i), nil, w.slots[i]
	if s.next != nil {
		s.next.prev = s
	}
	w.slots[i] = s
	w.used[i/64] |= 1 << (i % 64)
}

// take lets go of s, which must be there.
func (w *dueWheel) take(s *subscriber) {
	if s.place >= 0 {
		heap.Remove(&w.near, int(s.place))
		return
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	if s.prev != nil {
		s.prev.next = s.next
	} else if w.slots[s.slot] = s.next; s.next == nil {
		w.used[s.slot/64] &^= 1 << (s.slot % 64)
	}
	s.place, s.prev, s.next = absent, nil, nil
}

// remove lets go of s, if it is there.
func (w *dueWheel) remove(s *subscriber) {
	if s.place != absent {
		w.take(s)
		w.count--
	}
}

// schedule sets the time of s, which must be there.
func (w *dueWheel) schedule(s *subscriber, at time.Time) {
	s.at = at
	tick := w.tick(at)
	switch {
	case s.place == inSlot && tick >= w.opened+(int64(s.slot)-w.opened)&(wheelSlots-1):
		return // its slot is opened soon enough
	case s.place >= 0 && tick < w.opened:
		heap.Fix(&w.near, int(s.place))
		return
	}
	w.take(s)
	w.put(s, tick)
}

// advance opens the slots up to that of now, and returns the stream that is due first of those in the opened ones.
func (w *dueWheel) advance(now time.Time) *subscriber {
	if d := now.Sub(w.seen); d > 0 {
		w.elapsed += d
		w.seen = now
	}
	end := int64(w.elapsed)>>wheelShift + 1
	for tick, ok := w.nextUsed(); ok && tick < end; tick, ok = w.nextUsed() {
		w.opened = tick + 1
		w.open(tick % wheelSlots)
	}
	w.opened = max(w.opened, end)
	return w.first()
}

// open moves the streams of a slot to where they belong by now.
func (w *dueWheel) open(i int64) {
	s := w.slots[i]
	w.slots[i] = nil
	w.used[i/64] &^= 1 << (i % 64)
	for s != nil {
		next := s.next
		s.prev, s.next = nil, nil
		w.put(s, w.tick(s.at))
		s = next
	}
}

// first is the stream that is due first of those in opened slots, nil for none.
func (w *dueWheel) first() *subscriber {
	if len(w.near) == 0 {
		return nil
	}
	return w.near[0]
}

// nextUsed is the first tick whose slot is not empty.
func (w *dueWheel) nextUsed() (tick int64, ok bool) {
	from := w.opened % wheelSlots
	for n := int64(0); n <= wheelSlots; { // once around, the first word twice
		i := (from + n) % wheelSlots
		if word := w.used[i/64] >> (i % 64); word != 0 {
			return w.opened + n + int64(bits.TrailingZeros64(word)), true
		}
		n += 64 - i%64
	}
	return 0, false
}

// next is when to advance: never later than the first stream is due. ok is false when there is none.
func (w *dueWheel) next() (at time.Time, ok bool) {
	if s := w.first(); s != nil {
		return s.at, true
	}
	tick, ok := w.nextUsed()
	return w.seen.Add(time.Duration(tick<<wheelShift) - w.elapsed), ok
}

// all are the streams there, in no order.
func (w *dueWheel) all() []*subscriber {
	list := append(make([]*subscriber, 0, w.count), w.near...)
	for _, s := range w.slots {
		for ; s != nil; s = s.next {
			list = append(list, s)
		}
	}
	return list
}
