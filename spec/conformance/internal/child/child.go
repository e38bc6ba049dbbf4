// Package child runs the real hub as a process of its own, for tests that kill it, fill its sockets or
// judge it with somebody else's clients.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// Key is the HMAC secret of both roles of a hub started here.
const Key = "a secret for tests alone, of 40 bytes ..."

// startLimit is how long a hub may take to start, on a machine that is busy with other tests.
const startLimit = 60 * time.Second

// dir is the folder that holds what was built, made when it is first needed.
var dir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "cinnabar-test-") })

var (
	buildMu sync.Mutex
	built   = map[string]string{} // binary by package, guarded by buildMu
)

// Main runs a package's tests and removes the binary that they built: TestMain calls it.
func Main(m *testing.M) int {
	code := m.Run()
	buildMu.Lock()
	defer buildMu.Unlock()
	if len(built) > 0 {
		if d, err := dir(); err == nil {
			_ = os.RemoveAll(d)
		}
	}
	return code
}

// Binary builds cmd/cinnabar once per test process and returns its path.
func Binary(t testing.TB) string {
	t.Helper()
	return Build(t, "github.com/cinnabar-hub/cinnabar/cmd/cinnabar")
}

// Build builds a command once per test process, from this module or one that it requires, and returns its path.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	buildMu.Lock()
	defer buildMu.Unlock()
	if file, ok := built[pkg]; ok {
		return file
	}
	d, err := dir()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(d, fmt.Sprint(len(built)), path.Base(pkg))
	if runtime.GOOS == "windows" {
		file += ".exe"
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "build", "-o", file, pkg) //nolint:gosec // built once for all tests of a package
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	built[pkg] = file
	return file
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
	*Process

	URL   string // hub URL
	Admin string // URL of the admin listener
	Dir   string // data directory
}

// New describes a hub on free ports with a data directory of its own; args are further flags of serve.
func New(t testing.TB, args ...string) *Hub {
	t.Helper()
	public, admin := FreePort(t, "127.0.0.1"), FreePort(t, "127.0.0.1")
	h := &Hub{
		URL: "http://" + public + spec.DefaultHubPath, Admin: "http://" + admin, Dir: filepath.Join(t.TempDir(), "data"),
	}
	h.Process = NewProcess(t, "the hub", Binary(t), append([]string{
		"serve", "--listen", public, "--admin-listen", admin, "--data-dir", h.Dir, "--log-format", "text",
		"--publisher-jwt-key", Key, "--subscriber-jwt-key", Key,
	}, args...)...)
	return h
}

// Start starts the hub, or starts it again, and waits until it serves.
func (h *Hub) Start() {
	h.tb.Helper()
	h.Spawn()
	h.Await()
}

// Await waits until a hub that was spawned, or that was not ready, is ready.
func (h *Hub) Await() {
	h.tb.Helper()
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

// Token returns a token that may publish and receive everything.
func Token(t testing.TB) string {
	t.Helper()
	return TokenOf(t, "")
}

// TokenOf is Token with a subject.
func TokenOf(t testing.TB, subject string) string {
	t.Helper()
	all := []string{spec.Wildcard}
	claims := jwt.MapClaims{spec.ClaimMercure: map[string]any{"publish": all, "subscribe": all}}
	if subject != "" {
		claims["sub"] = subject
	}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(Key))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// What a hub is started with to take tokens of draft-08, and whose they are.
const (
	issuer    = "https://issuer.example"
	resource  = "https://hub.example/.well-known/mercure"
	issuerKey = "another secret for tests alone, of 48 bytes ....."
	tokenLife = time.Hour
)

// Draft08 are the flags of serve for a hub that takes tokens of draft-08 as well.
func Draft08() []string {
	return []string{"--issuer", issuer, "--issuer-jwt-key", issuerKey, "--resource-identifier", resource}
}

// Draft08Token returns a token of draft-08 that may publish to the topics and receive private updates of them; a topic
// may be *. None grants nothing.
func Draft08Token(t testing.TB, topics ...string) string {
	t.Helper()
	claims := jwt.MapClaims{"iss": issuer, "aud": resource, "exp": time.Now().Add(tokenLife).Unix(), "sub": "test"}
	if len(topics) > 0 {
		matchers := make([]map[string]any, len(topics))
		for i, topic := range topics {
			matchers[i] = map[string]any{"match": topic}
		}
		claims["authorization_details"] = []any{map[string]any{
			"type": spec.AuthorizationDetailType, "actions": []string{"publish", "subscribe"}, "topics": matchers,
		}}
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
	token.Header["typ"] = spec.TokenTypeDraft08
	signed, err := token.SignedString([]byte(issuerKey))
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
