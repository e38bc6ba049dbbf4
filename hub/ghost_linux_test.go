package hub

import (
	"strings"
	"testing"
	"time"
)

// A client that has vanished takes no room and asks for nothing: its kernel just does not acknowledge any more. Here it is
// one whose receive buffer is full, so that what the hub's kernel holds, far less than it could, stays unacknowledged.
//
// Covers: SUB-35.
func TestAVanishedClientIsNoticedBySilence(t *testing.T) {
	for name, hijack := range map[string]bool{"shard": true, "handler": false} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory()
			n := startNode(t, func(o *Options) {
				o.Directory, o.WriteTimeout, o.Heartbeat = d, 600*time.Millisecond, 200*time.Millisecond
			})
			n.noHijack = !hijack
			healthy := n.subscribe("topic=a")
			n.rawStream("HTTP/1.1", "topic=a&topic=gone", 4<<10)
			eventually(t, "both are listed", func() bool { return len(d.all()) == 2 })
			began := time.Now()
			blob := strings.Repeat("x", 40<<10)
			n.publish("topic", "a", "data", blob)
			healthy.want(blob)
			eventually(t, "the one is gone", func() bool { return n.ended(endStalled) == 1 })
			if took := time.Since(began); took < 500*time.Millisecond {
				t.Errorf("cut after %v, before its time", took)
			}
			eventually(t, "and not listed any more", func() bool { return len(d.all()) == 1 })
			time.Sleep(time.Second) // several heartbeats and time-outs
			n.publish("topic", "a", "data", "still here")
			healthy.want("still here")
			if n.ended(endStalled) != 1 {
				t.Error("a healthy client was cut")
			}
		})
	}
}
