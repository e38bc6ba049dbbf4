package app_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
	"github.com/cinnabar-hub/cinnabar/spec/conformance"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

const clusterPatience = 2 * time.Minute // of a test, on a machine with better things to do

// given are the ports that freePorts has returned.
var given sync.Map

// freePorts gives addresses of the loopback that nobody listens on, and that it has not given before. Their ports lie below
// those that the system gives to connections and to listeners without a port of their own, or one of these could have
// them before they are used.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var free []string
	for range 1000 {
		if len(free) == n {
			return free
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
		free = append(free, l.Addr().String())
	}
	t.Fatal("no free port")
	return nil
}

// starting is a node whose Start is under way.
type starting struct {
	*app.App
	lines   func() string
	listen  string // as configured: Addr and AdminAddr are there once Start has returned
	admin   string
	started chan error
}

// startNode starts node i, from 0, of the cluster of peers.
func startNode(t *testing.T, i int, peers []string, dir string, args ...string) *starting {
	t.Helper()
	ports := freePorts(t, 2)
	for _, p := range slices.Delete(slices.Clone(peers), i, i+1) {
		args = append(args, "--cluster-peer="+p)
	}
	s, _, err := load(t, "", nil, append([]string{
		"--listen=" + ports[0], "--admin-listen=" + ports[1], "--data-dir=" + filepath.Join(dir, strconv.Itoa(i)), "--retry=10ms",
		"--publisher-jwt-key=" + publisherKey, "--subscriber-jwt-key=" + subscriberKey, "--cors-origin=" + corsOrigin, "--publish-origin=" + publishOrigin,
		"--cluster-listen=" + peers[i], "--cluster-secret=" + secret,
		"--node-name=n" + strconv.Itoa(i), "--drain-delay=0s", "--shutdown-timeout=10s",
	}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	log, lines := logged(t)
	a, err := app.New(s.Config, log)
	if err != nil {
		t.Fatal(err)
	}
	n := &starting{App: a, lines: lines, listen: ports[0], admin: ports[1], started: make(chan error, 1)}
	go func() { n.started <- a.Start(t.Context()) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), clusterPatience)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Errorf("stop node %d: %v", i, err)
		}
	})
	return n
}

func (n *starting) await(t *testing.T) {
	t.Helper()
	select {
	case err := <-n.started:
		if err != nil {
			t.Fatalf("start: %v", err)
		}
	case <-time.After(clusterPatience):
		t.Fatal("not started")
	}
}

func (n *starting) target() conformance.Target {
	private, _ := issuerKey()
	return conformance.Target{
		URL: n.URL(), PublisherKey: publisherKey, SubscriberKey: subscriberKey, AllowOrigin: corsOrigin, PublishOrigin: publishOrigin,
		Issuer: issuer, IssuerKey: private, Resource: resource, Subscriptions: true,
		Wait: 20 * time.Second, // three nodes have to agree on each update, all on this machine
	}
}

func (n *starting) publish(ctx context.Context, t *testing.T, topic, data string) string {
	t.Helper()
	p := client.Publisher{URL: n.URL(), Token: mint(t, publisherKey), HTTP: httpClient(t)}
	id, err := p.Publish(ctx, &spec.Update{Topics: []string{topic}, Data: data})
	if err != nil {
		t.Errorf("publish %s: %v", data, err)
	}
	return id
}

// collect reads n events of topic after the cursor and ends the stream.
func (n *starting) collect(ctx context.Context, t *testing.T, topic, cursor string, count int, opened func()) []sse.Event {
	t.Helper()
	var got []sse.Event
	s := client.Subscriber{URL: n.URL(), Token: mint(t, subscriberKey), Topics: []string{topic}, LastEventID: cursor, HTTP: httpClient(t)}
	s.OnOpen = func(client.Open) { opened() }
	err := s.Run(ctx, func(e sse.Event) error {
		if got = append(got, e); len(got) == count {
			return client.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Errorf("%d of %d events: %v", len(got), count, err)
	}
	return got
}

func ids(events []sse.Event) []string {
	var s []string
	for _, e := range events {
		s = append(s, e.ID)
	}
	return s
}

// TestThreeNodesAreOneHub starts one node, which waits for the others, and then has them serve as one.
//
// Covers: MAT-19, G-08, G-21, REC-22.
func TestThreeNodesAreOneHub(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*clusterPatience) // the suite alone takes a good part of one, twice as long with the race detector
	defer cancel()
	peers, dir := freePorts(t, 3), t.TempDir()
	_, public := issuerKey()
	args := []string{
		"--shutdown-timeout=4s", "--subscriptions", "--issuer=" + issuer, "--issuer-jwt-key=" + public, "--issuer-jwt-alg=ES256", "--resource-identifier=" + resource,
	}
	nodes := []*starting{startNode(t, 0, peers, dir, args...)}
	waitsForTheOthers(t, nodes[0])
	for i := 1; i < 3; i++ {
		nodes = append(nodes, startNode(t, i, peers, dir, args...))
	}
	for _, n := range nodes {
		n.await(t)
	}
	if !strings.Contains(nodes[0].lines(), "node=n0") {
		t.Error("the log does not name the node")
	}
	t.Run("one order", func(t *testing.T) { oneOrder(ctx, t, nodes) })
	t.Run("a client that hops", func(t *testing.T) { hops(ctx, t, nodes) })
	t.Run("a client that hops between generations", func(t *testing.T) { hopsAcross(ctx, t, nodes) })
	t.Run("conforms", func(t *testing.T) { judge(t, nodes[1].target(), conformance.Cases()) })
	t.Run("one leaves", func(t *testing.T) { leaves(ctx, t, nodes) })
}

// waitsForTheOthers has a node that is the first of three: probes see it, clients do not.
func waitsForTheOthers(t *testing.T, n *starting) {
	t.Helper()
	hc, deadline := httpClient(t), time.Now().Add(clusterPatience)
	for status := 0; status != 200 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		status, _ = get(t, hc, "http://"+n.admin+"/livez") // nothing tells when it has begun
	}
	if status, body := get(t, hc, "http://"+n.admin+"/readyz"); status != 503 || !strings.Contains(body, "starting") {
		t.Errorf("readyz: %d %s, want 503", status, body)
	}
	if c, err := net.Dial("tcp", n.listen); err == nil {
		_ = c.Close()
		t.Error("a node without a log lets clients connect")
	}
	select {
	case err := <-n.started:
		t.Fatalf("a node that is alone has started: %v", err)
	default:
	}
}

// oneOrder publishes at all nodes at the same time; a subscriber of each must see the same sequence.
func oneOrder(ctx context.Context, t *testing.T, nodes []*starting) {
	t.Helper()
	const each = 40
	var subscribers, publishers, open sync.WaitGroup
	seen := make([][]sse.Event, len(nodes))
	open.Add(len(nodes))
	for i, n := range nodes {
		subscribers.Go(func() {
			seen[i] = n.collect(ctx, t, "order", "", each*len(nodes), sync.OnceFunc(open.Done))
		})
	}
	open.Wait()
	for i, n := range nodes {
		publishers.Go(func() {
			for k := range each {
				n.publish(ctx, t, "order", fmt.Sprintf("%d/%d", i, k))
			}
		})
	}
	publishers.Wait()
	subscribers.Wait()
	for i := range nodes {
		if !slices.Equal(ids(seen[i]), ids(seen[0])) {
			t.Errorf("node %d and node 0 tell different sequences:\n%v\n%v", i, ids(seen[i]), ids(seen[0]))
		}
	}
	next := make([]int, len(nodes))
	for _, e := range seen[0] {
		var i, k int
		if _, err := fmt.Sscanf(e.Data, "%d/%d", &i, &k); err != nil || next[i] != k {
			t.Fatalf("%q, want number %d of this publisher", e.Data, next[i])
		}
		next[i]++
	}
}

// hops takes a client from node to node with its cursor while another publishes: nothing may be missing or come twice.
func hops(ctx context.Context, t *testing.T, nodes []*starting) {
	t.Helper()
	const total = 120
	cursor := nodes[0].publish(ctx, t, "hops", "start")
	var publishing sync.WaitGroup
	published := make([]string, total)
	publishing.Go(func() {
		for k := range total {
			published[k] = nodes[k%3].publish(ctx, t, "hops", strconv.Itoa(k)) // acknowledged at one before the next is sent
		}
	})
	var got []sse.Event
	for hop := 0; len(got) < total; hop++ {
		events := nodes[hop%3].collect(ctx, t, "hops", cursor, min(7, total-len(got)), func() {})
		if len(events) == 0 {
			break
		}
		got = append(got, events...)
		cursor = events[len(events)-1].ID
	}
	publishing.Wait()
	for k, e := range got {
		if e.Data != strconv.Itoa(k) {
			t.Fatalf("event %d, of hop %d, has %q and the id %s; the id was to be %s", k, k/7, e.Data, e.ID, published[k])
		}
	}
	if !slices.Equal(ids(got), published) {
		t.Error("the order is right, but some of the ids are of other events, as if they had come late")
	}
}

// leaves stops the last node: its streams end one after the other, and the others go on serving.
//
// Covers: SUB-38.
func leaves(ctx context.Context, t *testing.T, nodes []*starting) {
	t.Helper()
	const streams = 20
	leaving, staying := nodes[2], nodes[0]
	ends := make(chan time.Time, streams)
	var open, all sync.WaitGroup
	open.Add(streams)
	for range streams {
		all.Go(func() {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			s := client.Subscriber{URL: leaving.URL(), Token: mint(t, subscriberKey), Topics: []string{"leaves"}, HTTP: httpClient(t)}
			s.OnOpen = func(client.Open) { open.Done() }
			s.OnRetry = func(cause error, _ time.Duration) {
				if !client.Ended(cause) {
					t.Errorf("a stream ended with %v", cause)
				}
				ends <- time.Now()
				cancel(client.ErrStop) // to another node
			}
			if err := s.Run(ctx, func(sse.Event) error { return nil }); !errors.Is(err, client.ErrStop) {
				t.Error(err)
			}
		})
	}
	open.Wait()
	begin := time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- leaving.Stop(ctx) }()
	const window = 2800 * time.Millisecond // 70 % of its --shutdown-timeout
	early := 0
	for i := range streams {
		switch end := <-ends; {
		case i == 0:
			staying.publish(ctx, t, "leaves", "meanwhile")
		case end.Sub(begin) < window/2:
			early++
		}
	}
	all.Wait()
	if early > streams*3/4 {
		t.Errorf("%d of %d streams ended in the first half of the time", early, streams)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	id := staying.publish(ctx, t, "leaves", "afterwards")
	if e := nodes[1].collect(ctx, t, "leaves", "earliest", 2, func() {}); len(e) != 2 || e[1].ID != id {
		t.Errorf("the other nodes have %v", e)
	}
}

// TestNodeThatWaitsForOthersEndsWhenAsked is called off while it is alone.
func TestNodeThatWaitsForOthersEndsWhenAsked(t *testing.T) {
	peers := freePorts(t, 3)
	s, _, err := load(t, "", nil, append([]string{
		"--listen=127.0.0.1:0", "--admin-listen=", "--data-dir=" + t.TempDir(), "--node-name=n0", "--cluster-listen=" + peers[0],
		"--cluster-peer=" + peers[1], "--cluster-peer=" + peers[2], "--cluster-secret=" + secret,
	}, both[1:]...)...)
	if err != nil {
		t.Fatal(err)
	}
	log, lines := logged(t)
	a, err := app.New(s.Config, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Start(ctx) }()
	deadline := time.Now().Add(clusterPatience)
	for !strings.Contains(lines(), "waiting for the other nodes") && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond) // for what only the log tells
	}
	called, begin := errors.New("called off"), time.Now()
	cancel(called)
	if err := <-ended; !errors.Is(err, called) {
		t.Errorf("error %v, want why it was called off", err)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("took %s to end", took)
	}
}
