//go:build linux

// Package cluster_test runs hubs as processes, several at a time, and does to them what happens to clusters:
// kill -9 of a node, of the stream's leader, of a majority; processes that stand still; cut connections; full
// disks; rolling restarts behind a proxy. Meanwhile a swarm of clients that behave as browsers do listens,
// and afterwards every single delivery is compared with the log.
package cluster_test

import (
	"os"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

func TestMain(m *testing.M) {
	code := child.Main(m)
	printTable()
	os.Exit(code)
}

// patience is how long to wait for what must come, on a machine that is busy with other things.
const patience = 90 * time.Second

// minutes skips a test that starts clusters of processes, unless they were asked for. `make cluster`, which the
// pipeline runs, asks for them, so that `go test ./...` does not do so a second time.
func minutes(t *testing.T) {
	t.Helper()
	if os.Getenv("CINNABAR_CLUSTER") != "1" {
		t.Skip("starts clusters of processes and takes minutes: run `make cluster`, or set CINNABAR_CLUSTER=1")
	}
}
