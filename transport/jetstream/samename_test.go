package jetstream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// A second process with a node's name would be the same voter to the others. It does not start, and the cluster goes on.
func TestANodeWhoseNameIsTakenDoesNotStart(t *testing.T) {
	t.Parallel()
	options := clusterOptions(t, 3, Options{})
	logs := openNodes(t, options)
	double := clusterOptions(t, 1, Options{})[0]
	double.Node = options[0].Node
	double.Cluster.Peers = options[0].Cluster.Peers
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := Open(ctx, double)
	if err == nil {
		t.Fatal(errors.Join(errors.New("opened"), l.Close(ctx)))
	}
	if !errors.Is(err, errSameName) {
		t.Errorf("%v; want %v", err, errSameName)
	}
	e := add(t, logs[1], update(1))
	eventually(t, "the node whose name it is to have the update", func() bool {
		pos, err := logs[0].Locate(t.Context(), e.Update.ID)
		return err == nil && pos == e.Pos
	})
	// it is well when it is started again, for its double is gone
	shut(t, logs[0])
	again := openAnywhere(t, options[0])
	add(t, again, update(2))
}

func TestWhatTheServerSaysIsExplained(t *testing.T) {
	for text, want := range map[string]string{
		`127.0.0.1:40374 - rid:19 - Remote server has a duplicate name: "hub-1"`: "--node-name",
		`127.0.0.1:50434 - rid:19 - authentication error - User "cinnabar"`:      "--cluster-secret",
		`127.0.0.1:6321 - rid:13 - Route Error 'Authorization Violation'`:        "--cluster-secret",
		`something else`: "nats-server",
	} {
		if got := meaning(text); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %s in it", text, got, want)
		}
	}
	var r repeats
	if r.again("127.0.0.1:40374 - rid:19 - processRemoteSub Parse Error: 'R a'") || !r.again("127.0.0.1:4 - rid:20 - processRemoteSub Parse Error: 'R b'") {
		t.Error("each line that cannot be parsed is told")
	}
	if r.again("a line") || r.again("another line") {
		t.Error("lines that differ are taken for one")
	}
}
