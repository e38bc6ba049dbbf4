package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cinnabar-hub/cinnabar/transport"
)

const (
	// mendReach is how many positions before the newest indexed one are looked at again at the start: more
	// than are appended at the same time.
	mendReach = 1024
	// mendMost bounds what is looked at, and with it the time a start takes, when the newest indexed id is long ago.
	mendMost = 20_000
)

// mendIndex notes the ids of updates that were stored when the process ended before it could note them. The
// error is the first of those that hindered it; it is no reason not to start.
func (l *Log) mendIndex(ctx context.Context) error {
	for {
		err := l.mendOnce(ctx)
		if !errors.Is(err, transport.ErrTrimmed) {
			return err
		}
		// retention goes on meanwhile, and what it has taken needs no id: each round begins further on
	}
}

func (l *Log) mendOnce(ctx context.Context) error {
	x, err := l.freshExtent(ctx)
	if err != nil {
		return err
	}
	last, err := l.getID(ctx, l.subjects.ids+">")
	if err != nil {
		return err
	}
	var failed error
	for e, err := range l.Scan(ctx, mendFrom(last, x), x.last, nil) {
		if err != nil {
			return errors.Join(failed, err)
		}
		if _, _, own := l.identity.Load().codec.Decode(e.Update.ID); own {
			continue
		}
		err = l.putID(ctx, e.Update.ID, e.Pos)
		switch {
		case err == nil:
		case ctx.Err() != nil, errors.Is(err, transport.ErrFull), errors.Is(err, transport.ErrUnavailable):
			return errors.Join(failed, err) // nor would the others succeed
		case failed == nil:
			failed = fmt.Errorf("event id at %d: %w", e.Pos, err)
		default:
			l.opts.Logger.Debug("event id not indexed", slog.Uint64("position", uint64(e.Pos)), slog.Any("error", err))
		}
	}
	return failed
}

// mendFrom returns the position after which ids may be missing in the index, whose newest entry is last.
func mendFrom(last idEntry, x extent) transport.Position {
	from := x.last
	if last.revision > 0 && !last.foreign {
		from = min(from, last.pos)
	}
	return max(from-min(from, mendReach), x.last-min(x.last, mendMost), x.first-1)
}
