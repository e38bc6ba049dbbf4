// Package memory is a transport that keeps a bounded log in the process: for one node without a disk, and
// for tests. It does no I/O and waits only on channels, so it runs in a testing/synctest bubble.
//
// The log is a chain of nodes. The retained part is also held in a slice, from which retention removes the
// oldest; the follower walks the chain from node to node at its own pace. A node that retention has
// removed lives on until the follower has passed it, so that a follower that is overtaken still gets
// every entry. What it lags behind is bounded by Options.MaxBytes: beyond, Append waits for it, and refuses
// with transport.ErrUnavailable after followerPatience.
package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/eventid"
)

// Options bounds the log. Each limit holds alone; the oldest entries go first.
type Options struct {
	MaxMessages int           // entries retained, 0 = no limit
	MaxBytes    int64         // bytes retained, counted as Size does; 0 = 64 MiB
	MaxAge      time.Duration // age of the oldest entry, 0 = no limit
}

const (
	defaultMaxBytes  = 64 << 20
	followerPatience = 10 * time.Second // how long an Append waits for a follower that does not keep up
	entryOverhead    = 256              // bytes of bookkeeping for an entry, its node and its place in the id index
)

// node is an entry in the chain.
type node struct {
	entry transport.Entry
	added time.Time
	size  int64
	own   bool // the id was given by the hub
	next  atomic.Pointer[node]
}

// Log is a bounded log in memory. It implements transport.Transport.
type Log struct {
	// static after construction
	opts   Options
	codec  *eventid.Codec
	closed chan struct{} // closed by Close

	directory directory

	// counters
	appends, appendErrors, followed atomic.Uint64
	appendNanos                     atomic.Int64
	reached                         atomic.Uint64 // position that the follower has begun to handle
	followedBytes                   atomic.Int64  // bytes that the follower has left behind
	waiting                         atomic.Int32  // appends waiting for the follower

	// guarded by mu
	mu            sync.RWMutex
	tail          *node   // newest entry; a node without update before the first
	retained      []*node // oldest first
	bytes         int64   // of retained
	appendedBytes int64   // of everything appended since the follower began
	ids           index
	expiry        *time.Timer   // fires when the oldest entry is too old; nil without MaxAge
	following     bool          // a follower is at work
	ended         chan struct{} // closed when the follower has ended; nil before Follow
	isClosed      bool
	room          chan struct{} // closed and renewed when the follower has moved and someone waits

	wake chan struct{} // tells the follower that there is a new node
}

var _ transport.Transport = (*Log)(nil)

// New makes an empty log. A negative limit is an error.
func New(o Options) (*Log, error) {
	if o.MaxMessages < 0 || o.MaxBytes < 0 || o.MaxAge < 0 {
		return nil, fmt.Errorf("memory: negative limit in %+v", o)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	return &Log{
		opts:   o,
		codec:  eventid.NewRandom(),
		closed: make(chan struct{}),
		tail:   &node{},
		ids:    newIndex(),
		room:   make(chan struct{}),
		wake:   make(chan struct{}, 1),
	}, nil
}

// Size is what u counts against Options.MaxBytes: the length of its texts and a fixed overhead.
func Size(u *spec.Update) int64 {
	n := entryOverhead + len(u.ID) + len(u.Type) + len(u.Data)
	for _, t := range u.Topics {
		n += len(t) + 16
	}
	return int64(n)
}

// Append stores u; see transport.Transport. An update that alone is larger than MaxBytes is ErrTooLarge.
// It must not be called from the follower's fn when the follower may be far behind: it could wait for itself.
func (l *Log) Append(ctx context.Context, u *spec.Update) (transport.Entry, error) {
	began := time.Now()
	e, err := l.append(ctx, u)
	if err != nil {
		l.appendErrors.Add(1)
		return transport.Entry{}, fmt.Errorf("memory: append: %w", err)
	}
	l.appends.Add(1)
	l.appendNanos.Add(int64(time.Since(began)))
	return e, nil
}

func (l *Log) append(ctx context.Context, u *spec.Update) (transport.Entry, error) {
	if err := ctx.Err(); err != nil {
		return transport.Entry{}, context.Cause(ctx)
	}
	n := &node{size: Size(u)}
	if n.size > l.opts.MaxBytes {
		return transport.Entry{}, fmt.Errorf("%d bytes, at most %d are retained: %w", n.size, l.opts.MaxBytes, transport.ErrTooLarge)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.awaitRoom(ctx, n.size); err != nil {
		return transport.Entry{}, err
	}
	n.entry.Pos = l.tail.entry.Pos + 1
	n.added = time.Now()
	if u.ID == "" {
		named := *u
		named.ID = l.codec.Encode(uint64(n.entry.Pos), 0)
		u, n.own = &named, true
	}
	n.entry.Update = u
	l.trim(n.added, 1, n.size)
	if !n.own {
		l.ids.add(u.ID, n.entry.Pos, l.first())
	}
	l.retained = append(l.retained, n)
	l.bytes += n.size
	l.appendedBytes += n.size
	l.armExpiry()
	l.tail.next.Store(n)
	l.tail = n
	select {
	case l.wake <- struct{}{}:
	default: // it has been told already
	}
	return n.entry, nil
}

// awaitRoom waits until the follower is less than MaxBytes behind. It is called with mu held, which it
// gives up while it waits.
func (l *Log) awaitRoom(ctx context.Context, size int64) error {
	began := time.Now()
	for {
		if l.isClosed {
			return transport.ErrClosed
		}
		if !l.following || l.appendedBytes-l.followedBytes.Load()+size <= l.opts.MaxBytes {
			return nil
		}
		// announced before the last look, so that a follower that moves in between sees it
		l.waiting.Add(1)
		room := l.room
		if l.appendedBytes-l.followedBytes.Load()+size <= l.opts.MaxBytes {
			l.waiting.Add(-1)
			return nil
		}
		l.mu.Unlock()
		var err error
		select {
		case <-room:
		case <-time.After(followerPatience - time.Since(began)):
			err = fmt.Errorf("the follower is %d bytes behind: %w", l.opts.MaxBytes, transport.ErrUnavailable)
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-l.closed:
			err = transport.ErrClosed
		}
		l.mu.Lock()
		l.waiting.Add(-1)
		if err != nil {
			return err
		}
	}
}

// Ready fails once the log is closed; see transport.Transport.
func (l *Log) Ready(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed {
		return fmt.Errorf("memory: not ready: %w", transport.ErrClosed)
	}
	return nil
}

// Span returns what is retained; see transport.Transport.
func (l *Log) Span(context.Context) (transport.Span, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed {
		return transport.Span{}, fmt.Errorf("memory: span: %w", transport.ErrClosed)
	}
	l.trim(time.Now(), 0, 0)
	s := transport.Span{First: l.first(), Last: l.tail.entry.Pos}
	if l.tail.entry.Update != nil {
		s.LastID = l.tail.entry.Update.ID
	}
	return s, nil
}

// Stats returns counters; see transport.Transport. Every scan is a hit: there is no other store.
func (l *Log) Stats() transport.Stats {
	l.mu.RLock()
	retained, bytes := len(l.retained), l.bytes
	l.mu.RUnlock()
	return transport.Stats{
		Appends:       l.appends.Load(),
		AppendErrors:  l.appendErrors.Load(),
		AppendLatency: time.Duration(l.appendNanos.Load()),
		Followed:      l.followed.Load(),
		RetainedBytes: uint64(max(bytes, 0)),
		Retained:      uint64(retained),
	}
}

// Close ends the follower and forgets the log; see transport.Transport. It must not be called from the
// follower's fn.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	if !l.isClosed {
		l.isClosed = true
		close(l.closed)
		if l.expiry != nil {
			l.expiry.Stop()
		}
		l.retained, l.bytes, l.ids = nil, 0, newIndex()
	}
	ended := l.ended
	l.mu.Unlock()
	l.directory.forget()
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("memory: close: follower still runs: %w", context.Cause(ctx))
	}
}

var errSecondFollow = errors.New("memory: follow: the log has, or has had, its one follower")
