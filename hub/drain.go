package hub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Errors of taking a node out of service and back.
var (
	ErrUndrained    = errors.New("the node was taken back into service") // Drain: Undrain came in between
	ErrShuttingDown = errors.New("the node is shutting down")            // Undrain: too late
)

// drainState is how far a node is on its way out of service.
//
//	serving ──Cordon──► serving, not ready ──Drain──► draining ──► emptying
//	   ▲                        │                        │            │
//	   └────────Undrain─────────┴────────────────────────┴────────────┘   until SetNotReady: then for good
type drainState struct {
	notReady atomic.Bool
	phase    atomic.Int32 // drainPhase
	// the last Drain spread its streams over time: other nodes take them
	elsewhere atomic.Bool

	// guarded by Hub.mu
	leaving   bool          // SetNotReady was called: no way back
	undrained chan struct{} // closed by Undrain; nil while there is nothing to take back
	idle      chan struct{} // closed when the last stream leaves during Drain; nil otherwise
}

type drainPhase = int32

const (
	phaseServing  drainPhase = iota
	phaseDraining            // no new streams; Drain ends those there are, also those that were just being opened
	phaseEmptying            // every stream has been told to end: one that was being opened ends by itself
)

// SetNotReady makes Ready fail from now on: the first step of a shutdown. There is no way back.
func (h *Hub) SetNotReady() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drain.leaving = true
	h.drain.notReady.Store(true)
}

// Cordon makes Ready fail, so that load balancers look elsewhere, and goes on serving everything. It may come
// some time before Drain; Undrain takes it back.
func (h *Hub) Cordon() { h.drain.notReady.Store(true) }

// Undrain takes back Cordon and Drain: the node is ready again as far as it depends on this, and new
// streams are served. A Drain under way ends no more streams and returns ErrUndrained. During a shutdown, that
// is after SetNotReady or the end of Run's context, nothing changes and the error is ErrShuttingDown.
// On a node in service it does nothing.
func (h *Hub) Undrain() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drain.leaving || h.ctx != nil && h.ctx.Err() != nil {
		return fmt.Errorf("hub: undrain: %w", ErrShuttingDown)
	}
	if h.drain.undrained != nil {
		close(h.drain.undrained)
		h.drain.undrained = nil
	}
	h.drain.phase.Store(phaseServing)
	if h.drain.notReady.Swap(false) {
		h.log.Info("taken back into service", "streams", h.open.total)
	}
	return nil
}

// Draining reports whether new streams are refused because of Drain.
func (h *Hub) Draining() bool { return h.drain.phase.Load() != phaseServing }

// Drain refuses new streams (softly where allowed, SUB-41), goes on taking publications, and ends every
// stream after its last whole event, spread evenly over `spread` (0 = all now, SUB-38), which is shortened so
// that the last one can end before ctx's deadline. It returns when the last one has ended and watchers were told so,
// with ctx's error, or with ErrUndrained. It may be called again, also meanwhile.
func (h *Hub) Drain(ctx context.Context, spread time.Duration) error {
	h.drain.elsewhere.Store(spread > 0)
	undrained, idle := h.beginDrain()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-undrained:
			cancel(ErrUndrained)
		case <-ctx.Done():
		}
	}()
	defer func() { cancel(nil); <-watched }()

	if err := h.endStreams(ctx, undrained, h.affordable(ctx, spread)); err != nil {
		return fmt.Errorf("hub: drain: %w", err)
	}
	select {
	case <-idle:
		if h.presence == nil {
			return nil
		}
		h.presence.settle(ctx, false)
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("hub: drain: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hub: drain: %w", context.Cause(ctx))
	}
}

// beginDrain refuses new streams. The first channel is closed by Undrain, the second one when no stream is left.
func (h *Hub) beginDrain() (undrained, idle <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drain.notReady.Store(true)
	h.drain.phase.CompareAndSwap(phaseServing, phaseDraining)
	if h.drain.undrained == nil {
		h.drain.undrained = make(chan struct{})
	}
	if h.drain.idle == nil {
		h.drain.idle = make(chan struct{})
	}
	idle = h.drain.idle
	if h.open.total == 0 {
		close(h.drain.idle)
		h.drain.idle = nil
	}
	return h.drain.undrained, idle
}

// affordable shortens spread so that a slow client that is told to end last has its time too.
func (h *Hub) affordable(ctx context.Context, spread time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return spread
	}
	left := time.Until(deadline)
	return max(min(spread, left-min(left/5, h.o.WriteTimeout)), 0)
}

// drainLooks is how often during a drain the streams that are left are counted anew.
const drainLooks = 20

// endStreams tells every stream to end, at an even pace that follows the number that is left: some leave
// by themselves, and some were being opened when the drain began.
func (h *Hub) endStreams(ctx context.Context, undrained <-chan struct{}, spread time.Duration) error {
	next := time.Now()
	end := next.Add(spread)
	for spread > 0 {
		list := h.staying()
		if len(list) == 0 {
			break
		}
		look := next.Add(spread / drainLooks)
		pace := end.Sub(next) / time.Duration(len(list))
		for _, s := range list {
			if err := sleepUntil(ctx, next); err != nil {
				return err
			}
			s.end(endDrain)
			if next = next.Add(pace); next.After(look) {
				break
			}
		}
	}
	if !h.empty(undrained) {
		return ErrUndrained
	}
	for _, s := range h.staying() {
		s.end(endDrain)
	}
	return nil
}

// empty lets streams that are still being opened end by themselves: they are in no list yet. It returns false
// when the drain was taken back.
func (h *Hub) empty(undrained <-chan struct{}) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-undrained:
		return false
	default:
		h.drain.phase.Store(phaseEmptying)
		return true
	}
}

// staying returns the streams that nobody has told to end, in random order.
func (h *Hub) staying() []*subscriber {
	list := h.fanout.snapshot()
	kept := list[:0]
	for _, s := range list {
		if s.endingWhy() == endNone {
			kept = append(kept, s)
		}
	}
	rand.Shuffle(len(kept), func(i, j int) { kept[i], kept[j] = kept[j], kept[i] }) //nolint:gosec // spreads load, keeps no secret
	return kept
}

func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return context.Cause(ctx) // nil while nothing has ended it
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
