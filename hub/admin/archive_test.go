package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/hub/admin"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// fakeArchive saves "saved", and then fails with err.
type fakeArchive struct {
	err      error
	long     bool // it saves much more
	restored string
	options  transport.ExportOptions
}

func (a *fakeArchive) write(w io.Writer) error {
	text := "saved"
	if a.long {
		text = strings.Repeat("saved", 1<<18)
	}
	_, err := io.WriteString(w, text)
	return errors.Join(err, a.err)
}

func (a *fakeArchive) Backup(_ context.Context, w io.Writer, _ func(transport.Progress)) (transport.Manifest, error) {
	return transport.Manifest{}, a.write(w)
}

func (a *fakeArchive) Restore(_ context.Context, r io.Reader, _ func(transport.Progress)) (transport.Manifest, error) {
	b, err := io.ReadAll(r)
	a.restored = string(b)
	return transport.Manifest{Prefix: "p"}, errors.Join(err, a.err)
}

func (a *fakeArchive) Export(_ context.Context, w io.Writer, o transport.ExportOptions) (uint64, error) {
	a.options = o
	return 1, a.write(w)
}

// serveArchive serves a on a loopback address.
func serveArchive(t *testing.T, a *fakeArchive) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(admin.Handler(archiveOptions(a)))
	t.Cleanup(s.Close)
	return s
}

func archiveOptions(a *fakeArchive) admin.Options {
	return admin.Options{Archive: func() transport.Archive {
		if a == nil {
			return nil
		}
		return a
	}}
}

func request(t *testing.T, method, url string, body io.Reader, header ...string) (int, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func TestTheLogIsSavedRestoredAndExported(t *testing.T) {
	a := &fakeArchive{}
	s := serveArchive(t, a)
	if status, body, err := request(t, "GET", s.URL+"/backup", http.NoBody); status != 200 || body != "saved" || err != nil {
		t.Errorf("backup: %d %q %v", status, body, err)
	}
	large := strings.Repeat("x", 1<<20)
	status, body, err := request(t, "POST", s.URL+"/restore", strings.NewReader(large))
	var m transport.Manifest
	if err := errors.Join(err, json.Unmarshal([]byte(body), &m)); status != 200 || m.Prefix != "p" || a.restored != large || err != nil {
		t.Errorf("restore: %d %q %v, %d bytes", status, body, err, len(a.restored))
	}
	if status, body, err := request(t, "GET", s.URL+"/export?after=id&topic=a&topic=b%7Bc%7D", http.NoBody); status != 200 || body != "saved" || err != nil {
		t.Errorf("export: %d %q %v", status, body, err)
	}
	if got := fmt.Sprint(a.options); got != "{id [{1 a} {1 b{c}}]}" {
		t.Errorf("exported with %s", got)
	}
	if status, _, _ := request(t, "GET", s.URL+"/export?topic="+strings.Repeat("a", 5000), http.NoBody); status != 400 {
		t.Errorf("a selector that is too long: %d", status)
	}
}

func TestWhatHindersAnArchiveIsTold(t *testing.T) {
	for err, want := range map[error]int{
		transport.ErrBackup: 400, transport.ErrNotEmpty: 409, transport.ErrRestoring: 409, transport.ErrUnknown: 404,
		transport.ErrTrimmed: 410, transport.ErrUnavailable: 503, errors.New("disk"): 500,
	} {
		s := serveArchive(t, &fakeArchive{err: fmt.Errorf("why: %w", err)})
		for _, to := range []string{"GET /backup", "POST /restore", "GET /export"} {
			method, path, _ := strings.Cut(to, " ")
			if status, body, _ := request(t, method, s.URL+path, http.NoBody); status != want || !strings.Contains(body, err.Error()) {
				t.Errorf("%s, %v: %d %q", to, err, status, body)
			}
		}
	}
	if status, _, _ := request(t, "GET", serveArchive(t, nil).URL+"/backup", http.NoBody); status != 503 {
		t.Errorf("before there is a log: %d", status)
	}
}

// Whoever reads a part must not take it for the whole, and finds out why it is none.
func TestAnAnswerThatFailsInTheMiddleIsCut(t *testing.T) {
	var log bytes.Buffer
	o := archiveOptions(&fakeArchive{err: errors.New("disk"), long: true})
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := httptest.NewServer(admin.Handler(o))
	for _, path := range []string{"/backup", "/export"} {
		if status, body, err := request(t, "GET", s.URL+path, http.NoBody); err == nil {
			t.Errorf("%s: %d, %d bytes without an error", path, status, len(body))
		}
	}
	s.Close() // the handlers have ended
	for _, want := range []string{"path=/backup error=disk", "path=/export error=disk"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q: %s", want, &log)
		}
	}
}

func TestPagesOfOtherSitesRestoreNothing(t *testing.T) {
	a := &fakeArchive{}
	s := serveArchive(t, a)
	if status, _, _ := request(t, "POST", s.URL+"/restore", bytes.NewReader([]byte("x")), "Sec-Fetch-Site", "cross-site"); status != 403 || a.restored != "" {
		t.Errorf("status %d, restored %q", status, a.restored)
	}
}

// The metrics of a hub may be read from anywhere, its updates and their key only where it runs.
func TestTheLogIsForThisMachineAlone(t *testing.T) {
	o := admin.Options{Archive: func() transport.Archive { return &fakeArchive{} }}
	tcp := func(s string) net.Addr {
		a, err := net.ResolveTCPAddr("tcp", s)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for name, c := range map[string]struct {
		local  net.Addr
		remote string
		status int
	}{
		"loopback":              {tcp("127.0.0.1:3001"), "127.0.0.1:5000", 200},
		"loopback, IPv6":        {tcp("[::1]:3001"), "[::1]:5000", 200},
		"loopback, mapped":      {tcp("127.0.0.1:3001"), "[::ffff:127.0.0.1]:5000", 200},
		"its own address":       {tcp("10.0.0.7:3001"), "10.0.0.7:5000", 200},
		"its own IPv6 address":  {tcp("[fd00::7]:3001"), "[fd00::7]:5000", 200},
		"a neighbour":           {tcp("10.0.0.7:3001"), "10.0.0.8:5000", 403},
		"a neighbour over IPv6": {tcp("[fd00::7]:3001"), "[fd00::8]:5000", 403},
		"a socket file":         {&net.UnixAddr{Name: "admin.sock", Net: "unix"}, "@", 200},
		"nobody knows":          {nil, "127.0.0.1:5000", 403},
	} {
		for _, to := range []string{"GET /backup", "POST /restore", "GET /export"} {
			method, path, _ := strings.Cut(to, " ")
			r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
			r.RemoteAddr = c.remote
			if c.local != nil {
				r.Host = c.local.String()
			}
			if c.local != nil {
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.local))
			}
			w := httptest.NewRecorder()
			admin.Handler(o).ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("%s from %s: %d, want %d", to, name, w.Code, c.status)
			}
		}
	}
	if w := ask(t, admin.Options{}, "GET", "/backup", nil); w.Code != 403 {
		t.Errorf("without a log, from elsewhere: %d", w.Code)
	}
}

// A page whose name was made to resolve to this machine is of the same origin as the listener; a proxy on this machine
// speaks for others.
func TestTheLogIsNotForPagesAndProxies(t *testing.T) {
	o := admin.Options{Archive: func() transport.Archive { return &fakeArchive{} }}
	for name, c := range map[string]struct {
		host, header, value string
		status              int
	}{
		"under its address":       {"10.0.0.7:3001", "", "", 200},
		"under an IPv6 address":   {"[fd00::7]:3001", "", "", 200},
		"as localhost":            {"localhost:3001", "", "", 200},
		"under a name":            {"evil.example:3001", "", "", 421},
		"under a name alone":      {"evil.example", "", "", 421},
		"from another site":       {"10.0.0.7:3001", "Sec-Fetch-Site", "cross-site", 403},
		"typed into a browser":    {"10.0.0.7:3001", "Sec-Fetch-Site", "none", 200},
		"through a proxy":         {"10.0.0.7:3001", "X-Forwarded-For", "203.0.113.9", 403},
		"through a modern proxy":  {"10.0.0.7:3001", "Forwarded", "for=203.0.113.9", 403},
		"through some other hops": {"10.0.0.7:3001", "Via", "1.1 x", 403},
	} {
		for _, path := range []string{"/backup", "/export"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
			r.RemoteAddr, r.Host = "10.0.0.7:5000", c.host
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 3001}))
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			w := httptest.NewRecorder()
			admin.Handler(o).ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("%s %s: %d, want %d", path, name, w.Code, c.status)
			}
		}
	}
}

func TestTheLogIsReachedThroughASocketFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Skip("no sockets in files here")
	}
	s := httptest.NewUnstartedServer(admin.Handler(admin.Options{Archive: func() transport.Archive { return &fakeArchive{} }}))
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/backup", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}
