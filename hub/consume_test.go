package hub

import (
	"context"
	"testing"
)

// latelyOver is a context that ends after its end has been asked for a few times.
type latelyOver struct {
	context.Context

	asked, lasts int
}

func (l *latelyOver) Err() error {
	if l.asked++; l.asked > l.lasts {
		return context.Canceled
	}
	return nil
}

// A client that leaves while its stream's turn is under way is noticed at the end of that turn: the stream was awake
// already, so nothing wakes it again.
func TestAClientThatLeavesInTheMiddleOfATurn(t *testing.T) {
	n := newNode(t, nil)
	n.run()
	s := n.listener(nil, "a")
	s.sink = &nowhere{}
	ctx := &latelyOver{Context: t.Context(), lasts: 1 << 30}
	c := s.consume(ctx, 0)
	c.turn()
	if c.over {
		t.Fatal("the stream ended by itself")
	}
	defer c.timer.Stop()
	defer c.unlink()
	ctx.lasts = ctx.asked + 1 // it is still there when the turn begins
	if c.turn(); !c.over {
		t.Error("the client has left, and the stream waits")
	}
}
