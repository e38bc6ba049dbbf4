package memory

import (
	"context"
	"fmt"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// Follow starts the follower at the end of the log; see transport.Transport. A log has one follower in its
// life: a second call is an error even when the first has ended.
func (l *Log) Follow(ctx context.Context, fn func(transport.Entry)) (transport.Interest, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed {
		return nil, fmt.Errorf("memory: follow: %w", transport.ErrClosed)
	}
	if l.ended != nil {
		return nil, errSecondFollow
	}
	l.following, l.ended = true, make(chan struct{})
	l.appendedBytes = 0
	l.reached.Store(uint64(l.tail.entry.Pos))
	go l.follow(ctx, l.tail, fn, l.ended) // waited for by Close
	return interest{l}, nil
}

// follow walks the chain after n.
func (l *Log) follow(ctx context.Context, n *node, fn func(transport.Entry), ended chan<- struct{}) {
	defer close(ended)
	defer l.unfollow()
	for {
		for next := n.next.Load(); next != nil; next = n.next.Load() {
			if ctx.Err() != nil || l.done() {
				return
			}
			n = next
			// before fn: an Interest.Add that comes while fn runs must not count on this entry
			l.reached.Store(uint64(n.entry.Pos))
			fn(n.entry)
			l.followed.Add(1)
			l.followedBytes.Add(n.size)
			if l.waiting.Load() > 0 {
				l.makeRoom()
			}
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		case <-l.closed:
			return
		}
	}
}

// makeRoom wakes the appends that wait for the follower.
func (l *Log) makeRoom() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.room)
	l.room = make(chan struct{})
}

// unfollow lets appends go on without the follower that has ended.
func (l *Log) unfollow() {
	l.mu.Lock()
	l.following = false
	l.mu.Unlock()
	l.makeRoom()
}

func (l *Log) done() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// interest answers for a follower that gets every entry: selectors make no difference.
type interest struct{ log *Log }

// Add returns the position the follower has reached; see transport.Interest.
func (i interest) Add(context.Context, ...topic.Selector) (transport.Position, error) {
	if i.log.done() {
		return 0, fmt.Errorf("memory: add interest: %w", transport.ErrClosed)
	}
	return transport.Position(i.log.reached.Load()), nil
}

// Remove does nothing; see transport.Interest.
func (i interest) Remove(...topic.Selector) {}
