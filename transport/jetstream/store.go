package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// Store is where a log is kept, opened without a hub: to save it, to restore it, and to read it. Opening it neither
// makes nor changes anything. Not safe for concurrent use.
type Store struct{ log *Log }

// OpenStore opens the store that o names: a directory whose hub is stopped, or NATS servers. Of o it reads where that is,
// Prefix, Replicas and Logger. ErrLocked means that a hub uses the directory. A cluster's own servers exist only in its
// hubs, which have a Log. Close it when done.
func OpenStore(ctx context.Context, o Options) (*Store, error) {
	if o.Cluster != nil {
		return nil, errors.New("jetstream: the servers of an embedded cluster run in its hubs only")
	}
	o.MaxUpdateBytes = maxMaxUpdateBytes // whatever a hub took must fit
	o.MaxIDs = anyIDs
	l, _, err := newLog(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := l.connect(ctx); err != nil {
		l.release()
		return nil, err
	}
	if l.js, err = jetstream.New(l.nc); err != nil {
		l.release()
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	return &Store{log: l}, nil
}

// anyIDs is how many ids an index takes that is made where there is none: a hub sets its own limit when it starts.
const anyIDs = 1 << 60

// Backup writes the log and its id index to w as they are now; see transport.Archive.
func (s *Store) Backup(ctx context.Context, w io.Writer, progress func(transport.Progress)) (transport.Manifest, error) {
	return s.log.Backup(ctx, w, progress)
}

// Restore reads a backup into a store without updates, else ErrNotEmpty: with the positions, ids and identity that it
// had, so that every client's cursor stays valid. ErrBackup means that r is not a backup that can be restored here. Any
// error says whether the store is as it was or empty. progress may be nil; it is called a few times a second.
func (s *Store) Restore(ctx context.Context, r io.Reader, progress func(transport.Progress)) (transport.Manifest, error) {
	l := s.log
	if !l.opts.clustered() {
		return l.streams().restore(ctx, r, 0, progress)
	}
	// as a hub would, with as many copies as the servers can keep
	if _, err := l.js.Stream(ctx, l.opts.Prefix); errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := l.openLog(ctx); err != nil {
			return transport.Manifest{}, err
		}
	}
	return l.streams().restore(ctx, r, settleFor, progress)
}

// Export reads the log; see transport.Archive.
func (s *Store) Export(ctx context.Context, w io.Writer, o transport.ExportOptions) (n uint64, err error) {
	return s.log.Export(ctx, w, o)
}

// Close gives everything back. It is called once.
func (s *Store) Close() error {
	s.log.release()
	return s.log.closedErr
}
