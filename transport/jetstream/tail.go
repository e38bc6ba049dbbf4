package jetstream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// tail keeps the entries appended by this process until the follower has passed them. A log with small
// limits may discard an entry before the follower has read it; the follower then finds it here, so that
// every entry is handed out. What is kept is bounded: beyond, appends wait for the follower.
type tail struct {
	limit int64         // bytes
	news  chan struct{} // capacity 1: an append has ended

	mu        sync.Mutex // guards below
	following bool
	reached   transport.Position // by the follower
	entries   map[transport.Position]transport.Entry
	bytes     int64
	pending   map[*pending]struct{}
	room      chan struct{} // closed and renewed when the follower has made room; nil when nobody waits
}

// pending is an append whose outcome is not known yet.
type pending struct {
	done chan struct{} // made by whoever waits; closed when the outcome is known
}

func newTail(limit int64) *tail {
	return &tail{limit: limit, news: make(chan struct{}, 1), entries: map[transport.Position]transport.Entry{}, pending: map[*pending]struct{}{}}
}

// begin announces an append. It waits while the follower is too far behind, at most for patience.
func (t *tail) begin(ctx context.Context, patience time.Duration) (*pending, error) {
	began := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.bytes > t.limit && t.following {
		if t.room == nil {
			t.room = make(chan struct{})
		}
		room := t.room
		t.mu.Unlock()
		var err error
		select {
		case <-room:
		case <-time.After(patience - time.Since(began)):
			err = fmt.Errorf("%w: the follower is %d bytes behind", transport.ErrUnavailable, t.limit)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		t.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	p := &pending{}
	t.pending[p] = struct{}{}
	return p, nil
}

// end tells the outcome of an append: its entry, or nothing.
func (t *tail) end(p *pending, e transport.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pending, p)
	if p.done != nil {
		close(p.done)
	}
	if e.Update == nil || !t.following || e.Pos <= t.reached {
		return
	}
	t.entries[e.Pos] = e
	t.bytes += size(e)
	select {
	case t.news <- struct{}{}:
	default: // it has been told already
	}
}

// follow begins to keep entries.
func (t *tail) follow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.following = true
}

// unfollow forgets all: there is no follower any more.
func (t *tail) unfollow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.following = false
	clear(t.entries)
	t.bytes = 0
	t.wake()
}

// reach notes that the follower has come to pos.
func (t *tail) reach(pos transport.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pos == t.reached+1 {
		t.forget(pos)
	} else {
		for p := range t.entries {
			if p <= pos {
				t.forget(p)
			}
		}
	}
	t.reached = pos
	t.wake()
}

// lose drops the entries after pos, which the log has lost.
func (t *tail) lose(pos transport.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range t.entries {
		if p > pos {
			t.forget(p)
		}
	}
	t.reached = min(t.reached, pos)
	t.wake()
}

// forget drops an entry. Called with mu held.
func (t *tail) forget(pos transport.Position) {
	if e, ok := t.entries[pos]; ok {
		delete(t.entries, pos)
		t.bytes -= size(e)
	}
}

// wake lets waiting appends look again. Called with mu held.
func (t *tail) wake() {
	if t.room != nil && (t.bytes <= t.limit || !t.following) {
		close(t.room)
		t.room = nil
	}
}

// get returns the kept entry at pos.
func (t *tail) get(pos transport.Position) (transport.Entry, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.entries[pos]
	return e, ok
}

// settle waits until the outcome of every append begun by now is known.
func (t *tail) settle(ctx context.Context) error {
	t.mu.Lock()
	var waits []chan struct{}
	for p := range t.pending {
		if p.done == nil {
			p.done = make(chan struct{})
		}
		waits = append(waits, p.done)
	}
	t.mu.Unlock()
	for _, done := range waits {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// followed reports whether there is a follower.
func (t *tail) followed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.following
}

// behind reports whether an entry of this process waits for the follower.
func (t *tail) behind() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries) > 0
}

// size is what an entry counts in bytes of memory.
func size(e transport.Entry) int64 {
	n := 256 + len(e.Update.ID) + len(e.Update.Type) + len(e.Update.Data)
	for _, s := range e.Update.Topics {
		n += len(s) + 32
	}
	return int64(n)
}
