package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

var _ transport.Archive = (*Log)(nil)

// streams gives the log's streams to what saves and reads them as a whole.
func (l *Log) streams() *streams {
	return &streams{nc: l.nc, js: l.js, prefix: l.opts.Prefix, replicas: l.opts.replicas()}
}

// Backup writes the log and its id index as they are now; see transport.Archive.
func (l *Log) Backup(ctx context.Context, w io.Writer, progress func(transport.Progress)) (transport.Manifest, error) {
	m, err := l.streams().backup(ctx, w, progress)
	return m, l.orClosed(err)
}

// Restore reads a backup into the log that this node serves; see transport.Archive. Publishers wait meanwhile, as for
// a log that is unavailable. This node serves the restored log when Restore returns; others notice within a second or so.
func (l *Log) Restore(ctx context.Context, r io.Reader, progress func(transport.Progress)) (transport.Manifest, error) {
	if !l.restoring.CompareAndSwap(false, true) {
		return transport.Manifest{}, fmt.Errorf("jetstream: restore: %w", transport.ErrRestoring)
	}
	l.health.set(errBeingRestored)
	m, err := l.restore(ctx, r, progress)
	l.restoring.Store(false)
	l.nudge() // the monitor sees what there is now, and lets publishers in
	if err != nil {
		return transport.Manifest{}, l.orClosed(err)
	}
	if !l.opts.NoIDIndex {
		if err := l.mendIndex(ctx); err != nil { // recent history still knows these ids
			l.opts.Logger.Warn("event ids of the backup are not all indexed", slog.Any("error", err))
		}
	}
	return m, nil
}

func (l *Log) restore(ctx context.Context, r io.Reader, progress func(transport.Progress)) (transport.Manifest, error) {
	settle := time.Duration(0)
	if l.opts.clustered() {
		settle = settleFor
	}
	m, err := l.streams().restore(ctx, r, settle, progress)
	// the log is another one in any case, be it an empty one
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoPatience)
	defer cancel()
	return m, errors.Join(err, l.adopt(ctx))
}

// adopt makes this node serve the log that stands there now.
func (l *Log) adopt(ctx context.Context) error {
	if !l.opts.clustered() {
		if err := l.adoptNow(ctx); err != nil {
			return fmt.Errorf("jetstream: the restored log cannot be read yet: %w", err)
		}
	}
	for { // the monitor does it
		_, err := l.freshExtent(ctx)
		if err == nil {
			return nil
		}
		l.nudge()
		if l.pause(ctx, retryPause) != nil {
			return fmt.Errorf("jetstream: the restored log cannot be read yet: %w", err)
		}
	}
}

// adoptNow is for a log that nobody else can change.
func (l *Log) adoptNow(ctx context.Context) error {
	s, err := l.js.Stream(ctx, l.opts.Prefix)
	if err != nil {
		return err
	}
	id, err := l.settleIdentity(ctx, s.CachedInfo(), false)
	if err != nil {
		return err
	}
	info, err := l.readInfo(ctx, l.opts.Prefix, nil, l.inbox.patience)
	if err != nil {
		return err
	}
	x := newExtent(info, time.Now())
	// a backup of this very log, taken before what retention has taken since, ends before what was followed
	if known, _ := l.newest.get(); l.same(info) != nil || x.last < known {
		l.renew(id, x, restoredUpTo(info.Config.Metadata))
	}
	return nil
}

// errBeingRestored is what publishers and the health probe are told.
var errBeingRestored = fmt.Errorf("%w: a backup is being restored", transport.ErrUnavailable)

// Export writes updates in order, one JSON object a line; see transport.Archive.
func (l *Log) Export(ctx context.Context, w io.Writer, o transport.ExportOptions) (n uint64, err error) {
	n, err = l.streams().export(ctx, l.inbox, w, o)
	return n, l.orClosed(err)
}
