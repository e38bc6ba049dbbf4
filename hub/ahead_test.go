package hub

import (
	"context"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/memory"
)

// laggingLog is a log whose follower stands still until it is let go.
type laggingLog struct {
	transport.Transport
	gate chan struct{}
}

func (l *laggingLog) Follow(ctx context.Context, fn func(transport.Entry)) (transport.Interest, error) {
	if _, err := l.Transport.Follow(ctx, func(e transport.Entry) {
		select {
		case <-l.gate:
		case <-ctx.Done():
		}
		fn(e)
	}); err != nil {
		return nil, err
	}
	return atStart{}, nil
}

// atStart answers for a follower that has handed out nothing yet.
type atStart struct{ transport.Interest }

func (atStart) Add(context.Context, ...topic.Selector) (transport.Position, error) { return 0, nil }
func (atStart) Remove(...topic.Selector)                                           {}

// A client may come from another node, with a position that this node's follower has not reached: what it has
// had must not come again. And what was acknowledged before a client without a cursor came is not for it.
//
// Covers: REC-06, REC-22.
func TestClientAheadOfTheFollower(t *testing.T) {
	for name, hijack := range map[string]bool{"shard": true, "handler": false} {
		t.Run(name, func(t *testing.T) {
			log, err := memory.New(memory.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = log.Close(context.WithoutCancel(t.Context())) })
			lagging := &laggingLog{Transport: log, gate: make(chan struct{})}
			n := startNode(t, func(o *Options) { o.Transport = lagging })
			n.noHijack = !hijack
			for _, d := range []string{"1", "2", "3"} {
				n.publish("topic", "a", "id", d, "data", d)
			}
			resumed := n.subscribe("topic=a", "Last-Event-ID", "2")
			fresh := n.subscribe("topic=a")
			n.publish("topic", "a", "data", "4")
			close(lagging.gate)
			n.publish("topic", "a", "data", "5")
			resumed.want("3", "4", "5")
			fresh.want("4", "5")
		})
	}
}
