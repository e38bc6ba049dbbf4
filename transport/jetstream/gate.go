package jetstream

import (
	"context"
	"sync"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// newest is the newest entry known to this node.
type newest struct {
	mu  sync.Mutex // guards below
	pos transport.Position
	id  string
}

func (n *newest) get() (transport.Position, string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pos, n.id
}

// lower notes that the log ends at pos; what its id is, is asked for when needed.
func (n *newest) lower(pos transport.Position) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pos > pos {
		n.pos, n.id = pos, ""
	}
}

// reach notes that something stands at pos, of which nothing more is known.
func (n *newest) reach(pos transport.Position) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if pos > n.pos {
		n.pos, n.id = pos, ""
	}
}

func (n *newest) raise(e transport.Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.Pos > n.pos || (e.Pos == n.pos && n.id == "") {
		n.pos, n.id = e.Pos, e.Update.ID
	}
}

// gate counts what is under way and closes.
type gate struct {
	mu     sync.Mutex // guards below
	inside int
	shut   bool
	empty  chan struct{} // closed when the last one leaves a shut gate; made by close
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// close lets nobody in any more and waits until all have left.
func (g *gate) close(ctx context.Context) error {
	g.mu.Lock()
	g.shut = true
	if g.inside == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
