package jetstream

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/transporttest"
)

// shortLease lets a test wait for the death of a node.
var shortLease = leaseTimes{ttl: 3 * time.Second, refresh: 400 * time.Millisecond, look: 100 * time.Millisecond, tidy: 500 * time.Millisecond}

func TestDirectory(t *testing.T) {
	t.Parallel()
	transporttest.RunDirectory(t, transporttest.Directories{
		Open: func(t *testing.T, _ int) []transport.Transport {
			t.Helper()
			return []transport.Transport{open(t, Options{Dir: t.TempDir(), lease: shortLease})}
		},
	})
}

func TestDirectoryOnExternalServers(t *testing.T) {
	t.Parallel()
	servers := startServers(t, []string{t.TempDir(), t.TempDir(), t.TempDir()}, func(_ int, o *server.Options) {
		o.Cluster.NoAdvertise = true // clients do not learn of a way around the proxies
	})
	t.Cleanup(servers.stopAll)
	hubs := 0
	proxies := map[transport.Transport]*proxy{}
	transporttest.RunDirectory(t, transporttest.Directories{
		Open: func(t *testing.T, n int) []transport.Transport {
			t.Helper()
			hubs++
			prefix := fmt.Sprintf("hub%d", hubs)
			logs := make([]transport.Transport, n)
			for i := range logs {
				target, err := url.Parse(servers.urls(i)[0])
				if err != nil {
					t.Fatal(err)
				}
				p := newProxy(t, func() string { return target.Host })
				l := openAnywhere(t, Options{
					Servers: &Servers{URLs: []string{"nats://" + p.addr()}}, Prefix: prefix, Node: fmt.Sprintf("n%d", i+1),
					Follow: FollowAll, lease: shortLease,
				})
				logs[i] = l
				proxies[l] = p
			}
			return logs
		},
		Lease: shortLease.ttl,
		Kill: func(t *testing.T, tr transport.Transport) {
			t.Helper()
			tr.(*Log).nc.Close()
		},
		Cut: func(t *testing.T, tr transport.Transport) (heal func()) {
			t.Helper()
			p := proxies[tr]
			p.cut()
			return p.heal
		},
	})
}
