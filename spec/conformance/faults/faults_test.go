// Package faults_test runs the real hub as a process and does to it what happens to hubs: a port that is
// taken, a disk that is full, clients that read nothing, publishers that vanish, kill -9.
package faults_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

func TestMain(m *testing.M) { os.Exit(child.Main(m)) }

// patience is how long to wait for what must come, on a machine that is busy with other tests.
const patience = 60 * time.Second

// refusesToStart starts a hub that must end by itself, with a message that has all these words.
func refusesToStart(t *testing.T, h *child.Hub, words ...string) {
	t.Helper()
	h.Spawn()
	if code := h.Wait(patience); code == 0 {
		t.Errorf("the exit code is 0")
	}
	for _, w := range words {
		if !strings.Contains(h.Log(), w) {
			t.Errorf("the message %q does not say %q", h.Log(), w)
		}
	}
	if strings.Contains(h.Log(), "goroutine ") {
		t.Errorf("the hub panicked: %s", h.Log())
	}
}

func TestAPortThatIsTakenIsSaid(t *testing.T) {
	first := child.New(t)
	first.Start()
	public := strings.TrimPrefix(strings.Split(first.URL, "/.well-known")[0], "http://")
	refusesToStart(t, child.New(t, "--listen", public), public, "in use")
	refusesToStart(t, child.New(t, "--admin-listen", strings.TrimPrefix(first.Admin, "http://")), "in use")
	first.Must("https://example.com/a", "the first one is not disturbed")
}

func TestADataDirectoryThatCannotServeIsSaid(t *testing.T) {
	first := child.New(t)
	first.Start()
	refusesToStart(t, child.New(t, "--data-dir", first.Dir), first.Dir, "in use")
	first.Must("https://example.com/a", "the first one is not disturbed")

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refusesToStart(t, child.New(t, "--data-dir", filepath.Join(file, "data")), filepath.Join(file, "data"))
	t.Run("not writable", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 { // nothing of its own stops the superuser
			if runtime.GOOS != "linux" {
				t.Skip("the superuser may write everywhere")
			}
			dir = "/proc"
		}
		refusesToStart(t, child.New(t, "--data-dir", filepath.Join(dir, "data")), dir)
	})
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	h := child.New(t, "--drain-delay", "10m")
	h.Start()
	h.Subscribe("https://example.com/a")
	h.Signal()
	child.Eventually(t, patience, func() error { // the first signal is being acted on
		if !strings.Contains(h.Log(), "stopping") {
			return fmt.Errorf("the hub does not stop: %s", h.Log())
		}
		return nil
	})
	h.Signal()
	if code := h.Wait(patience); code == 0 {
		t.Errorf("the exit code is 0 for a hub that was cut short")
	}
}

// gauges reads single values from the hub's metrics.
func gauges(t *testing.T, h *child.Hub) map[string]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.Admin+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	values := map[string]float64{}
	for in := bufio.NewScanner(res.Body); in.Scan(); {
		name, value, _ := strings.Cut(in.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = v
		}
	}
	if len(values) == 0 {
		t.Fatal("no metrics")
	}
	return values
}
