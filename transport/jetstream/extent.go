package jetstream

import (
	"context"
	"sync"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// extentTrust is how long the server's answer counts while nothing is appended: what else moves the
// beginning of the log is age, which is not exact either.
const extentTrust = 250 * time.Millisecond

// extents remembers the extent of the stream and lets one caller at a time ask for it.
type extents struct {
	mu     sync.Mutex // guards below
	newest extent
	asking chan struct{} // non-nil while somebody asks; closed when the answer is there
}

func (x *extents) latest() extent {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.newest
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

// extentSince returns an extent that reaches last and was asked for not before since.
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
	e, err := readExtent(ctx, l.inbox, l.opts.Prefix)
	if err != nil {
		return extent{}, err
	}
	e.at = began
	x.mu.Lock()
	defer x.mu.Unlock()
	x.newest = e
	return e, nil
}
