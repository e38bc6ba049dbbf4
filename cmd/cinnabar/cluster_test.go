package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/transport"
)

func TestClusterTables(t *testing.T) {
	report := transport.NodeReport{Version: "v1.2.3", Ready: true, Connections: 12}
	draining := transport.NodeReport{Version: "v1.2.3", Draining: true, Connections: 3, Reason: "draining\x1b[2J\nor not"}
	s := app.ClusterState{
		Node: "a",
		Nodes: []app.ClusterNode{
			{Name: "a", Answers: true, NodeReport: report, Follower: "interest", Filters: 7, Position: 99, Lag: 1, SuspectSince: time.Now().Add(-5 * time.Second)},
			{Name: "b", Answers: true, NodeReport: draining, Follower: "all", Position: 100},
			{Name: "c", Seen: time.Now().Add(-time.Minute)},
			{Name: "d"},
		},
		Stream: app.ClusterStream{
			Name: "cinnabar", Leader: "a", First: 51, Last: 100, Updates: 50, Bytes: 3 << 20,
			Replicas: []transport.Replica{
				{Name: "a", Leader: true, Current: true},
				{Name: "b", Lag: 4, Active: 1234567 * time.Nanosecond},
				{Name: "c", Offline: true, Lag: 50, Active: time.Minute},
				{Name: "d", Offline: true},
			},
		},
	}
	for name, tt := range map[string]struct {
		change func()
		want   []string
	}{
		"no quorum": {func() {}, []string{
			"a     v1.2.3   yes        12           interest  7        99        1",
			"b     v1.2.3   draining   3            all       0        100       0",
			"c     -        no answer  -            -         -        -         -",
			"a makes sure that it has lost nothing, since 5s",
			"b is not ready: draining\uFFFD[2J or not",
			"c does not answer; it was last heard of 1m0s ago",
			"d does not answer: it was stopped, or was not there since a started",
			"Stream cinnabar has no quorum: publications wait",
			"50 updates retained, 3.0 MiB, positions 51 to 100",
			"a        leader   0    -",
			"b        behind   4    1ms ago",
			"c        offline  50   1m0s ago",
			"d        offline  0    -",
		}},
		"a stream that is well": {func() { s.Stream.Quorum = true }, []string{"Stream cinnabar takes publications"}},
		"no leader":             {func() { s.Stream.Leader = "" }, []string{"Stream cinnabar has no leader: publications wait", "b        unknown  4    -"}},
		"no stream": {func() { s.Stream.Error = "no answer" }, []string{
			"Stream cinnabar cannot be read: no answer", "Known before:", "c        unknown  50   -", "a     v1.2.3   yes        12           interest  7        99        -",
		}},
		"an empty stream": {func() { s.Stream.Updates = 0 }, []string{"no updates retained, last position 100"}},
	} {
		t.Run(name, func(t *testing.T) {
			stream := s.Stream
			defer func() { s.Stream = stream }()
			tt.change()
			var b bytes.Buffer
			if err := writeCluster(&b, &s); err != nil {
				t.Fatal(err)
			}
			for _, line := range tt.want {
				if !strings.Contains(b.String(), "\n"+line+"\n") {
					t.Errorf("no line %q in\n%s", line, b.String())
				}
			}
		})
	}
}
