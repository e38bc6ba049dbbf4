package jetstream

import (
	"context"
	"errors"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// A log that this process alone writes to tells its follower nothing new: what is stored was appended here, and its
// acknowledgement says where it stands. The follower takes such entries from the tail, in the order of their positions,
// instead of having the server read, send and frame each of them once more, which costs more than storing it. What the
// acknowledgements do not tell (an append whose answer was lost, whatever stood there before) it reads from the store:
// where a position is jumped over, and at the end of the log once a second.

const (
	feedPatience = 20 * time.Millisecond // for the acknowledgement of an entry when a later one is known
	feedCheck    = time.Second           // between looks at the end of the log
)

// errFeedStopped ends a feed that is to begin again.
var errFeedStopped = errors.New("told to begin again")

// stopper ends a feed; see follower.restart.
type stopper chan struct{}

// Stop ends the feed. Called with follower.mu held, again and again.
func (s stopper) Stop() {
	select {
	case s <- struct{}{}:
	default: // it has been told
	}
}

// feed hands out what is stored up to last and then what this process appends, until the server fails.
func (f *follower) feed(ctx context.Context, last transport.Position) error {
	stop := make(stopper, 1)
	if err := f.use(stop); err != nil {
		return err
	}
	defer f.unuse()
	if err := f.fill(ctx, last+1); err != nil {
		return err
	}
	timer := time.NewTimer(feedCheck)
	defer timer.Stop()
	checked := time.Now()
	var gap time.Time // since when an entry is missing before one that is known; zero = none is
	for {
		moved, err := f.drain(ctx, stop)
		if err != nil {
			return err
		}
		now := time.Now()
		due := checked.Add(feedCheck)
		switch {
		case !f.log.tail.behind():
			gap = time.Time{}
		case moved || gap.IsZero():
			gap = now
			fallthrough
		default:
			due = earliest(due, gap.Add(feedPatience))
		}
		if now.Before(due) {
			timer.Reset(due.Sub(now))
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-stop:
				return errFeedStopped
			case <-f.log.tail.news:
			case <-timer.C:
			}
			continue
		}
		checked, gap = now, time.Time{}
		x, err := f.log.freshExtent(ctx)
		if err != nil {
			return err
		}
		if x.last < transport.Position(f.reached.Load()) { // what was acknowledged is not there any more
			return errShorter
		}
		if _, err := f.drain(ctx, stop); err != nil {
			return err
		}
		if err := f.fill(ctx, x.last+1); err != nil {
			return err
		}
	}
}

// drain hands out what the tail has next, and reports whether that was anything.
func (f *follower) drain(ctx context.Context, stop stopper) (moved bool, err error) {
	for {
		e, ok := f.log.tail.get(transport.Position(f.reached.Load()) + 1)
		if !ok {
			return moved, nil
		}
		if err := f.hand(ctx, e); err != nil {
			return moved, err
		}
		moved = true
		select {
		case <-stop:
			return moved, errFeedStopped
		default:
		}
	}
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
