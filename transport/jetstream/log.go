// Package jetstream is a transport that keeps its log in NATS JetStream: durable, and the same for every
// node of a hub. It is kept in one of three places, see Options: by a nats-server in this process without a
// listener (standalone), by one in each of several processes (embedded cluster), or by somebody else's servers
// (external). Above the connection they are one code.
//
// A position is a stream sequence. What is where: place.go and options.go check what is configured, dir.go claims
// the directory, server.go runs the server and routes.go makes it one of several, conn.go connects, open.go opens
// the streams that stream.go describes, subject.go and envelope.go say how an update is stored, inbox.go asks the
// server; append.go, follow.go, scan.go and locate.go are the four things that a log does, window.go keeps
// recent history for scans and fill.go fills it, tail.go keeps what the follower has not seen and feed.go hands it
// out where nobody else writes; interest.go,
// registry.go, filter.go, fence.go, hear.go and reread.go follow only what is of interest; space.go and
// health.go notice a full disk or a broken store and mend it, mend.go and identity.go what a crash has left;
// control.go, peers.go and gather.go are how the nodes know and steer each other; presence.go is who is subscribed;
// archive.go and store.go save, restore and export the log as a whole, by means of backup.go, backupfile.go,
// inspect.go, restore.go and export.go.
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
	subjects   subjects
	lock       *flock.Flock
	server     *embedded // nil when the servers are somebody else's
	conn       *conn
	nc         *nats.Conn // of conn
	js         jetstream.JetStream
	inbox      *inbox
	reads      chan struct{}   // a place for each read of the store under way
	closed     <-chan struct{} // closed by Close, after pending appends
	shut       context.CancelCauseFunc
	poke       chan struct{} // makes the monitor look
	background sync.WaitGroup

	identity atomic.Pointer[identity] // changes when the stream was made anew or restored
	health   *health
	space    headroom
	refusals refusals
	appends  gate
	follower *follower
	interest *interestFollower // nil when everything is followed
	tail     *tail
	window   *window
	extents  extents
	newest   newest
	counters counters
	control  atomic.Pointer[control] // nil before Serve

	attendance attendance

	restoring atomic.Bool // the streams are being made anew: the monitor leaves everything as it is

	closing   sync.Mutex // one Close at a time; guards below
	released  bool
	closedErr error
}

var _ transport.Transport = (*Log)(nil)

type counters struct {
	appends, appendErrors, appendRetries, followed, windowHits, windowMisses atomic.Uint64
	appendNanos                                                              atomic.Int64
}

// Open opens the log, or makes it; see Options for where. ctx bounds the opening only: where other nodes or
// servers are needed, Open waits for them until it ends. Errors name the directory when it cannot be used;
// ErrLocked means another process has it.
func Open(ctx context.Context, o Options) (*Log, error) {
	l, life, err := newLog(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := l.open(ctx); err != nil {
		l.release()
		return nil, err
	}
	l.background.Go(func() { l.monitor(life) })
	return l, nil
}

// newLog makes a log that nothing was opened of yet, and the context that lasts until it is closed.
func newLog(ctx context.Context, o Options) (*Log, context.Context, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	life, shut := context.WithCancelCause(context.WithoutCancel(ctx))
	l := &Log{
		opts: o, subjects: newSubjects(o.Prefix, o.HubURL, o.HubPath), conn: newConn(),
		closed: life.Done(), shut: shut, poke: make(chan struct{}, 1),
		reads: make(chan struct{}, maxReads), health: newHealth(), tail: newTail(o.WindowBytes), window: newWindow(o.WindowBytes),
		space: headroom{dir: o.Dir, minFree: o.MinFree}, refusals: refusals{log: o.Logger},
	}
	l.follower = newFollower(l)
	if o.followMode() == FollowInterest {
		l.interest = newInterestFollower(l)
	}
	return l, life, nil
}

// open starts the server, if it is ours, and everything that speaks to it.
func (l *Log) open(ctx context.Context) error {
	if err := l.connect(ctx); err != nil {
		return err
	}
	var err error
	if l.js, err = jetstream.New(l.nc); err != nil {
		return fmt.Errorf("jetstream: %w", err)
	}
	if err := l.openLog(ctx); err != nil {
		if l.opts.Dir != "" {
			err = fmt.Errorf("%w (data directory %q)", err, l.opts.Dir)
		}
		return err
	}
	if l.opts.NoIDIndex {
		return nil
	}
	if err := l.mendIndex(ctx); ctx.Err() != nil {
		return fmt.Errorf("jetstream: open: %w", context.Cause(ctx))
	} else if err != nil { // recent history still knows these ids
		l.opts.Logger.Warn("event ids of the last run are not all indexed", slog.Any("error", err))
	}
	return nil
}

// connect starts the server, if it is ours, and makes the connection.
func (l *Log) connect(ctx context.Context) (err error) {
	dialing := func() { l.conn.dials.Add(1) }
	var place []nats.Option
	urls := ""
	if s := l.opts.Servers; s != nil {
		urls = s.urls()
		if place, err = s.dial(dialing); err != nil {
			return err
		}
	} else {
		if l.lock, err = claimDir(l.opts.Dir, l.opts.mode()); err != nil {
			return err
		}
		if l.server, err = newEmbedded(l.opts, l.nudge); err != nil {
			return err
		}
		if err := l.server.start(ctx); err != nil {
			return fmt.Errorf("%w (data directory %q)", err, l.opts.Dir)
		}
		place = l.server.dial(dialing)
	}
	l.inbox = newInbox(l.closed, l.opts.patience())
	l.conn.cut = l.inbox.cutAll // before there is a connection that may break
	if err := l.conn.connect(ctx, l.opts, place, urls); err != nil {
		return err
	}
	l.nc = l.conn.nc
	if most, needed := l.nc.MaxPayload(), int64(l.opts.maxPayload()); most < needed {
		l.opts.Logger.Info("the servers take smaller messages than the largest update may need",
			slog.Int64("bytes", most), slog.Int64("needed", needed))
	}
	return l.inbox.open(l.nc)
}

// openLog opens the streams, or makes them.
func (l *Log) openLog(ctx context.Context) error {
	info, created, err := l.openStream(ctx, logConfig(l.opts))
	if err != nil {
		return err
	}
	id, err := l.settleIdentity(ctx, info, created)
	if err != nil {
		return err
	}
	l.identity.Store(&id)
	if !l.opts.NoIDIndex {
		_, _, err = l.openStream(ctx, idsConfig(l.opts))
	}
	return err
}

// release gives everything back, in the reverse order of open.
func (l *Log) release() {
	l.shut(transport.ErrClosed)
	l.background.Wait()
	l.conn.close()
	if l.server != nil {
		l.server.stopWithin(stopPatience)
	}
	l.window.reset()
	if l.lock != nil {
		l.closedErr = l.lock.Close()
	}
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
	l.endDirectory(ctx)
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
	s := transport.Stats{
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
	l.addFollower(&s)
	return s
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
