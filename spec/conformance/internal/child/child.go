// Package child runs the real hub as a process of its own, for tests that kill it, fill its sockets or
// judge it with somebody else's clients.
package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// Key is the HMAC secret of both roles of a hub started here.
const Key = "a secret for tests alone, of 40 bytes ..."

// startLimit is how long a hub may take to start, on a machine that is busy with other tests.
const startLimit = 30 * time.Second

var built atomic.Pointer[string] // the folder that holds the binary, once it is there

var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "cinnabar-test-")
	if err != nil {
		return "", err
	}
	built.Store(&dir)
	path := filepath.Join(dir, "cinnabar")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", path, "github.com/cinnabar-hub/cinnabar/cmd/cinnabar") //nolint:forbidigo,gosec // built once for all tests of a package
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// Main runs a package's tests and removes the binary that they built: TestMain calls it.
func Main(m *testing.M) int {
	code := m.Run()
	if dir := built.Load(); dir != nil {
		_ = os.RemoveAll(*dir)
	}
	return code
}

// Binary builds cmd/cinnabar once per test process and returns its path.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Require skips the test, or fails it where everything has to be there (CI=true or
// CINNABAR_REQUIRE_CLIENTS=1), unless one of the programs is installed. It returns the first that is.
func Require(t testing.TB, programs ...string) string {
	t.Helper()
	for _, p := range programs {
		if path, err := exec.LookPath(p); err == nil {
			return path
		}
	}
	Missing(t, "none of %s is installed", strings.Join(programs, ", "))
	return ""
}

// Missing skips or fails the test like Require.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" || os.Getenv("CINNABAR_REQUIRE_CLIENTS") == "1" { //nolint:forbidigo // only tests call this
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Hub is a hub and how to start it again. Its methods belong to the test's goroutine, Publish apart.
type Hub struct {
	URL   string // hub URL
	Admin string // URL of the admin listener
	Dir   string // data directory
	args  []string
	tb    testing.TB
	cmd   *exec.Cmd
	done  chan struct{} // closed when the process has ended; state may be read then
	state *os.ProcessState
	out   lockedBuffer
}

// New describes a hub on free ports with a data directory of its own; args are further flags of serve.
func New(t testing.TB, args ...string) *Hub {
	t.Helper()
	public, admin := freePort(t), freePort(t)
	h := &Hub{
		URL: "http://" + public + spec.DefaultHubPath, Admin: "http://" + admin, Dir: filepath.Join(t.TempDir(), "data"), tb: t,
	}
	h.args = append([]string{
		"serve", "--listen", public, "--admin-listen", admin, "--data-dir", h.Dir, "--log-format", "text",
		"--publisher-jwt-key", Key, "--subscriber-jwt-key", Key,
	}, args...)
	t.Cleanup(func() {
		if h.Running() {
			h.Kill()
		}
		if t.Failed() {
			t.Logf("the hub's log:\n%s", h.Log())
		}
	})
	return h
}

// Start starts the hub, or starts it again, and waits until it serves.
func (h *Hub) Start() {
	h.tb.Helper()
	h.Spawn()
	deadline := time.Now().Add(startLimit)
	for time.Now().Before(deadline) && h.Running() {
		if status, err := h.get(h.Admin + "/readyz"); err == nil && status == http.StatusOK {
			return
		}
		select {
		case <-h.done:
		case <-time.After(20 * time.Millisecond):
		}
	}
	h.tb.Fatalf("the hub does not serve; its log:\n%s", h.Log())
}

// Spawn starts the process without waiting for anything.
func (h *Hub) Spawn() {
	h.tb.Helper()
	h.cmd = exec.CommandContext(context.Background(), Binary(h.tb), h.args...) //nolint:forbidigo,gosec // ended by Kill or Stop
	h.cmd.Stdout, h.cmd.Stderr = &h.out, &h.out
	h.cmd.Env = append(os.Environ(), "GOTRACEBACK=all") //nolint:forbidigo // the child's environment
	if err := h.cmd.Start(); err != nil {
		h.tb.Fatalf("start the hub: %v", err)
	}
	done := make(chan struct{})
	h.done = done
	cmd := h.cmd
	go func() {
		_ = cmd.Wait()
		h.state = cmd.ProcessState
		close(done)
	}()
}

// Running reports whether the process is there.
func (h *Hub) Running() bool {
	if h.done == nil {
		return false
	}
	select {
	case <-h.done:
		return false
	default:
		return true
	}
}

// Kill ends the process as kill -9 does, and waits for its end.
func (h *Hub) Kill() {
	h.tb.Helper()
	_ = h.cmd.Process.Kill()
	<-h.done
}

// Signal sends SIGTERM.
func (h *Hub) Signal() {
	h.tb.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		h.tb.Fatalf("SIGTERM: %v", err)
	}
}

// Wait waits for the end of the process and returns its exit code.
func (h *Hub) Wait(limit time.Duration) int {
	h.tb.Helper()
	select {
	case <-h.done:
		return h.state.ExitCode()
	case <-time.After(limit):
		h.tb.Fatalf("the hub has not ended after %v; its log:\n%s", limit, h.Log())
		return -1
	}
}

// Stop ends the process as SIGTERM does and requires a clean end.
func (h *Hub) Stop() {
	h.tb.Helper()
	h.Signal()
	if code := h.Wait(startLimit); code != 0 {
		h.tb.Fatalf("exit code %d; the hub's log:\n%s", code, h.Log())
	}
}

// Log is everything that the process and its predecessors have written.
func (h *Hub) Log() string { return h.out.String() }

// Token returns a token that may publish and receive everything.
func Token(t testing.TB) string {
	t.Helper()
	all := []string{spec.Wildcard}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		spec.ClaimMercure: map[string]any{"publish": all, "subscribe": all},
	}).SignedString([]byte(Key))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// Publish publishes and returns the id; the error says what else happened. It may be called from any goroutine.
func (h *Hub) Publish(ctx context.Context, token string, form url.Values) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", spec.MediaTypeForm)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d: %.200s", res.StatusCode, b)
	}
	return string(b), nil
}

// Must publishes one update to a topic and requires that it works.
func (h *Hub) Must(topic, data string) string {
	h.tb.Helper()
	id, err := h.Publish(h.tb.Context(), Token(h.tb), url.Values{"topic": {topic}, "data": {data}})
	if err != nil {
		h.tb.Fatalf("publish: %v", err)
	}
	return id
}

func (h *Hub) get(address string) (int, error) {
	ctx, cancel := context.WithTimeout(h.tb.Context(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Body.Close()
}

// freePort returns a loopback address that was free a moment ago; the hub needs one that it can have again.
func freePort(t testing.TB) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Eventually calls f until it is nil, and fails the test with its last error if that takes too long.
func Eventually(t testing.TB, limit time.Duration, f func() error) {
	t.Helper()
	err := errors.New("never tried")
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		if err = f(); err == nil {
			return
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatalf("not within %v: %v", limit, err)
}

// lockedBuffer collects a process's output.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
