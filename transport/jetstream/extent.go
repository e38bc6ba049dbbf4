package jetstream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/transport"
)

const (
	// extentTrust is how long the server's answer counts while nothing is appended: what else moves the
	// beginning of the log is age, which is not exact either.
	extentTrust = 250 * time.Millisecond
	// leaderAway is how long a leader that did not answer is not asked for an extent; the monitor asks every second.
	leaderAway = 2 * time.Second
)

// extent is what the stream retains, as the server last told.
type extent struct {
	first, last transport.Position // first is last+1 when nothing is retained
	messages    uint64
	bytes       uint64
	at          time.Time
	replica     bool // told by replicas without their leader: there may be more
}

func newExtent(i streamInfo, asked time.Time) extent {
	e := extent{
		first: transport.Position(i.State.First), last: transport.Position(i.State.Last),
		messages: i.State.Messages, bytes: i.State.Bytes, at: asked, replica: !i.led(),
	}
	if e.messages == 0 {
		e.first = e.last + 1
	}
	return e
}

// extents remembers the extent of the stream and lets one caller at a time ask for it.
type extents struct {
	mu     sync.Mutex // guards below
	newest extent
	away   time.Time     // until then the leader is not asked; zero = it answers
	asking chan struct{} // non-nil while somebody asks; closed when the answer is there
}

func (x *extents) latest() extent {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.newest
}

// note takes an answer.
func (x *extents) note(e extent) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e.at.After(x.newest.at) {
		x.newest = e
	}
	if !e.replica {
		x.away = time.Time{}
	}
}

// leave notes that the leader does not answer.
func (x *extents) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.away = time.Now().Add(leaderAway)
}

// left reports whether the leader is known not to answer.
func (x *extents) left() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Now().Before(x.away)
}

// reset forgets all: it is another log.
func (x *extents) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.newest = extent{}
}

// extent returns what is retained: at least everything that this node knows to be appended when it is called.
func (l *Log) extent(ctx context.Context) (extent, error) {
	pos, _ := l.newest.get()
	return l.extentSince(ctx, pos, time.Now().Add(-extentTrust))
}

// freshExtent asks the server now.
func (l *Log) freshExtent(ctx context.Context) (extent, error) {
	return l.extentSince(ctx, 0, time.Now())
}

// extentSince returns an extent that reaches last and was asked for not before since; or, of a cluster, one that
// is as far as can be known.
func (l *Log) extentSince(ctx context.Context, last transport.Position, since time.Time) (extent, error) {
	x := &l.extents
	for {
		if l.isClosed() {
			return extent{}, transport.ErrClosed
		}
		x.mu.Lock()
		if x.newest.last >= last && !x.newest.at.Before(since) {
			e := x.newest
			x.mu.Unlock()
			return e, nil
		}
		asking := x.asking
		if asking == nil {
			x.asking = make(chan struct{})
			x.mu.Unlock()
			return l.ask(ctx)
		}
		x.mu.Unlock()
		select {
		case <-asking: // its answer, or its turn to ask
		case <-ctx.Done():
			return extent{}, context.Cause(ctx)
		}
	}
}

// ask asks on behalf of all who wait.
func (l *Log) ask(ctx context.Context) (extent, error) {
	x := &l.extents
	defer func() { // even after a panic, which may be contained above
		x.mu.Lock()
		defer x.mu.Unlock()
		close(x.asking)
		x.asking = nil
	}()
	began := time.Now()
	e, err := l.readExtent(ctx)
	if err != nil {
		return extent{}, err
	}
	e.at = began
	l.noteExtent(e)
	return e, nil
}

// noteExtent takes an answer. What the leader has told is known to be there, whatever a replica says later.
func (l *Log) noteExtent(e extent) {
	l.extents.note(e)
	if !e.replica {
		l.newest.reach(e.last)
	}
}

// readExtent asks the leader, or else what replicas there are: history is read without a quorum.
func (l *Log) readExtent(ctx context.Context) (extent, error) {
	p := l.inbox.patience
	if l.opts.clustered() {
		p = leaderPatience
	}
	if !l.extents.left() {
		info, err := l.readInfo(ctx, l.opts.Prefix, nil, p)
		if err == nil {
			if err := l.same(info); err != nil {
				return extent{}, err
			}
			if info.led() {
				return newExtent(info, time.Time{}), nil
			}
		}
		if !l.opts.clustered() || ctx.Err() != nil || l.isClosed() {
			return extent{}, err
		}
		l.extents.leave()
	}
	return l.surveyExtent(ctx)
}

// surveyExtent finds the first message and the last one by direct gets.
func (l *Log) surveyExtent(ctx context.Context) (extent, error) {
	updates := l.subjects.updates + ">"
	last, err := l.findPosition(ctx, fmt.Appendf(nil, `{"last_by_subj":%q}`, updates))
	if err != nil {
		return extent{}, err
	}
	known := l.extents.latest()
	e := extent{first: known.last + 1, last: known.last, replica: true}
	if last == 0 { // nothing is retained
		return e, nil
	}
	first, err := l.findPosition(ctx, fmt.Appendf(nil, `{"seq":1,"next_by_subj":%q}`, updates))
	if err != nil {
		return extent{}, err
	}
	e.first, e.last = min(max(first, 1), last), last
	// what was missing when it was last known is missing still
	e.messages = uint64(e.last - e.first + 1)
	if reach := uint64(known.last-known.first) + 1; known.messages > 0 && known.messages <= reach {
		e.messages -= min(e.messages, reach-known.messages)
	}
	if known.messages > 0 {
		e.bytes = known.bytes / known.messages * e.messages
	}
	return e, nil
}

// findPosition returns the position of one message that is asked for by its subject, 0 if there is none.
func (l *Log) findPosition(ctx context.Context, ask []byte) (transport.Position, error) {
	msgs, err := l.inbox.request(ctx, directGetSubject+l.opts.Prefix, ask, false)
	if err != nil {
		return 0, err
	}
	return foundPosition(msgs[0])
}

func foundPosition(m *nats.Msg) (transport.Position, error) {
	switch status := m.Header.Get(headerStatus); status {
	case "":
		return position(m)
	case statusNone:
		return 0, nil
	default:
		return 0, fmt.Errorf("%w: read the end of the log: %s", transport.ErrUnavailable, status)
	}
}
