package jetstream

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

// TestANodeWhosePortIsTakenIsTold shows that a node does not wait for others who could never reach it.
func TestANodeWhosePortIsTakenIsTold(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = Open(ctx, Options{
		Dir: t.TempDir(), Node: "a", Logger: testLogger(t, "a"),
		Cluster: &Cluster{Listen: taken.Addr().String(), Peers: []string{"127.0.0.1:1", "127.0.0.1:2"}, Secret: "a secret of the nodes"},
	})
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("opened with %v, want an error that says that the address is in use", err)
	}
}
