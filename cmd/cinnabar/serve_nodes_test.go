//go:build unix

package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// laptop is `serve --dev --nodes 3` and what it printed.
type laptop struct {
	*process
	urls   []string
	token  string // classic
	access string // draft-08
	banner string
}

func startLaptop(t *testing.T, dir string) laptop {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "banner"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	p, _ := serveCommand(t, func(c *exec.Cmd) {
		c.Stdout = out
		c.Args = []string{
			"cinnabar", "serve", "--dev", "--nodes=3", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--data-dir=" + dir, "--retry=10ms",
		}
	})
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	l := laptop{process: p, banner: string(b)}
	for _, m := range regexp.MustCompile(`(?m)^  Node [123]  (http://\S+)$`).FindAllStringSubmatch(l.banner, -1) {
		l.urls = append(l.urls, m[1])
	}
	if m := regexp.MustCompile(`(?m)^  Token   (eyJ\S+)$`).FindStringSubmatch(l.banner); m != nil {
		l.token = m[1]
	}
	if m := regexp.MustCompile(`(?m)^  (eyJ\S+)$`).FindStringSubmatch(l.banner); m != nil {
		l.access = m[1]
	}
	if len(l.urls) != 3 || l.token == "" || l.access == "" {
		t.Fatalf("banner %s", l.banner)
	}
	return l
}

func (l *laptop) publish(t *testing.T, node int, data string) string {
	t.Helper()
	p := client.Publisher{URL: l.urls[node-1], Token: l.token}
	id, err := p.Publish(t.Context(), &spec.Update{Topics: []string{"a"}, Data: data})
	if err != nil {
		t.Fatalf("publish at node %d: %v", node, err)
	}
	return id
}

// receive reads one event per data at a node, after the cursor; opened is called when the stream is open.
func (l *laptop) receive(t *testing.T, node int, cursor string, opened func(), data ...string) (last string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptPatience)
	defer cancel()
	var got []string
	s := client.Subscriber{URL: l.urls[node-1], Token: l.token, Topics: []string{"a"}, LastEventID: cursor, OnOpen: func(client.Open) { opened() }}
	err := s.Run(ctx, func(e sse.Event) error {
		got, last = append(got, e.Data), e.ID
		if len(got) == len(data) {
			return client.ErrStop
		}
		return nil
	})
	if err != nil || !slices.Equal(got, data) {
		t.Errorf("node %d brought %q, %v; want %q", node, got, err, data)
	}
	return last
}

// TestThreeNodesOnALaptop publishes at one node and receives at another, and does so again after all were stopped.
func TestThreeNodesOnALaptop(t *testing.T) {
	dir := t.TempDir()
	l := startLaptop(t, dir)
	if subscribe, publish := l.urls[0], l.urls[2]; !strings.Contains(l.banner, "-N '"+subscribe+"?topic=hello'") || !strings.Contains(l.banner, "'"+publish+"'\n") {
		t.Errorf("the lines to paste do not go from one node to another: %s", l.banner)
	}
	id := ""
	if cursor := l.receive(t, 3, "", func() { id = l.publish(t, 1, "first") }, "first"); cursor != id {
		t.Errorf("event id %s, the publisher was told %s", cursor, id)
	}
	draft08 := l // its token is as good at each node
	draft08.token = l.access
	draft08.publish(t, 2, "second")
	draft08.publish(t, 1, "third")
	draft08.receive(t, 3, id, func() {}, "second", "third")
	l.listed(t)
	l.signal(t, syscall.SIGHUP)
	l.await(t, "RELOADING=1")
	l.await(t, "READY=1")
	begin := time.Now()
	l.signal(t, os.Interrupt)
	if code := l.exit(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("took %s to stop, with nobody to hand clients to", took)
	}
	for _, want := range []string{`"node":"node-1"`, `"node":"node-2"`, `"node":"node-3"`} {
		if !strings.Contains(l.log.String(), want) {
			t.Errorf("no line of the log has %s", want)
		}
	}
	if strings.Contains(l.log.String(), l.token) || strings.Contains(l.log.String(), l.access) {
		t.Error("the log tells the token")
	}

	again := startLaptop(t, dir)
	again.token = l.token // what was printed stays valid
	again.receive(t, 2, id, func() { again.publish(t, 3, "fourth") }, "second", "third", "fourth")
}

// listed subscribes at one node and reads the list of subscribers at another: --dev keeps it.
func (l *laptop) listed(t *testing.T) {
	t.Helper()
	const room = "https://example.com/a room"
	ctx, cancel := context.WithTimeout(t.Context(), scriptPatience)
	path := spec.DefaultHubPath + spec.SubscriptionsPath + "/https%3A%2F%2Fexample.com%2Fa%20room"
	var staying sync.WaitGroup
	defer staying.Wait()
	defer cancel()
	events := client.Subscriber{URL: l.urls[1], Token: l.token, Topics: []string{path + "/{subscriber}"}}
	events.OnOpen = func(client.Open) {
		events.OnOpen = nil
		stay := client.Subscriber{URL: l.urls[0], Token: l.token, Topics: []string{room}}
		staying.Go(func() { _ = stay.Run(ctx, func(sse.Event) error { return nil }) }) // until ctx ends
	}
	err := events.Run(ctx, func(sse.Event) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(l.urls[2], spec.DefaultHubPath)+path, http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+l.token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK || strings.Count(string(body), `"active":true`) != 1 || !strings.Contains(string(body), `"topic":"`+room+`"`) {
			t.Errorf("the list of node 3: status %d, %v: %s", res.StatusCode, err, body)
		}
		return client.ErrStop
	})
	if err != nil {
		t.Errorf("events of subscriptions at node 2: %v", err)
	}
}
