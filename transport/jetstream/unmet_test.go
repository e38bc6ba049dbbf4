package jetstream

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// A server that was started while another one is away knows it by a number only.
func TestAReplicaThatWasNotMetIsNoNode(t *testing.T) {
	info := &jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: "cinnabar", Replicas: 3}, Cluster: &jetstream.ClusterInfo{
		Leader: "n1",
		Replicas: []*jetstream.PeerInfo{
			{Name: "n2", Current: true},
			{Name: "Server name unknown at this time (peerID: CzSXzaVO)", Offline: true},
		},
	}}
	s := describe(info)
	if len(s.Replicas) != 3 || s.Replicas[2].Name != "not met: CzSXzaVO" || !s.Quorum {
		t.Errorf("%+v", s)
	}
	c := &control{log: &Log{opts: Options{Cluster: &Cluster{}}}, name: "n1"}
	nodes := c.withSilent(nil, s)
	if len(nodes) != 2 || nodes[0].Name != "n1" || nodes[1].Name != "n2" {
		t.Errorf("%+v", nodes)
	}
}
