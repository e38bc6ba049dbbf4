package app_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

// TestNodesThatCannotAllStartLeaveNothingOpen has the second node's port taken. The others would wait for it for ever.
func TestNodesThatCannotAllStartLeaveNothingOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	first := taken.Addr().(*net.TCPAddr).Port - 2 // where node 1 is told to listen, so that node 2 meets the one that is taken
	s, _, err := load(t, "", nil, "--dev", "--nodes=3", "--listen=127.0.0.1:"+strconv.Itoa(first), "--admin-listen=127.0.0.1:0", "--data-dir="+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log, _ := logged(t)
	n, err := app.NewNodes(s.Config, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clusterPatience)
	defer cancel()
	err = n.Start(ctx)
	if err == nil || !strings.Contains(err.Error(), "already in use") || strings.Count(err.Error(), "already in use") != 1 {
		t.Errorf("error %v, want one that names the port", err)
	}
}
