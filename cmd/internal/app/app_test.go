package app_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// start runs a hub on random ports with args beside, and stops it when the test ends.
func start(t *testing.T, args ...string) (a *app.App, lines func() string) {
	t.Helper()
	a, lines = prepare(t, args...)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a, lines
}

// prepare is start for a hub that is not started yet.
func prepare(t *testing.T, args ...string) (a *app.App, lines func() string) {
	t.Helper()
	args = append([]string{
		"--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--data-dir=" + filepath.Join(t.TempDir(), "data"), "--retry=10ms",
	}, args...)
	s, _, err := load(t, "", nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	log, lines := logged(t)
	a, err = app.New(s.Config, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := a.Stop(context.WithoutCancel(t.Context()))
		if err != nil && !errors.Is(err, context.Canceled) { // by a test that gave up waiting on purpose
			t.Error(err)
		}
	})
	return a, lines
}

func mint(t *testing.T, key string) string {
	t.Helper()
	token, err := auth.Mint(auth.MintOptions{Key: key, Publish: []string{"*"}, Subscribe: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// httpClient makes connections of its own and closes them when the test ends.
func httpClient(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func get(t *testing.T, c *http.Client, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// subscribe opens a stream and returns its events and, once it has ended for good, Run's error.
func subscribe(ctx context.Context, t *testing.T, s *client.Subscriber) (events <-chan sse.Event, end <-chan error) {
	t.Helper()
	got, ended, opened := make(chan sse.Event, 16), make(chan error, 1), make(chan struct{}, 16)
	s.OnOpen = func(client.Open) { opened <- struct{}{} }
	go func() {
		ended <- s.Run(ctx, func(e sse.Event) error { got <- e; return nil })
	}()
	select {
	case <-opened:
	case err := <-ended:
		t.Fatalf("not subscribed: %v", err)
	}
	return got, ended
}

var both = []string{"--transport=memory", "--publisher-jwt-key=" + secret, "--subscriber-jwt-key=" + secret}

func TestHubServesUntilItIsStopped(t *testing.T) {
	a, _ := start(t, both...)
	hc := httpClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1) // the first end of the stream
	sub := &client.Subscriber{URL: a.URL(), Token: mint(t, secret), Topics: []string{"a"}, HTTP: hc}
	sub.OnRetry = func(cause error, _ time.Duration) { ended <- cause; cancel() }
	events, done := subscribe(ctx, t, sub)

	p := client.Publisher{URL: a.URL(), Token: mint(t, secret), HTTP: hc}
	id, err := p.Publish(t.Context(), &spec.Update{Topics: []string{"a"}, Data: "one", Private: true})
	if err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.ID != id || e.Data != "one" {
		t.Errorf("event %+v, want id %s", e, id)
	}
	admin := "http://" + a.AdminAddr()
	if status, body := get(t, hc, admin+"/readyz"); status != 200 {
		t.Errorf("readyz %d %s", status, body)
	}
	if _, body := get(t, hc, admin+"/metrics"); !strings.Contains(body, "\ncinnabar_published_total 1\n") || !strings.Contains(body, "\ncinnabar_transport_appends_total 1\n") {
		t.Errorf("metrics lack the publication:\n%s", body)
	}

	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !client.Ended(err) {
		t.Errorf("the stream ended with %v, want a clean end", err)
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the subscriber ended with %v", err)
	}
	for _, url := range []string{a.URL(), admin + "/livez"} {
		if status, _ := get(t, hc, url); status != 0 {
			t.Errorf("%s still answers %d", url, status)
		}
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Errorf("a second stop: %v", err)
	}
}

func TestWhileDrainingPublishersAreServedAndProbesSeeIt(t *testing.T) {
	a, lines := start(t, append(both, "--drain-delay=1h", "--shutdown-timeout=5s")...)
	hc := httpClient(t)
	stopped := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { stopped <- a.Stop(ctx) }()
	for status := 200; status != 503; { // until the drain has begun
		status, _ = get(t, hc, "http://"+a.AdminAddr()+"/readyz")
	}
	p := client.Publisher{URL: a.URL(), Token: mint(t, secret), HTTP: hc}
	if _, err := p.Publish(t.Context(), &spec.Update{Topics: []string{"a"}}); err != nil {
		t.Errorf("publication during the drain delay: %v", err)
	}
	if status, _ := get(t, hc, "http://"+a.AdminAddr()+"/livez"); status != 200 {
		t.Errorf("livez %d, want 200 until the end", status)
	}
	cancel() // nobody waits any longer
	if err := <-stopped; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !strings.Contains(lines(), "drain_delay=1h") {
		t.Error("the log does not say that it drains")
	}
}

func TestReloadReadsKeyFilesAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	write := func(key string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(secret)
	a, lines := start(t, "--transport=memory", "--publisher-jwt-key=@"+file, "--anonymous")
	publish := func(key string) int {
		t.Helper()
		p := client.Publisher{URL: a.URL(), Token: mint(t, key), HTTP: httpClient(t)}
		_, err := p.Publish(t.Context(), &spec.Update{Topics: []string{"a"}})
		if e, ok := errors.AsType[*client.Error](err); ok {
			return e.Status
		}
		if err != nil {
			t.Fatal(err)
		}
		return 200
	}
	const next = "the-next-secret-that-nobody-may-ever-see"
	if got := publish(next); got != 401 {
		t.Fatalf("status %d before the rotation, want 401", got)
	}
	write(next)
	if err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, o := publish(next), publish(secret); n != 200 || o != 401 {
		t.Errorf("new key %d, old key %d; want 200, 401", n, o)
	}
	write("short")
	if err := a.Reload(t.Context()); err == nil {
		t.Error("a short key was accepted")
	}
	if got := publish(next); got != 200 {
		t.Errorf("status %d after a failed reload, want 200", got)
	}
	if l := lines(); !strings.Contains(l, "msg=reloaded") || !strings.Contains(l, "reload failed") || strings.Contains(l, next) {
		t.Error("the log does not tell of the reloads, or tells the key")
	}
}

func TestStartRefusesAndLeavesNothingOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"public port taken": {[]string{"--listen=" + taken.Addr().String()}, "address already in use"},
		"cluster port taken": {[]string{
			"--transport=jetstream", "--cluster-listen=" + taken.Addr().String(), "--cluster-peer=127.0.0.1:1", "--cluster-secret=a secret of the cluster", "--node-name=n",
		}, "--cluster-listen: listen on " + taken.Addr().String() + ": address already in use"},
		"admin port taken":        {[]string{"--admin-listen=" + taken.Addr().String()}, "--admin-listen: listen on"},
		"no socket from systemd":  {[]string{"--listen=systemd"}, "passed no socket"},
		"no directory for a key":  {[]string{"--dev", "--data-dir=" + file}, "keys of --dev"},
		"issuer's set missing":    {[]string{"--public-url=https://h.example/hub", "--issuer=https://id.example", "--issuer-jwks-url=file://" + file + ".json"}, "issuer https://id.example: "},
		"issuer's set is no set":  {[]string{"--public-url=https://h.example/hub", "--issuer=https://id.example", "--issuer-jwks-url=file://" + file}, "issuer https://id.example: "},
		"key set that is missing": {[]string{"--subscriber-jwt-key=", "--subscriber-jwks-url=file://" + file + ".json"}, "--subscriber-jwks-url"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--data-dir=" + t.TempDir()}, both...)
			s, _, err := load(t, "", nil, append(args, tt.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			log, _ := logged(t)
			a, err := app.New(s.Config, log)
			if err != nil {
				t.Fatal(err)
			}
			if err = a.Start(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			// What was opened is closed again: the same addresses can be listened on.
			for _, addr := range []string{a.Addr(), a.AdminAddr()} {
				if addr == "" {
					continue
				}
				l, err := net.Listen("tcp", addr)
				if err != nil {
					t.Errorf("%s is still open: %v", addr, err)
					continue
				}
				_ = l.Close()
			}
		})
	}
}
