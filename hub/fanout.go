package hub

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/cinnabar-hub/cinnabar/hub/metrics"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// fanout hands each entry of the log to the subscribers it is for. One goroutine, the transport's
// follower, calls deliver; it never blocks on a subscriber.
//
// Lock order: fanout.mu, then subscriber.mu, then shard.mu.
type fanout struct {
	// static after construction
	log     *slog.Logger
	metrics *metrics.Metrics

	appended atomic.Uint64 // newest position that this node has acknowledged

	// guarded by mu
	mu    sync.Mutex
	index *index
	all   map[*subscriber]struct{}
	head  transport.Position // newest position handed to deliver
	round uint64             // counts deliveries, to offer an update once however many selectors match
}

func newFanout(log *slog.Logger, m *metrics.Metrics) *fanout {
	return &fanout{log: log, metrics: m, index: newIndex(), all: map[*subscriber]struct{}{}}
}

// deliver offers e to every subscriber that selects one of its topics and may see it.
func (f *fanout) deliver(e transport.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() {
		if v := recover(); v != nil { // a matcher's defect must not stop the node
			f.metrics.Panics.Inc()
			f.log.Error("panic in fan-out", "panic", v, "position", e.Pos, "stack", string(debug.Stack()))
			// Who was not reached reads the log instead; the defect then ends only the stream that has it.
			for s := range f.all {
				if s.round != f.round {
					s.salvage(e)
				}
			}
		}
	}()

	f.advance(&e)
	f.round++
	var (
		fr      *frame
		grants  grantMemo
		matched bool
	)
	f.index.match(e.Update.Topics, func(w *watchers) {
		matched = true
		for _, ref := range w.refs {
			s := ref.s
			if s.round == f.round {
				continue
			}
			s.round = f.round
			if e.Update.Private && !grants.allows(s.grant, e.Update.Topics) {
				continue
			}
			if fr == nil {
				fr = newFrame(e)
			}
			s.offer(fr)
		}
	})
	if matched {
		f.metrics.FollowerMatched.Inc()
	}
}

// advance moves the head to e. Only a late entry may come after a higher position: another one means that
// the log has lost what it had there, or begun anew, and everybody goes on from here.
func (f *fanout) advance(e *transport.Entry) {
	switch {
	case e.Pos > f.head:
		e.Late = false
	case e.Late:
		return
	default:
		f.log.Error("the log has begun again before what was followed", "position", e.Pos, "followed", f.head)
		f.appended.Store(uint64(e.Pos))
		for s := range f.all {
			s.rewind(e.Pos - 1)
		}
	}
	f.head = e.Pos
	f.metrics.FollowerPosition.Set(float64(e.Pos))
}

// salvage sees to it that a subscriber that e may be for gets it, after a defect in matching: from the log or,
// where the log is not read again, by finding out for itself. Called under the fan-out lock.
func (s *subscriber) salvage(e transport.Entry) {
	if !e.Late {
		s.fallBehind(e.Pos)
		return
	}
	f := newFrame(e)
	f.unsure = true
	s.offer(f)
}

// join enters s into the index and returns the position up to which entries are in the log only;
// everything later is offered to s.
func (f *fanout) join(s *subscriber) transport.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.index.add(s)
	f.all[s] = struct{}{}
	f.metrics.Selectors.Set(float64(len(f.index.known)))
	return f.head
}

// leave removes s; nothing is offered to it any more.
func (f *fanout) leave(s *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.all[s]; !ok {
		return
	}
	f.index.remove(s)
	delete(f.all, s)
	f.metrics.Selectors.Set(float64(len(f.index.known)))
}

// rejoin lets a subscriber that has fallen behind be offered frames again and returns the position up to
// which it has to read the log. Called by its consumer.
//
// The head alone is right also where the transport brings only what was asked for: the subscriber's selectors have
// been added all the time, so every entry for it up to the head was offered, dropped because it lagged (and is in the
// log, after lagPos), or will come as a late one, which it knows by its place. Everything after the head is queued
// from here on. What Interest.Add once answered lies before any of this.
func (f *fanout) rejoin(s *subscriber) transport.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.resetQueue()
	return f.head
}

// snapshot returns all subscribers.
func (f *fanout) snapshot() []*subscriber {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*subscriber, 0, len(f.all))
	for s := range f.all {
		list = append(list, s)
	}
	return list
}
