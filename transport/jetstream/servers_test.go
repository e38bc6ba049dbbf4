package jetstream

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
	_ "unsafe" // for linkname

	"github.com/nats-io/nats-server/v2/server"
)

// The election timers of nats-server are no options. Here they are as short as in its own tests, or a test of a
// leader that dies would wait for ten seconds.

//go:linkname minElectionTimeout github.com/nats-io/nats-server/v2/server.minElectionTimeout
var minElectionTimeout time.Duration

//go:linkname maxElectionTimeout github.com/nats-io/nats-server/v2/server.maxElectionTimeout
var maxElectionTimeout time.Duration

//go:linkname hbInterval github.com/nats-io/nats-server/v2/server.hbInterval
var hbInterval time.Duration

//go:linkname lostQuorumInterval github.com/nats-io/nats-server/v2/server.lostQuorumInterval
var lostQuorumInterval time.Duration

//go:linkname lostQuorumCheck github.com/nats-io/nats-server/v2/server.lostQuorumCheck
var lostQuorumCheck time.Duration

// hurry shortens the timers. Called before the first server starts.
func hurry() {
	minElectionTimeout, maxElectionTimeout = 750*time.Millisecond, 2500*time.Millisecond
	hbInterval, lostQuorumInterval, lostQuorumCheck = 50*time.Millisecond, 2*time.Second, 200*time.Millisecond
}

// servers are nats-servers with JetStream in this process, as somebody else would run them.
type servers struct {
	opts    []server.Options
	running []*server.Server // nil where one was stopped
}

// newServers runs n servers, in a cluster if they are several, until the test ends.
func newServers(t testing.TB, n int) *servers {
	t.Helper()
	dirs := make([]string, n)
	for i := range dirs {
		dirs[i] = t.TempDir()
	}
	s := startServers(t, dirs)
	t.Cleanup(s.stopAll)
	return s
}

// startServers runs a server on each directory, with options that each of adapt has changed.
func startServers(t testing.TB, dirs []string, adapt ...func(i int, o *server.Options)) *servers {
	t.Helper()
	s := &servers{running: make([]*server.Server, len(dirs))}
	ports := freePorts(t, len(dirs))
	for i, dir := range dirs {
		o := server.Options{
			ServerName: fmt.Sprintf("s%d", i+1), Host: "127.0.0.1", Port: server.RANDOM_PORT,
			NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir, SyncInterval: time.Second,
		}
		if len(dirs) > 1 {
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: ports[i]}
			for _, port := range ports {
				o.Routes = append(o.Routes, server.RoutesFromStr(fmt.Sprintf("nats://127.0.0.1:%d", port))...)
			}
		}
		for _, f := range adapt {
			f(i, &o)
		}
		s.opts = append(s.opts, o)
	}
	for i := range dirs {
		s.start(t, i)
	}
	return s
}

// start runs server i, on the port that it had before.
func (s *servers) start(t testing.TB, i int) {
	t.Helper()
	o := s.opts[i]
	srv, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(20 * time.Second) {
		t.Fatalf("server %d is not ready", i)
	}
	s.opts[i].Port = srv.Addr().(*net.TCPAddr).Port
	s.running[i] = srv
}

// stop ends server i politely.
func (s *servers) stop(i int) {
	if srv := s.running[i]; srv != nil {
		s.running[i] = nil
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

func (s *servers) stopAll() {
	for i := range s.running {
		s.stop(i)
	}
}

// urls are where clients connect, the one of server first before the others.
func (s *servers) urls(first int) []string {
	urls := make([]string, 0, len(s.opts))
	for i := range s.opts {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", s.opts[(first+i)%len(s.opts)].Port))
	}
	return urls
}

// leader returns which server leads the stream, -1 for none.
func (s *servers) leader(stream string) int {
	for i, srv := range s.running {
		if srv != nil && srv.JetStreamIsStreamLeader(account, stream) {
			return i
		}
	}
	return -1
}

// shared is one cluster of three for all tests that do not harm it.
var shared struct {
	sync.Mutex // guards below
	*servers
	dir  string
	logs int
}

// sharedServers returns a cluster of three that lives as long as the test binary, and a prefix of the caller's own.
func sharedServers(t testing.TB) (s *servers, prefix string) {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.servers == nil {
		var err error
		if shared.dir, err = os.MkdirTemp("", "cinnabar-servers"); err != nil { //nolint:usetesting // outlives the test
			t.Fatal(err)
		}
		dirs := make([]string, 3)
		for i := range dirs {
			dirs[i] = filepath.Join(shared.dir, strconv.Itoa(i))
		}
		shared.servers = startServers(t, dirs)
	}
	shared.logs++
	return shared.servers, fmt.Sprintf("hub%d", shared.logs)
}

// stopShared is called when all tests have run.
func stopShared() {
	shared.Lock()
	defer shared.Unlock()
	if shared.servers != nil {
		shared.stopAll()
		_ = os.RemoveAll(shared.dir) // in the system's directory of what may be removed
	}
}

// openExternal opens a log on servers. It follows all unless o says otherwise.
func openExternal(t testing.TB, s *servers, o Options) *Log {
	t.Helper()
	o.Servers = &Servers{URLs: s.urls(0)}
	o.Follow = orElse(o.Follow, FollowAll)
	return openAnywhere(t, o)
}

// openCluster opens n logs, each the node of an embedded cluster, named n1, n2 and so on. They follow all unless
// o says otherwise.
func openCluster(t testing.TB, n int, o Options) []*Log {
	t.Helper()
	return openNodes(t, clusterOptions(t, n, o))
}

// openNodes opens logs that wait for each other.
func openNodes(t testing.TB, options []Options) []*Log {
	t.Helper()
	logs := make([]*Log, len(options))
	errs := make([]error, len(options))
	var wg sync.WaitGroup
	for i := range logs {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			logs[i], errs[i] = Open(ctx, options[i])
		})
	}
	wg.Wait()
	for _, l := range logs {
		if l != nil {
			closeAtEnd(t, l)
		}
	}
	for i, err := range errs {
		if err != nil {
			t.Fatalf("node %d: %v", i+1, err)
		}
	}
	return logs
}

// clusterOptions makes the options of n nodes.
func clusterOptions(t testing.TB, n int, o Options) []Options {
	t.Helper()
	ports := freePorts(t, n)
	var peers []string
	for _, port := range ports {
		peers = append(peers, fmt.Sprintf("127.0.0.1:%d", port))
	}
	all := make([]Options, n)
	for i := range all {
		all[i] = o
		all[i].Dir = t.TempDir()
		all[i].Node = fmt.Sprintf("n%d", i+1)
		all[i].Cluster = &Cluster{Listen: peers[i], Peers: peers, Secret: "a secret of all"}
		all[i].Follow = orElse(o.Follow, FollowAll)
		all[i].PublishTimeout = orElse(o.PublishTimeout, busyTimeout)
		all[i].Logger = testLogger(t, all[i].Node)
	}
	return all
}

// busyTimeout is how long publishers of the tests are patient: several servers share a machine that may be busy with
// other things, too.
const busyTimeout = 25 * time.Second

// openAnywhere is open for a log that others have part in.
func openAnywhere(t testing.TB, o Options) *Log {
	t.Helper()
	o.Logger = testLogger(t, o.Node)
	o.PublishTimeout = orElse(o.PublishTimeout, busyTimeout)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	l, err := Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, l)
	return l
}

func closeAtEnd(t testing.TB, l *Log) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// testLogger logs to the test until it ends: servers may say a last word later.
func testLogger(t testing.TB, node string) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})).With("node", node)
}

// given are the ports that freePorts has returned.
var given sync.Map

// freePorts returns n ports of this machine that nobody listens on, and that it has not returned before. They lie below
// those that the system gives to connections and to listeners without a port of their own, or one of these could have
// them before they are used.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	ports := make([]int, 0, n)
	for range 1000 {
		if len(ports) == n {
			return ports
		}
		port := 20000 + rand.N(12000)
		if _, twice := given.LoadOrStore(port, true); twice {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = l.Close()
		ports = append(ports, port)
	}
	t.Fatal("no free port")
	return nil
}
