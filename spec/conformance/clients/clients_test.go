// Package clients_test judges the hub by what real clients make of it: a browser's EventSource and fetch,
// the npm packages that pages and servers use, and curl. Each of them sees the hub killed and restarted,
// and must have every update once and in order in the end.
package clients_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

func TestMain(m *testing.M) { os.Exit(child.Main(m)) }

// patience is how long to wait for what must come: a page, a reconnection, a package's installation.
const patience = 60 * time.Second

// story publishes twelve updates around a kill -9 and a restart, while seen returns the data that the
// client has got so far, and requires that it ends up with all of them, once and in order.
func story(t *testing.T, h *child.Hub, topic string, seen func() []string) {
	t.Helper()
	var want []string
	publish := func(n int) {
		for range n {
			data := fmt.Sprint("update ", len(want))
			h.Must(topic, data)
			want = append(want, data)
		}
	}
	all := func() error {
		if got := seen(); !slices.Equal(got, want) {
			return fmt.Errorf("the client has got %q, want %q", got, want)
		}
		return nil
	}
	publish(4)
	child.Eventually(t, patience, all)
	h.Kill()
	h.Start()
	publish(4) // the client may be still away, or just back
	child.Eventually(t, patience, all)
	publish(4)
	child.Eventually(t, patience, all)
	if err := all(); err != nil {
		t.Error(err)
	}
}

// lines runs a program until the test ends and collects the lines that it prints.
type lines struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

func run(t *testing.T, name string, args ...string) *lines {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, name, args...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l := &lines{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in := bufio.NewScanner(stdout)
		for in.Scan() {
			l.mu.Lock()
			l.all = append(l.all, in.Text())
			l.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s printed %q and %q", name, l.get(), complaints.String())
		}
	})
	return l
}

func (l *lines) get() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// said is one line of client.mjs.
type said struct {
	What   string `json:"what"`
	ID     string `json:"id"`
	Data   string `json:"data"`
	Cursor string `json:"cursor"`
}

func (l *lines) said(t *testing.T) []said {
	t.Helper()
	var all []said
	for _, line := range l.get() {
		var s said
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("client.mjs printed %q: %v", line, err)
		}
		all = append(all, s)
	}
	return all
}

// messages are the data of the events that a script got.
func (l *lines) messages(t *testing.T) []string {
	t.Helper()
	var data []string
	for _, s := range l.said(t) {
		if s.What == "message" {
			data = append(data, s.Data)
		}
	}
	return data
}
