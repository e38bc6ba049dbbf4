//go:build linux

package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// nodes is how many hubs, and how many servers, a world has.
const nodes = 3

// world is three hubs that share one log, and what lies between them.
type world struct {
	mode    string // for the table
	hubs    []*child.Hub
	servers []*child.Process           // NATS servers, where they are not in the hubs
	routes  map[[2]int]*link           // between servers: from, to
	clients map[[2]int]*link           // from hub to server
	process func(i int) *child.Process // that holds server i
}

// commonArgs are the flags of every hub: streams that come back soon, so that a run is short.
func commonArgs(follow string, i int) []string {
	return []string{
		"--node-name", nodeName(i), "--follow", follow, "--retry", "500ms", "--drain-delay", "1s",
		"--shutdown-timeout", "10s", "--trusted-proxy", "127.0.0.1/32", "--log-level", "debug",
	}
}

func nodeName(i int) string { return fmt.Sprint("n", i+1) }

// embedded starts three hubs with a server in each, whose routes are links.
func embedded(t *testing.T, follow string, args ...string) *world {
	t.Helper()
	return embeddedAt(t, follow, func(int) []string { return args })
}

// embeddedAt is embedded with flags that differ from node to node.
func embeddedAt(t *testing.T, follow string, args func(i int) []string) *world {
	t.Helper()
	w := &world{mode: "embedded, " + follow, routes: map[[2]int]*link{}}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret of a cluster for tests\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var listen [nodes]string
	for i := range listen {
		listen[i] = child.FreePort(t, "127.0.0.1")
	}
	for i := range nodes {
		flags := append(commonArgs(follow, i), "--cluster-listen", listen[i], "--cluster-secret", "@"+secret)
		for j := range nodes {
			peer := listen[j]
			if j != i {
				l := newLink(t, listen[j])
				w.routes[[2]int{i, j}] = l
				peer = l.addr
			}
			flags = append(flags, "--cluster-peer", peer)
		}
		w.hubs = append(w.hubs, child.New(t, append(flags, args(i)...)...))
	}
	w.process = func(i int) *child.Process { return w.hubs[i].Process }
	w.start()
	return w
}

// external starts three NATS servers and three hubs that keep their log there; each hub reaches each server by a link.
func external(t *testing.T, follow string) *world {
	t.Helper()
	w := &world{mode: "external, " + follow, clients: map[[2]int]*link{}}
	listen := w.natsServers(t)
	for i := range nodes {
		flags := commonArgs(follow, i)
		for j := range nodes {
			l := newLink(t, listen[j])
			w.clients[[2]int{i, j}] = l
			flags = append(flags, "--nats-url", "nats://"+l.addr)
		}
		w.hubs = append(w.hubs, child.New(t, flags...))
	}
	w.start()
	return w
}

// natsServers starts three NATS servers whose routes are links, and returns where they listen.
func (w *world) natsServers(t *testing.T) (listen [nodes]string) {
	t.Helper()
	w.routes = map[[2]int]*link{}
	var route [nodes]string
	for i := range nodes {
		listen[i], route[i] = child.FreePort(t, "127.0.0.1"), child.FreePort(t, "127.0.0.1")
	}
	for i := range nodes {
		dir := t.TempDir()
		var peers []string
		for j := range nodes {
			if j != i {
				l := newLink(t, route[j])
				w.routes[[2]int{i, j}] = l
				peers = append(peers, "nats-route://"+l.addr)
			}
		}
		config := filepath.Join(dir, "nats.conf")
		text := fmt.Sprintf("server_name: %s\nlisten: %q\njetstream { store_dir: %q, sync_interval: 1s }\ncluster { name: test, listen: %q, no_advertise: true, routes: [%s] }\n",
			serverName(i), listen[i], filepath.Join(dir, "data"), route[i], strings.Join(peers, ", "))
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.servers = append(w.servers, child.NewProcess(t, "NATS server "+serverName(i), child.Build(t, "github.com/nats-io/nats-server/v2"), "-c", config))
	}
	w.process = func(i int) *child.Process { return w.servers[i] }
	for _, s := range w.servers {
		s.Spawn()
	}
	return listen
}

func serverName(i int) string { return fmt.Sprint("s", i+1) }

// start starts all hubs and waits until they are ready.
func (w *world) start() {
	for _, h := range w.hubs {
		h.Spawn()
	}
	w.ready()
}

// ready waits until every hub is ready.
func (w *world) ready() {
	for _, h := range w.hubs {
		h.Await()
	}
}

// urls are the hubs' URLs.
func (w *world) urls() []string {
	var urls []string
	for _, h := range w.hubs {
		urls = append(urls, h.URL)
	}
	return urls
}

// stream is what these tests read of a node's view of the cluster.
type stream struct {
	Error    string
	Quorum   bool
	Leader   string
	Replicas []struct {
		Name             string
		Current, Offline bool
	}
}

// view asks a hub's admin listener for the cluster.
func view(t *testing.T, h *child.Hub) (stream, error) {
	t.Helper()
	var v struct{ Stream stream }
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.Admin+"/cluster", http.NoBody)
	if err != nil {
		return v.Stream, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return v.Stream, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return v.Stream, fmt.Errorf("status %d", res.StatusCode)
	}
	return v.Stream, json.NewDecoder(res.Body).Decode(&v)
}

// leader returns which server leads the stream, once there is a leader and every copy is complete: what a
// run begins with.
func (w *world) leader(t *testing.T) (leader int) {
	t.Helper()
	w.ready()
	child.Eventually(t, patience, func() error {
		s, err := view(t, w.hubs[0])
		if err != nil || s.Error != "" || !s.Quorum {
			return errors.Join(err, fmt.Errorf("the stream: %+v", s))
		}
		if len(s.Replicas) != nodes {
			return fmt.Errorf("%d replicas: %+v", len(s.Replicas), s)
		}
		for _, r := range s.Replicas {
			if !r.Current || r.Offline {
				return fmt.Errorf("replica %s is behind: %+v", r.Name, s)
			}
		}
		for i := range nodes {
			if s.Leader == nodeName(i) || s.Leader == serverName(i) {
				leader = i
				return nil
			}
		}
		return fmt.Errorf("the leader %q is nobody", s.Leader)
	})
	return leader
}

// isolate cuts, or heals, the routes between one server and the others, or all routes with -1.
func (w *world) isolate(t *testing.T, server int, heal bool) {
	t.Helper()
	for ends, l := range w.routes {
		if server < 0 || ends[0] == server || ends[1] == server {
			if heal {
				l.heal(t)
			} else {
				l.cut()
			}
		}
	}
}
