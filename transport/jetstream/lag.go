package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// A replica that lags, or a leader that has just been elected and still applies what it has, ends before the log
// does. What is known to be there is waited for, a little, and then it is ErrUnavailable: never the end.

const (
	lagPause    = 20 * time.Millisecond
	lagPatience = 250 * time.Millisecond
	// ownPatience is for the position in an id of this log: it exists, or the log has lost its end.
	ownPatience = time.Second
)

// errNotRead is about a position that is in the log and was not read.
var errNotRead = fmt.Errorf("%w: it is in the log and was not read", transport.ErrUnavailable)

// extentUntil returns a fresh extent that reaches pos, or the last one after patience.
func (l *Log) extentUntil(ctx context.Context, pos transport.Position, patience time.Duration) (extent, error) {
	began := time.Now()
	for {
		x, err := l.freshExtent(ctx)
		if err != nil || x.last >= pos || !l.opts.clustered() || time.Since(began) > patience {
			return x, err
		}
		if err := l.pause(ctx, lagPause); err != nil {
			return extent{}, err
		}
	}
}

// extentFor returns an extent for reading up to upto, which may be beyond the end of the log.
func (l *Log) extentFor(ctx context.Context, upto transport.Position) (extent, error) {
	x, err := l.extent(ctx)
	if err != nil || x.last >= upto {
		return x, err
	}
	// the answer may be a moment old, and the caller knows of more
	known, _ := l.newest.get()
	if upto-x.last > windowReach { // or means all there is
		x, err = l.extentUntil(ctx, known, lagPatience)
	} else {
		x, err = l.extentUntil(ctx, upto, lagPatience)
	}
	if err == nil && l.opts.clustered() && x.last < min(upto, known) {
		return x, fmt.Errorf("%w: the log answers up to %d and is known up to %d", transport.ErrUnavailable, x.last, known)
	}
	return x, err
}

// missing says why the position gap was not read, and nothing after it up to upto: ErrTrimmed, errNotRead, or
// nil if it was deleted.
func (l *Log) missing(ctx context.Context, gap, upto transport.Position, end bool) error {
	x, err := l.freshExtent(ctx)
	if err != nil {
		return err
	}
	if err := x.gap(gap); err != nil || !l.opts.clustered() {
		return err
	}
	switch {
	case gap > x.last:
		return fmt.Errorf("position %d: %w", gap, errNotRead)
	case !end: // the replica has what comes after it, and so had what came before
		return nil
	}
	// some are deleted, and whether these are, a replica that has nothing after them does not know
	m, found, err := l.leaderGet(ctx, l.opts.Prefix, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q}`, gap, l.subjects.updates+">"), leaderPatience)
	if err != nil {
		return err
	}
	if found && transport.Position(m.Sequence) <= upto {
		return fmt.Errorf("position %d: %w", m.Sequence, errNotRead)
	}
	return nil
}

// patiently calls read until what it reads is not missing for lag.
func (l *Log) patiently(ctx context.Context, read func() error) error {
	for began := time.Now(); ; {
		err := read()
		if err == nil || !errors.Is(err, errNotRead) || !l.opts.clustered() || time.Since(began) > lagPatience {
			return err
		}
		if err := l.pause(ctx, lagPause); err != nil {
			return err
		}
	}
}

// pause waits.
func (l *Log) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.closed:
		return transport.ErrClosed
	}
}
