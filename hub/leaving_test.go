package hub

import (
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestClientThatLeavesIsForgotten closes connections of a hub that sends nothing, heartbeats neither: what tells of the
// close is the close. A stream that a shard has takes no goroutine to see it.
func TestClientThatLeavesIsForgotten(t *testing.T) {
	const streams, timed = 200, 20
	for name, hijack := range map[string]bool{"shard": true, "handler": false} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, func(o *Options) { o.Heartbeat = 0 })
			n.noHijack = !hijack
			conns := make([]net.Conn, streams)
			for i := range conns {
				conns[i], _, _ = n.rawStream("HTTP/1.1", "topic=a", 0)
			}
			eventually(t, "there", func() bool { return testutil.ToFloat64(n.metrics.Subscribers) == streams })
			if hijack && n.shards.available() {
				eventually(t, "fewer goroutines than streams", func() bool { return runtime.NumGoroutine() < streams })
			}
			var took []time.Duration
			for i, conn := range conns[:timed] {
				began := time.Now()
				_ = conn.Close()
				eventually(t, "gone", func() bool { return n.ended(endClient) == float64(i+1) })
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			t.Logf("a close was noticed after %v; fastest %v, slowest %v", took[timed/2], took[0], took[timed-1])
			if within := took[timed/4]; within >= time.Second { // the others, perhaps, while the machine was busy
				t.Errorf("a quarter of the closes was noticed after %v", within)
			}
			for _, conn := range conns[timed:] {
				_ = conn.Close()
			}
			eventually(t, "all gone", func() bool { return n.ended(endClient) == streams })
			eventually(t, "nobody there", func() bool { return testutil.ToFloat64(n.metrics.Subscribers) == 0 })
		})
	}
}
