package jetstream

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// TestAHubThatMayNotHearIsTold shows that a follower of interest does not begin where the servers keep live frames
// from it: it would be silent, and nobody would know.
func TestAHubThatMayNotHearIsTold(t *testing.T) {
	o := server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{{Username: "hub", Password: "secret", Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Deny: []string{"cinnabar.live.>"}},
		}}},
	}
	s := &servers{opts: []server.Options{o}, running: make([]*server.Server, 1)}
	t.Cleanup(s.stopAll)
	s.start(t, 0)
	for mode, told := range map[Mode]bool{FollowInterest: true, FollowAll: false} {
		l := openAnywhere(t, Options{Node: string(mode), Follow: mode, Servers: &Servers{URLs: s.urls(0), User: "hub", Password: "secret"}})
		_, err := l.Follow(t.Context(), func(transport.Entry) {})
		if told && (err == nil || !strings.Contains(err.Error(), "cinnabar.live.>")) {
			t.Errorf("follow %s: %v, want an error that names the subject", mode, err)
		}
		if !told && err != nil {
			t.Errorf("follow %s: %v", mode, err)
		}
	}
}
