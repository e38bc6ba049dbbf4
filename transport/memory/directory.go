package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// directory is who is subscribed on the one node there is. What a crash leaves behind is gone with the process.
type directory struct {
	mu       sync.Mutex // guards below
	attended bool
	present  map[string]transport.Presence // by subscriber; nil before Attend and after Close
}

var (
	_ transport.Directory = (*Log)(nil)

	errSecondAttend = errors.New("memory: attend: the directory is attended already")
	errNotAttended  = errors.New("memory: the directory is not attended")
)

// Attend begins to keep the directory; see transport.Directory. Nobody else can leave anything behind, and this node
// is never taken for dead: gone and lost are not called.
func (l *Log) Attend(ctx context.Context, _ func(transport.Presence) []*spec.Update, _ func()) error {
	if err := l.directory.attend(ctx, l.closed); err != nil {
		return fmt.Errorf("memory: attend: %w", err)
	}
	return nil
}

func (d *directory) attend(ctx context.Context, closed <-chan struct{}) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attended {
		return errSecondAttend
	}
	if err := usable(ctx, closed); err != nil {
		return err
	}
	d.attended, d.present = true, map[string]transport.Presence{}
	return nil
}

// Enter lists p; see transport.Directory.
func (l *Log) Enter(ctx context.Context, p transport.Presence) error {
	err := l.directory.with(ctx, l.closed, func(present map[string]transport.Presence) { present[p.Subscriber] = p })
	if err != nil {
		return fmt.Errorf("memory: enter: %w", err)
	}
	return nil
}

// Leave takes a presence out; see transport.Directory.
func (l *Log) Leave(ctx context.Context, subscriber string) (there bool, err error) {
	err = l.directory.with(ctx, l.closed, func(present map[string]transport.Presence) {
		_, there = present[subscriber]
		delete(present, subscriber)
	})
	if err != nil {
		return false, fmt.Errorf("memory: leave: %w", err)
	}
	return there, nil
}

// List returns everybody; see transport.Directory.
func (l *Log) List(ctx context.Context) (all []transport.Presence, err error) {
	err = l.directory.with(ctx, l.closed, func(present map[string]transport.Presence) {
		all = slices.AppendSeq(make([]transport.Presence, 0, len(present)), maps.Values(present))
	})
	if err != nil {
		return nil, fmt.Errorf("memory: list: %w", err)
	}
	return all, nil
}

// with has f read or change who is present.
func (d *directory) with(ctx context.Context, closed <-chan struct{}, f func(map[string]transport.Presence)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := usable(ctx, closed); err != nil {
		return err
	}
	if d.present == nil {
		return errNotAttended
	}
	f(d.present)
	return nil
}

// forget ends the directory with the log.
func (d *directory) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.present = nil
}

func usable(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-closed:
		return transport.ErrClosed
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
