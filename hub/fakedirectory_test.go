package hub

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// directory is a transport.Directory of one node that does as a test says. A hook that is nil, or returns nil, lets
// the call through. The hooks are set before the directory is used.
type directory struct {
	onAttend, onEnter, onLeave, onList func(context.Context) error

	mu      sync.Mutex
	entries map[string]transport.Presence
	entered int // calls of Enter that succeeded
	gone    func(transport.Presence) []*spec.Update
	lost    func()
}

func newDirectory() *directory { return &directory{entries: map[string]transport.Presence{}} }

func call(ctx context.Context, hook func(context.Context) error) error {
	if hook == nil {
		return nil
	}
	return hook(ctx)
}

func (d *directory) Attend(ctx context.Context, gone func(transport.Presence) []*spec.Update, lost func()) error {
	if err := call(ctx, d.onAttend); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone, d.lost = gone, lost
	return nil
}

func (d *directory) Enter(ctx context.Context, p transport.Presence) error {
	if err := call(ctx, d.onEnter); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries[p.Subscriber] = p
	d.entered++
	return nil
}

func (d *directory) Leave(ctx context.Context, subscriber string) (bool, error) {
	if err := call(ctx, d.onLeave); err != nil {
		return false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, there := d.entries[subscriber]
	delete(d.entries, subscriber)
	return there, nil
}

func (d *directory) List(ctx context.Context) ([]transport.Presence, error) {
	if err := call(ctx, d.onList); err != nil {
		return nil, err
	}
	return d.all(), nil
}

func (d *directory) all() []transport.Presence {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.entries))
}

// forget takes everybody out, as another node does that takes this one for dead, and tells the hub.
func (d *directory) forget() {
	d.mu.Lock()
	clear(d.entries)
	lost := d.lost
	d.mu.Unlock()
	lost()
}
