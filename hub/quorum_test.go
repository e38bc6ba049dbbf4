package hub

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/memory"
)

// withoutQuorum is a log that takes no publications for now.
type withoutQuorum struct{ transport.Transport }

func (withoutQuorum) Ready(context.Context) error { return transport.ErrUnavailable }

// A node that takes no publications still serves every stream that it can: those that are open, and those that come, with
// whatever cursor. Only what cannot be read is refused, for now.
//
// Covers: SUB-30, SUB-41.
func TestStreamsWithoutQuorum(t *testing.T) {
	log, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close(context.WithoutCancel(t.Context())) })
	down := false
	faulty := &faultyLog{Transport: log}
	change := func(o *Options) { o.Transport = faulty }
	n := startNode(t, change)
	first := n.publish("topic", "a", "data", "1")
	n.publish("topic", "a", "data", "2")
	stays := n.subscribe("topic=a")

	faulty.Transport = withoutQuorum{log}
	faulty.onLocate = func() error {
		if down {
			return fmt.Errorf("locate: %w", transport.ErrUnavailable)
		}
		return nil
	}
	if n.Ready(t.Context()) == nil {
		t.Error("ready without quorum")
	}
	resumed := n.subscribe("topic=a", "Last-Event-ID", first, "Accept", eventStream)
	earliest := n.subscribe("topic=a", "Last-Event-ID", "earliest", "Accept", eventStream)
	fresh := n.subscribe("topic=a")
	resumed.want("2")
	earliest.want("1", "2")
	n.publish("topic", "a", "data", "3") // what was on its way
	for _, s := range []*stream{stays, resumed, earliest, fresh} {
		s.want("3")
	}
	down = true
	wantSoft(t, n.get("topic=a", "Last-Event-ID", first, "Accept", eventStream), 0)
	wantHard(t, n.get("topic=a", "Last-Event-ID", first), http.StatusServiceUnavailable)
}

// A transport that takes too long to note what a stream wants does not hold its client up for ever.
//
// Covers: SUB-30, SUB-41.
func TestASlowInterest(t *testing.T) {
	var log *faultyLog
	inBubble(t, func(o *Options) {
		inner, err := memory.New(memory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		log = &faultyLog{Transport: inner, slowAdd: true}
		o.Transport = log
	}, func(c *crowd) {
		start := time.Now()
		w := c.open()
		c.all.Wait()
		if took := time.Since(start); took != interestPatience {
			t.Errorf("answered after %v", took)
		}
		wantSoft(t, w.Result(), 0)
		if got := log.interest.Load(); got != 0 {
			t.Errorf("%d selectors are still of interest", got)
		}
	})
}

// What a stream has added is removed when it ends, however it ends, and added in one call.
func TestInterestEndsWithTheStream(t *testing.T) {
	for name, hijack := range map[string]bool{"shard": true, "handler": false} {
		t.Run(name, func(t *testing.T) {
			calls := make(chan topic.Selector, 100)
			log := &faultyLog{Transport: newNode(t, nil).log, onAdd: func(s topic.Selector) error { calls <- s; return nil }}
			n := startNode(t, func(o *Options) { o.Transport = log })
			n.noHijack = !hijack
			left := n.subscribe("topic=a&topic=b&topic=c")
			n.subscribe("topic=a&topic=d")
			if got := log.interest.Load(); got != 5 || len(calls) != 5 {
				t.Errorf("%d selectors are of interest, %d were added", got, len(calls))
			}
			_ = left.res.Body.Close()
			eventually(t, "what the first one wanted is removed", func() bool { return log.interest.Load() == 2 })
			n.stop()
			if got := log.interest.Load(); got != 0 {
				t.Errorf("%d selectors are of interest after the end", got)
			}
		})
	}
}
