//go:build linux

package cluster_test

import (
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// A hub that is alone and is restarted: what the swarm and its judge can see without a cluster.
func TestARestartOfASingleHubLosesNothing(t *testing.T) {
	minutes(t)
	h := child.New(t, "--retry", "300ms")
	h.Start()
	for _, f := range []struct {
		name string
		fail func(*run)
	}{
		{"kill -9 and start", func(*run) { h.Kill(); h.Start() }},
		{"SIGTERM and start", func(*run) { h.Stop(); h.Start() }},
	} {
		row(t, f.name, "standalone", play(t, plan{
			hubs: []string{h.URL}, clients: 30, rate: 500, before: time.Second, fail: f.fail, afterward: time.Second,
		}))
	}
}
