//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// servedWith starts `cinnabar` with args and returns the URL of its hub and of each admin listener.
func servedWith(t *testing.T, args ...string) (p *process, url string, admins []string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	p, url = serveCommand(t, func(c *exec.Cmd) { c.Args, c.Stderr = append([]string{"cinnabar"}, args...), log })
	text, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"admin":"(127[^"]+)"`).FindAllSubmatch(text, -1) {
		admins = append(admins, "http://"+string(m[1]))
	}
	t.Cleanup(func() {
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s", text)
		}
	})
	return p, url, admins
}

func stopped(t *testing.T, p *process) {
	t.Helper()
	p.signal(t, os.Interrupt)
	if code := p.exit(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
}

// mustReplay resumes after some of the events and expects all that come after each, once and in order. The last one
// was published when everything was in its place: what was there too much would come before it.
func mustReplay(t *testing.T, url string, want []sse.Event) {
	t.Helper()
	for _, i := range []int{0, 1, 2, 40, 41, len(want) - 2} {
		ctx, cancel := context.WithTimeout(t.Context(), scriptPatience)
		var got []sse.Event
		s := client.Subscriber{URL: url, Topics: []string{"a"}, LastEventID: want[i].ID}
		s.OnOpen = func(o client.Open) {
			if o.Lost {
				t.Errorf("%s: the cursor %s is not valid: %+v", url, want[i].ID, o)
			}
		}
		err := s.Run(ctx, func(e sse.Event) error {
			got = append(got, sse.Event{ID: e.ID, Data: e.Data})
			if e.ID == want[len(want)-1].ID {
				return client.ErrStop
			}
			return nil
		})
		cancel()
		if err != nil || !slices.Equal(got, want[i+1:]) {
			t.Errorf("%s after %s: %v, %d events, want %d", url, want[i].ID, err, len(got), len(want)-i-1)
		}
	}
}

// A hub that is alone becomes a cluster of three, and one that is alone again: a client goes on with its cursor, of
// either kind of id, and is replayed exactly what it has missed, on every node.
func TestAHubMovesIntoAClusterAndBack(t *testing.T) {
	dir, key := t.TempDir(), "--publisher-jwt-key="+testKey
	token := strings.TrimSpace(output(t, "token", "mint", "--key", testKey, "--publish", "*"))
	var want []sse.Event
	publish := func(url string, n int) {
		t.Helper()
		p := client.Publisher{URL: url, Token: token}
		for range n {
			u := &spec.Update{Topics: []string{"a"}, Data: fmt.Sprintf("update %d", len(want))}
			if len(want)%2 == 1 {
				u.ID = fmt.Sprintf("publisher-%d", len(want))
			}
			id, err := p.Publish(t.Context(), u)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, sse.Event{ID: id, Data: u.Data})
		}
	}
	alone := func(data string) (*process, string) {
		p, url, _ := servedWith(t, "serve", "--data-dir="+filepath.Join(dir, data), "--listen=127.0.0.1:0", "--admin-listen=", key, "--anonymous", "--retry=10ms")
		return p, url
	}
	file := func(name string) string { return filepath.Join(dir, name) }

	p, url := alone("one")
	publish(url, 100)
	stopped(t, p)
	output(t, "backup", "--data-dir", file("one"), "--output", file("one.tar"))
	if info, err := os.Stat(file("one.tar")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}

	p, _, admins := servedWith(t, "serve", "--dev", "--nodes=3", "--data-dir="+file("three"), "--listen=127.0.0.1:0",
		"--admin-listen=127.0.0.1:0", key, "--retry=10ms", "--subscriptions=false") // whose events would be updates, too
	if len(admins) != 3 {
		t.Fatalf("%d admin listeners", len(admins))
	}
	urls := nodesOf(t, p)
	output(t, "restore", "--input", file("one.tar"), "--admin", admins[1])
	publish(urls[2], 3)
	for _, url := range urls {
		mustReplay(t, url, want)
	}
	for i, admin := range admins {
		output(t, "export", "--admin", admin, "--output", file(fmt.Sprintf("%d.ndjson", i)), "--after", want[9].ID)
	}
	lines, err := os.ReadFile(file("0.ndjson"))
	if err != nil || strings.Count(string(lines), "\n") != len(want)-10 {
		t.Errorf("%d lines, %v", strings.Count(string(lines), "\n"), err)
	}
	for _, name := range []string{"1.ndjson", "2.ndjson"} {
		if other, err := os.ReadFile(file(name)); err != nil || string(other) != string(lines) {
			t.Errorf("node %s reads something else: %v", name, err)
		}
	}
	output(t, "backup", "--admin", admins[2], "--output", file("three.tar"))
	stopped(t, p)
	if err := failure(t, "backup", "--data-dir", file("three/node-1"), "--output", file("no.tar")); !strings.Contains(err.Error(), `in mode "cluster"`) {
		t.Errorf("a node's directory is saved by itself: %v", err)
	}

	output(t, "restore", "--input", file("three.tar"), "--data-dir", file("again"))
	p, url = alone("again")
	publish(url, 1)
	mustReplay(t, url, want)
	stopped(t, p)
}

// nodesOf returns the hub's URL of each node of a process.
func nodesOf(t *testing.T, p *process) (urls []string) {
	t.Helper()
	f, ok := p.Stderr.(*os.File)
	if !ok {
		t.Fatal("no log")
	}
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"url":"(http[^"]+)"`).FindAllSubmatch(text, -1) {
		urls = append(urls, string(m[1]))
	}
	if len(urls) != 3 {
		t.Fatalf("%d nodes in %s", len(urls), text)
	}
	return urls
}

// failure runs a command that must fail.
func failure(t *testing.T, args ...string) error {
	t.Helper()
	root := newRoot()
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		return err
	}
	t.Errorf("cinnabar %s succeeded", args[0])
	return errors.New("none")
}
