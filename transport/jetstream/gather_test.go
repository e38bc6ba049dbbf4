package jetstream

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestASilentReplicaIsNotCurrent: it is not, whatever the servers say for ten seconds, and it makes no quorum.
func TestASilentReplicaIsNotCurrent(t *testing.T) {
	for name, tt := range map[string]struct {
		leader string
		silent time.Duration // of c
		other  time.Duration // of b
		quorum bool
	}{
		"all are there":      {"a", time.Second, time.Second, true},
		"one is silent":      {"a", peerSilence, time.Second, true},
		"two are silent":     {"a", peerSilence, time.Minute, false},
		"there is no leader": {"", 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := describe(&jetstream.StreamInfo{
				Config: jetstream.StreamConfig{Name: "hub", Replicas: 3},
				Cluster: &jetstream.ClusterInfo{Leader: tt.leader, Replicas: []*jetstream.PeerInfo{
					{Name: "c", Current: true, Active: tt.silent}, {Name: "b", Current: true, Active: tt.other},
				}},
			})
			c := s.Replicas[len(s.Replicas)-1]
			if gone := tt.silent >= peerSilence; c.Name != "c" || c.Offline != gone || c.Current == gone {
				t.Errorf("c is %+v", c)
			}
			if s.Quorum != tt.quorum || s.First != 1 || s.Last != 0 {
				t.Errorf("stream %+v", s)
			}
		})
	}
}
