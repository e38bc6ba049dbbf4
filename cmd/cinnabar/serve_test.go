//go:build unix

package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/client"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

const testKey = "an-hmac-secret-of-more-than-32-bytes"

// process is a hub in a process of its own: this test's binary under another name.
type process struct {
	*exec.Cmd
	notices net.PacketConn
	log     *strings.Builder // complete once the process has been waited for
}

// serveProcess starts `cinnabar serve` with args and returns once it serves, with its URL.
func serveProcess(t *testing.T, args ...string) (p *process, url string) {
	t.Helper()
	return serveCommand(t, func(*exec.Cmd) {}, args...)
}

// serveCommand is serveProcess for a command that change has had its way with.
func serveCommand(t *testing.T, change func(*exec.Cmd), args ...string) (p *process, url string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	var lc net.ListenConfig
	c, err := lc.ListenPacket(t.Context(), "unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p = &process{Cmd: exec.CommandContext(t.Context(), self), notices: c, log: &strings.Builder{}}
	p.Args = append([]string{
		"cinnabar", "serve", "--transport=memory", "--listen=127.0.0.1:0", "--admin-listen=", "--publisher-jwt-key=" + testKey, "--anonymous", "--retry=10ms",
	}, args...)
	p.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket)
	p.Stderr = p.log
	change(p.Cmd)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill() // unless the test has waited for it
		_ = p.Wait()
		if t.Failed() {
			t.Log(p.log)
		}
	})
	_, url, _ = strings.Cut(p.await(t, "READY=1"), "STATUS=")
	return p, url
}

// await waits for a notice of the process.
func (p *process) await(t *testing.T, line string) string {
	t.Helper()
	if err := p.notices.SetReadDeadline(time.Now().Add(scriptPatience)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		n, _, err := p.notices.ReadFrom(buf)
		if err != nil {
			t.Fatalf("waiting for %s: %v", line, err)
		}
		if notice := string(buf[:n]); strings.Contains(notice, line) {
			return notice
		}
	}
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exit waits for the end of the process and returns its exit code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	err := p.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

// open opens a stream by hand and reads its first line, so that the hub knows the subscriber.
func open(t *testing.T, url string) (body *bufio.Reader) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	body = bufio.NewReader(resp.Body)
	if line, err := body.ReadString('\n'); err != nil || line != ":\n" {
		t.Fatalf("stream begins with %q, %v", line, err)
	}
	return body
}

func TestFirstSignalDrains(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(s.String(), func(t *testing.T) {
			p, url := serveProcess(t)
			stream := open(t, url+"?topic=a")
			p.signal(t, s)
			rest, err := io.ReadAll(stream) // an end that is not clean is an error
			if err != nil {
				t.Errorf("the stream ended with %v after %q", err, rest)
			}
			if !strings.Contains(string(rest), "retry: ") {
				t.Errorf("the stream ended without telling when to come back: %q", rest)
			}
			if code := p.exit(t); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			if !strings.Contains(p.log.String(), `"msg":"stopping"`) {
				t.Error("the log does not say why it stopped")
			}
		})
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	for s, want := range map[os.Signal]int{syscall.SIGTERM: 143, os.Interrupt: 130} {
		t.Run(s.String(), func(t *testing.T) {
			p, _ := serveProcess(t, "--drain-delay=1h")
			p.signal(t, syscall.SIGTERM)
			p.await(t, "STOPPING=1")
			p.signal(t, s)
			if code := p.exit(t); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
		})
	}
}

// TestSocketsAreTakenOver hands the hub a socket that is already open, so that connections made before the
// hub runs are served, as a supervisor and systemd do it.
func TestSocketsAreTakenOver(t *testing.T) {
	for name, tt := range map[string]struct {
		listen string
		env    string // for the shell that becomes the hub, whose process id it then has
	}{
		"a descriptor of the parent": {"--listen=fd:3", ""},
		"systemd by name":            {"--listen=systemd", "LISTEN_FDS=1 LISTEN_PID=$$"},
		"systemd by itself":          {"", "LISTEN_FDS=1 LISTEN_PID=$$"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			f, err := l.(*net.TCPListener).File()
			if err != nil {
				t.Fatal(err)
			}
			early, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = early.Close() }()
			bin := t.TempDir()
			_, url := serveCommand(t, func(c *exec.Cmd) {
				// A shell, because LISTEN_PID is the id of the process that takes the sockets.
				if err := os.Symlink(c.Path, filepath.Join(bin, "cinnabar")); err != nil {
					t.Fatal(err)
				}
				c.Args = append([]string{"sh", "-c", tt.env + ` exec "$0" "$@"`, filepath.Join(bin, "cinnabar")}, c.Args[1:]...)
				c.Path = "/bin/sh"
				if tt.listen == "" { // not given at all
					c.Args = slices.DeleteFunc(c.Args, func(arg string) bool { return arg == "" || strings.HasPrefix(arg, "--listen=") })
				}
				c.ExtraFiles = []*os.File{f}
			}, tt.listen)
			_ = f.Close()
			if !strings.Contains(url, l.Addr().String()) {
				t.Errorf("serves %s, want the address %s", url, l.Addr())
			}
			if _, err := io.WriteString(early, "GET /.well-known/mercure?topic=a HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(early).ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
				t.Errorf("the connection made before got %q, %v", line, err)
			}
		})
	}
}

// TestEverySocketOfTheServiceManagerIsServed passes two that are public and two for the admin listener, mixed.
func TestEverySocketOfTheServiceManagerIsServed(t *testing.T) {
	names := []string{"admin", "one", "two", "admin"} // "two" is open to other machines
	var addresses []string
	var files []*os.File
	for _, name := range names {
		at := "127.0.0.1:0"
		if name == "two" {
			at = "0.0.0.0:0"
		}
		l, err := net.Listen("tcp4", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		addresses, files = append(addresses, l.Addr().String()), append(files, f)
	}
	bin := filepath.Join(t.TempDir(), "cinnabar")
	p, url := serveCommand(t, func(c *exec.Cmd) {
		if err := os.Symlink(c.Path, bin); err != nil {
			t.Fatal(err)
		}
		env := "LISTEN_FDS=4 LISTEN_FDNAMES=" + strings.Join(names, ":") + " LISTEN_PID=$$"
		c.Args = append([]string{"sh", "-c", env + ` exec "$0" "$@"`, bin}, c.Args[1:]...)
		c.Path, c.ExtraFiles = "/bin/sh", files
	}, "--listen=systemd")
	if !strings.Contains(url, addresses[1]) {
		t.Errorf("serves %s, want the first public socket, %s", url, addresses[1])
	}
	for i, name := range names {
		path := "/.well-known/mercure?topic=a"
		if name == "admin" {
			path = "/livez"
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+strings.Replace(addresses[i], "0.0.0.0", "127.0.0.1", 1)+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("socket %d, %s: %v", i, name, err)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("socket %d, %s: %s", i, name, resp.Status)
		}
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if log := p.log.String(); strings.Count(log, "plain HTTP on ") != 1 || !strings.Contains(log, "plain HTTP on "+addresses[2]) {
		t.Errorf("the log does not warn of %s alone: %s", addresses[2], log)
	}
}

func TestHangupReadsKeysAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(testKey), 0o600); err != nil {
		t.Fatal(err)
	}
	p, url := serveProcess(t, "--publisher-jwt-key=@"+file)
	next := strings.ToUpper(testKey)
	if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGHUP)
	p.await(t, "READY=1") // again, after reloading
	token := strings.TrimSpace(output(t, "token", "mint", "--key", next, "--publish", "*"))
	output(t, "publish", "--hub", url, "--token", token, "--topic", "a")
}

// TestSignalEndsAReload has the key set not answer any more when it is read again.
func TestSignalEndsAReload(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("the system's trust cannot be given in the environment")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	part := func(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
	asked := make(chan struct{}, 8)
	var stuck atomic.Bool
	sets := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if stuck.Load() {
			asked <- struct{}{}
			<-r.Context().Done()
			return
		}
		fmt.Fprintf(w, `{"keys":[{"kty":"EC","crv":"P-256","x":%q,"y":%q}]}`, part(point[1:33]), part(point[33:]))
	}))
	t.Cleanup(sets.Close)
	root := filepath.Join(t.TempDir(), "root.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sets.Certificate().Raw})
	if err := os.WriteFile(root, block, 0o600); err != nil {
		t.Fatal(err)
	}
	p, _ := serveCommand(t, func(c *exec.Cmd) { c.Env = append(c.Env, "SSL_CERT_FILE="+root) },
		"--subscriber-jwks-url="+sets.URL, "--jwks-allow-private")
	stuck.Store(true)
	p.signal(t, syscall.SIGHUP)
	<-asked
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if l := p.log.String(); !strings.Contains(l, "reload failed") || strings.Contains(l, "deadline exceeded") {
		t.Error("the reload was waited for until its own time was over")
	}
}

// output runs a command that must succeed and returns its standard output.
func output(t *testing.T, args ...string) string {
	t.Helper()
	root := newRoot()
	root.SetArgs(args)
	var b strings.Builder
	root.SetOut(&b)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("cinnabar %s: %v", args[0], err)
	}
	return b.String()
}

// TestSubscriberMissesNothingWhileTheHubIsRestarted stops the hub, and kills it, under a subscriber. Every
// update that was acknowledged reaches it once, in order, and no loss is reported.
func TestSubscriberMissesNothingWhileTheHubIsRestarted(t *testing.T) {
	args := []string{"--transport=jetstream", "--data-dir=" + t.TempDir(), "--listen=" + steadyAddress(t)}
	p, hub := serveProcess(t, args...)
	token := strings.TrimSpace(output(t, "token", "mint", "--key", testKey, "--publish", "*"))

	opened, events, ended := make(chan client.Open, 16), make(chan sse.Event, 64), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		s := client.Subscriber{URL: hub, Topics: []string{"a"}, OnOpen: func(o client.Open) { opened <- o }}
		ended <- s.Run(ctx, func(e sse.Event) error { events <- e; return nil })
	}()
	<-opened

	var published []string
	publish := func(n int) {
		t.Helper()
		for range n {
			data := strconv.Itoa(len(published))
			output(t, "publish", "--hub", hub, "--token", token, "--topic", "a", "--data", data)
			published = append(published, data)
		}
	}
	for _, how := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		publish(3)
		p.signal(t, how)
		p.exit(t)
		p, _ = serveProcess(t, args...)
		publish(3) // while the subscriber is still waiting to come back, or not
	}

	var got []string
	for len(got) < len(published) {
		select {
		case e := <-events:
			got = append(got, e.Data)
		case err := <-ended:
			t.Fatalf("the subscriber ended: %v", err)
		case <-time.After(scriptPatience):
			t.Fatalf("got %v of %v", got, published)
		}
	}
	if !slices.Equal(got, published) {
		t.Errorf("got %v, want %v", got, published)
	}
	publish(1)
	if e := <-events; e.Data != published[len(published)-1] {
		t.Errorf("got %q after everything, something came twice", e.Data)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the subscriber ended with %v", err)
	}
	close(opened)
	for o := range opened {
		if o.Lost {
			t.Errorf("a loss was reported: %+v", o)
		}
	}
}
