// Package jetstream is a transport that keeps its log in NATS JetStream: durable, and the same for every
// node of a hub. In standalone mode, the only one so far, a nats-server runs in this process without a
// listener and stores its stream in a data directory.
//
// A position is a stream sequence. What is where: dir.go claims the directory, server.go runs the server,
// stream.go opens the streams, subject.go and envelope.go say how an update is stored, inbox.go asks the
// server; append.go, follow.go, scan.go and locate.go are the four things that a log does, window.go keeps
// recent history for scans and fill.go fills it, tail.go keeps what the follower has not seen; space.go and
// health.go notice a full disk or a broken store and mend it, mend.go and identity.go what a crash has left;
// control.go, peers.go and gather.go are how the nodes know and steer each other.
package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// Log is a log in JetStream. It implements transport.Transport.
type Log struct {
	// static after construction
	opts       Options
	identity   identity
	subjects   subjects
	lock       *flock.Flock
	server     *embedded
	nc         *nats.Conn
	ncEnded    <-chan struct{}
	js         jetstream.JetStream
	inbox      *inbox
	reads      chan struct{}   // a place for each read of the store under way
	closed     <-chan struct{} // closed by Close, after pending appends
	shut       context.CancelCauseFunc
	poke       chan struct{} // makes the monitor look
	background sync.WaitGroup

	health   *health
	space    headroom
	refusals refusals
	appends  gate
	follower *follower
	tail     *tail
	window   *window
	extents  extents
	newest   newest
	counters counters
	control  atomic.Pointer[control] // nil before Serve

	closing   sync.Mutex // one Close at a time; guards below
	released  bool
	closedErr error
}

var _ transport.Transport = (*Log)(nil)

type counters struct {
	appends, appendErrors, appendRetries, followed, windowHits, windowMisses atomic.Uint64
	appendNanos                                                              atomic.Int64
}

// Open starts the embedded server on the data directory and opens the log, or makes it. ctx bounds the
// opening only. Errors name the directory when it cannot be used; ErrLocked means another process has it.
func Open(ctx context.Context, o Options) (*Log, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	lock, err := claimDir(o.Dir, modeStandalone)
	if err != nil {
		return nil, err
	}
	life, shut := context.WithCancelCause(context.WithoutCancel(ctx))
	l := &Log{
		opts: o, subjects: newSubjects(o.Prefix, o.HubURL), lock: lock,
		closed: life.Done(), shut: shut, poke: make(chan struct{}, 1),
		reads: make(chan struct{}, maxReads), health: newHealth(), tail: newTail(o.WindowBytes), window: newWindow(o.WindowBytes),
		space: headroom{dir: o.Dir, minFree: o.MinFree}, refusals: refusals{log: o.Logger},
	}
	l.follower = newFollower(l)
	l.server = newEmbedded(o, l.nudge)
	if err := l.open(ctx); err != nil {
		l.release()
		return nil, err
	}
	l.background.Go(func() { l.monitor(life) })
	return l, nil
}

// open starts the server and everything that speaks to it.
func (l *Log) open(ctx context.Context) error {
	if err := l.server.start(ctx); err != nil {
		return fmt.Errorf("%w (data directory %q)", err, l.opts.Dir)
	}
	ended := make(chan struct{})
	l.inbox = newInbox(l.closed) // before there is a connection that may break
	nc, err := l.server.connect(l.opts, func() { close(ended) }, l.inbox.cutAll)
	if err != nil {
		return err
	}
	l.nc, l.ncEnded = nc, ended
	if l.js, err = jetstream.New(nc); err != nil {
		return fmt.Errorf("jetstream: %w", err)
	}
	if err := l.inbox.open(nc); err != nil {
		return err
	}
	info, created, err := openStream(ctx, l.js, logConfig(l.opts))
	if err != nil {
		return fmt.Errorf("%w (data directory %q)", err, l.opts.Dir)
	}
	if l.identity, err = l.settleIdentity(ctx, info, created); err != nil {
		return err
	}
	if !l.opts.NoIDIndex {
		if _, _, err := openStream(ctx, l.js, idsConfig(l.opts)); err != nil {
			return fmt.Errorf("%w (data directory %q)", err, l.opts.Dir)
		}
		if err := l.mendIndex(ctx); ctx.Err() != nil {
			return fmt.Errorf("jetstream: open: %w", context.Cause(ctx))
		} else if err != nil { // recent history still knows these ids
			l.opts.Logger.Warn("event ids of the last run are not all indexed", slog.Any("error", err))
		}
	}
	return nil
}

// release gives everything back, in the reverse order of open.
func (l *Log) release() {
	l.shut(transport.ErrClosed)
	l.background.Wait()
	if l.nc != nil {
		l.nc.Close()
		<-l.ncEnded
	}
	l.server.stop()
	l.window.reset()
	l.closedErr = l.lock.Close()
}

// Close waits for pending appends, stops the follower, and ends the server; see transport.Transport. When
// ctx ends first the server is ended all the same, unless the follower's fn still runs: then nothing more is
// released, and Close may be called again.
func (l *Log) Close(ctx context.Context) error {
	l.closing.Lock()
	defer l.closing.Unlock()
	if l.released {
		return l.closedErr
	}
	pending := l.appends.close(ctx)
	l.shut(transport.ErrClosed)
	if err := l.follower.wait(ctx); err != nil {
		return fmt.Errorf("jetstream: close: the follower still runs: %w", err)
	}
	l.release()
	l.released = true
	if pending != nil {
		pending = fmt.Errorf("jetstream: close: appends were pending: %w", pending)
	}
	return errors.Join(pending, l.closedErr)
}

// Ready says whether the log takes appends and its follower keeps up; see transport.Transport. A store that only
// lacks space is ready: it is read, and publishers are told.
func (l *Log) Ready(context.Context) error {
	if err, _ := l.health.get(); err != nil && !errors.Is(err, transport.ErrFull) {
		return fmt.Errorf("jetstream: not ready: %w", l.orClosed(err))
	}
	if l.isClosed() {
		return transport.ErrClosed
	}
	return nil
}

// Span returns what is retained; see transport.Transport. It asks the server, unless it has done so within
// the last quarter of a second and nothing was appended since.
func (l *Log) Span(ctx context.Context) (transport.Span, error) {
	x, err := l.extent(ctx)
	if err != nil {
		return transport.Span{}, fmt.Errorf("jetstream: span: %w", err)
	}
	s := transport.Span{First: x.first, Last: x.last}
	pos, id := l.newest.get()
	if (pos != x.last || id == "") && x.last >= x.first { // appended before we started, or its acknowledgement was lost
		e, found, err := l.at(ctx, x.last)
		if err != nil {
			return transport.Span{}, fmt.Errorf("jetstream: span: %w", err)
		}
		if found {
			pos, id = e.Pos, e.Update.ID
			l.newest.raise(e)
		}
	}
	if pos == x.last {
		s.LastID = id
	}
	return s, nil
}

// Stats returns counters and what the server last told of the stream; see transport.Transport.
func (l *Log) Stats() transport.Stats {
	c := &l.counters
	x := l.extents.latest()
	return transport.Stats{
		Appends:       c.appends.Load(),
		AppendErrors:  c.appendErrors.Load(),
		AppendRetries: c.appendRetries.Load(),
		AppendLatency: time.Duration(c.appendNanos.Load()),
		Followed:      c.followed.Load(),
		WindowHits:    c.windowHits.Load(),
		WindowMisses:  c.windowMisses.Load(),
		RetainedBytes: x.bytes,
		Retained:      x.messages,
	}
}

// isClosed reports whether Close has come that far.
func (l *Log) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// orClosed returns ErrClosed in place of an error that only shows that the log is closed.
func (l *Log) orClosed(err error) error {
	if err != nil && l.isClosed() {
		return transport.ErrClosed
	}
	return err
}
