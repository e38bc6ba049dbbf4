package app_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// order posts to the admin listener and requires a status.
func order(t *testing.T, c *http.Client, url string, want int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != want {
		t.Fatalf("%s: %d %s, want %d", url, resp.StatusCode, body, want)
	}
}

func onlyNode(t *testing.T, c *http.Client, admin string) (transport.Node, transport.Stream) {
	t.Helper()
	status, body := get(t, c, admin+"/cluster")
	var s transport.ClusterState
	if err := json.Unmarshal([]byte(body), &s); status != http.StatusOK || err != nil || len(s.Nodes) != 1 {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return s.Nodes[0], s.Stream
}

// TestAnOperatorDrainsANodeAndTakesItBack: the order comes in at the admin listener and goes through the cluster,
// here one of a single node.
func TestAnOperatorDrainsANodeAndTakesItBack(t *testing.T) {
	keys := []string{"--publisher-jwt-key=" + secret, "--subscriber-jwt-key=" + secret}
	a, _ := start(t, append(keys, "--node-name=one")...)
	hc := httpClient(t)
	admin := "http://" + a.AdminAddr()
	stream := openStream(t, hc, a.URL())
	n, s := onlyNode(t, hc, admin)
	if n.Name != "one" || !n.Answers || !n.Ready || n.Draining || n.Connections != 1 || n.Mode != "standalone" || n.Version == "" ||
		time.Since(n.Started) > time.Hour || !s.Quorum || s.Leader != "one" {
		t.Errorf("node %+v, stream %+v", n, s)
	}
	if _, body := get(t, hc, admin+"/metrics"); !strings.Contains(body, `node="one"`) || !strings.Contains(body, "\ncinnabar_peers 0\n") {
		t.Error("metrics do not name the node")
	}

	order(t, hc, admin+"/cluster/nodes/two/drain", http.StatusNotFound)
	order(t, hc, admin+"/cluster/nodes/one/drain", http.StatusAccepted)
	order(t, hc, admin+"/cluster/nodes/one/drain", http.StatusAccepted) // once more changes nothing
	if _, err := io.ReadAll(stream); err != nil {                       // until its end
		t.Errorf("the stream did not end as planned: %v", err)
	}
	if n, _ := onlyNode(t, hc, admin); n.Ready || !n.Draining || n.Reason == "" {
		t.Errorf("a drained node: %+v", n)
	}
	if status, _ := get(t, hc, admin+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("readyz %d", status)
	}
	p := client.Publisher{URL: a.URL(), Token: mint(t, secret), HTTP: hc}
	if _, err := p.Publish(t.Context(), &spec.Update{Topics: []string{"a"}, Data: "one"}); err != nil {
		t.Errorf("a drained node takes publications: %v", err)
	}

	order(t, hc, admin+"/cluster/nodes/one/undrain", http.StatusAccepted)
	order(t, hc, admin+"/cluster/nodes/one/undrain", http.StatusAccepted)
	if n, _ := onlyNode(t, hc, admin); !n.Ready || n.Draining || n.Counts.Appends != 1 {
		t.Errorf("a node taken back: %+v", n)
	}
	openStream(t, hc, a.URL())
}

// TestADrainIsTakenBackBeforeItEndsStreams: within the drain delay nobody is hurt.
func TestADrainIsTakenBackBeforeItEndsStreams(t *testing.T) {
	a, _ := start(t, "--publisher-jwt-key="+secret, "--subscriber-jwt-key="+secret, "--node-name=one", "--drain-delay=1h")
	hc := httpClient(t)
	admin := "http://" + a.AdminAddr()
	openStream(t, hc, a.URL())
	order(t, hc, admin+"/cluster/nodes/one/drain", http.StatusAccepted)
	if n, _ := onlyNode(t, hc, admin); n.Ready || !n.Draining || n.Connections != 1 {
		t.Errorf("during the delay: %+v", n)
	}
	openStream(t, hc, a.URL()) // still served
	order(t, hc, admin+"/cluster/nodes/one/undrain", http.StatusAccepted)
	if n, _ := onlyNode(t, hc, admin); !n.Ready || n.Draining || n.Connections != 2 {
		t.Errorf("taken back: %+v", n)
	}
	order(t, hc, admin+"/cluster/nodes/one/drain", http.StatusAccepted) // which the stop calls off
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = a.Stop(ctx) // nor does it wait for a delay of its own
	if status, _ := get(t, hc, admin+"/livez"); status != 0 {
		t.Error("the hub has not stopped")
	}
}

func TestALogInMemoryHasNoCluster(t *testing.T) {
	a, _ := start(t, both...)
	hc := httpClient(t)
	if status, body := get(t, hc, "http://"+a.AdminAddr()+"/cluster"); status != http.StatusNotFound || !strings.Contains(body, "memory") {
		t.Errorf("%d %s", status, body)
	}
	if _, body := get(t, hc, "http://"+a.AdminAddr()+"/metrics"); !strings.Contains(body, `mode="memory"`) {
		t.Error("metrics do not tell the mode")
	}
}

// openStream opens a stream to the topic a and returns what follows its head; it must be served.
func openStream(t *testing.T, c *http.Client, hub string) io.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, hub+"?topic=a", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+mint(t, secret))
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("a stream is refused: %s", resp.Status)
	}
	return resp.Body
}
