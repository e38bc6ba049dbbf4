package jetstream

import (
	"context"
	"errors"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// errWindowFull means that what was to be read is larger than the log's entries are on average, and does not fit.
var errWindowFull = errors.New("larger than the window")

// extendWindow makes the window cover (after, upto], if that is recent enough to fit, and reports whether
// it does. x is the extent of the log.
func (l *Log) extendWindow(ctx context.Context, after, upto transport.Position, x extent) (bool, error) {
	w := l.window
	for {
		w.mu.Lock()
		w.used = time.Now()
		if w.covers(after, upto) {
			w.mu.Unlock()
			return true, nil
		}
		if filling := w.filling; filling != nil {
			w.mu.Unlock()
			select {
			case <-filling:
				continue
			case <-ctx.Done():
				return false, context.Cause(ctx)
			case <-l.closed:
				return false, transport.ErrClosed
			}
		}
		from, to, back := w.missing(after, x)
		if !back && after > from && !w.fits(from, to, back, x) {
			from = after // what the window has is left behind: it begins anew with what was asked for
		}
		if !w.fits(from, to, back, x) || (back && after < w.floor) {
			w.mu.Unlock()
			return false, nil
		}
		w.filling, w.stale = make(chan struct{}), false
		w.mu.Unlock()
		err := l.fillAlone(ctx, from, to, back)
		w.mu.Lock()
		ok := w.covers(after, upto)
		w.mu.Unlock()
		if errors.Is(err, errWindowFull) {
			return false, nil
		}
		if errors.Is(err, transport.ErrTrimmed) && from != after {
			return false, nil // that is what the window was to have, not what the caller asked for
		}
		if err != nil || ok || !back {
			return ok, err
		}
		// extended backwards; now forwards
	}
}

// fillAlone fills the window and lets those who wait go on, even if it panics: the panic may be contained above.
func (l *Log) fillAlone(ctx context.Context, from, to transport.Position, back bool) error {
	defer func() {
		w := l.window
		w.mu.Lock()
		defer w.mu.Unlock()
		close(w.filling)
		w.filling, w.stale = nil, false
	}()
	return l.fillWindow(ctx, from, to, back)
}

// missing returns which piece to read next so that the window comes to cover what follows `after`: a piece
// before it (back), or one that ends with the log. Called with mu held.
func (w *window) missing(after transport.Position, x extent) (from, to transport.Position, back bool) {
	// a little before what was asked for: the cursors that others bring stand there, and are looked at
	from = after - min(after, windowSlack)
	from = min(max(from, x.first-1), after)
	switch {
	case w.upto == 0 || x.last > w.upto+windowReach || w.upto+1 < x.first: // empty, left behind, or its end has left the log: begin anew
		return from, x.last, false
	case after >= w.after:
		return w.upto, x.last, false
	default:
		return from, w.after, true
	}
}

// fits reports whether the window may grow by (from, to]. Called with mu held.
func (w *window) fits(from, to transport.Position, back bool, x extent) bool {
	if to < from || to-from > windowReach+windowSlack {
		return false
	}
	average := int64(256)
	if x.messages > 0 {
		average += int64(x.bytes / x.messages) //nolint:gosec // far below 2^63
	}
	growth := int64(to-from) * average //nolint:gosec // bounded by windowReach
	if back {
		return w.bytes+growth <= w.limit
	}
	return growth <= w.limit/2 // older entries make room
}

// fillWindow reads (from, to] into the window. Called by one at a time.
func (l *Log) fillWindow(ctx context.Context, from, to transport.Position, back bool) error {
	if !back {
		for from < to {
			batch, next, err := l.readChecked(ctx, from, to)
			if err != nil {
				return err
			}
			l.window.append(from, next, batch)
			if next == from {
				return nil
			}
			from = next
		}
		return nil
	}
	var older []transport.Entry
	bytes := int64(0)
	for at := from; at < to; {
		batch, next, err := l.readChecked(ctx, at, to)
		if err != nil {
			return err
		}
		for _, e := range batch {
			bytes += size(e)
		}
		if !l.window.roomFor(bytes) {
			l.window.sink(to)
			return errWindowFull
		}
		older = append(older, batch...)
		if next == at {
			break
		}
		at = next
	}
	l.window.prepend(from, to, older)
	return nil
}
