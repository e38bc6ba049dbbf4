//go:build linux

package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// shipped is the configuration that users get.
const shipped = "../../../docker/nginx.conf"

var upstreamLine = regexp.MustCompile(`(?m)^ +server hub:3000(.*)$`)

// nginx starts Debian's nginx in front of hubs and returns the hub URL behind it: with the shipped
// configuration, or with nothing but proxy_pass, which asks with HTTP/1.0 and buffers.
func nginx(t *testing.T, bare bool, hubs ...string) string {
	t.Helper()
	program := child.Require(t, "nginx")
	addr := child.FreePort(t, "127.0.0.1")
	var servers []string
	for _, h := range hubs {
		servers = append(servers, "    server "+strings.TrimSuffix(strings.TrimPrefix(h, "http://"), spec.DefaultHubPath))
	}
	config := "upstream hub {\n" + strings.Join(servers, ";\n") + ";\n}\nserver {\n    listen " + addr + ";\n    location / {\n        proxy_pass http://hub;\n    }\n}\n"
	if !bare {
		b, err := os.ReadFile(shipped)
		if err != nil {
			t.Fatal(err)
		}
		config = string(b)
		if n := len(upstreamLine.FindAllString(config, -1)); n != 1 || strings.Count(config, "listen 8080;") != 1 {
			t.Fatalf("%s has %d upstream lines, or does not listen on 8080 in one place", shipped, n)
		}
		config = upstreamLine.ReplaceAllString(config, strings.Join(servers, "$1\n")+"$1")
		config = strings.Replace(config, "listen 8080;", "listen "+addr+";", 1)
	}
	dir := t.TempDir()
	user := ""
	if os.Geteuid() == 0 { // nginx would hand its workers to another user, who cannot write here
		user = "user root;\n"
	}
	whole := user + fmt.Sprintf("daemon off;\nworker_processes 2;\npid %[1]s/pid;\nerror_log stderr;\nevents { worker_connections 4096; }\nhttp {\naccess_log off;\n"+
		"client_body_temp_path %[1]s/body;\nproxy_temp_path %[1]s/proxy;\nfastcgi_temp_path %[1]s/fastcgi;\nuwsgi_temp_path %[1]s/uwsgi;\nscgi_temp_path %[1]s/scgi;\n%[2]s}\n", dir, config)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	p := child.NewProcess(t, "nginx", program, "-c", file)
	p.Spawn()
	t.Cleanup(func() { // politely, or its workers stay
		if p.Running() {
			p.Signal()
			p.Wait(patience)
		}
	})
	child.Eventually(t, patience, func() error {
		res, err := http.Get("http://" + addr + "/")
		if err != nil {
			return err
		}
		return res.Body.Close()
	})
	return "http://" + addr + spec.DefaultHubPath
}

// proxies are the two ways to run nginx.
var proxies = []struct {
	name string
	bare bool
}{{"shipped configuration", false}, {"bare proxy_pass", true}}

// An idle stream outlives the proxy's patience because the hub breaks the silence. It really waits longer than
// the 60 s that nginx has by default, with the hub's own heartbeat. Covers: SUB-26.
func TestAnIdleStreamOutlivesTheProxysPatience(t *testing.T) {
	minutes(t)
	t.Parallel()
	h := child.New(t)
	h.Start()
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			through := nginx(t, p.bare, h.URL)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			res := get(ctx, t, through+"?topic=https://example.com/"+fmt.Sprint(p.bare), "")
			defer res.Body.Close()
			begun := time.Now()
			pause(t, 65*time.Second)
			h.Must(fmt.Sprint("https://example.com/", p.bare), "after a minute")
			var got bytes.Buffer
			if err := readUntil(io.TeeReader(res.Body, &got), "data: after a minute\n\n"); err != nil {
				t.Fatalf("after %v: %v", time.Since(begun), err)
			}
			if n := strings.Count(got.String(), "\n:\n"); n < 2 {
				t.Errorf("%d heartbeats in %v: %q", n, time.Since(begun), got.String())
			}
		})
	}
}

// get opens a stream and requires a 200.
func get(ctx context.Context, t *testing.T, address, cursor string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+child.Token(t))
	req.Header.Set("Accept", "text/event-stream")
	if cursor != "" {
		req.Header.Set(spec.HeaderLastEventID, cursor)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s: status %d, %q", address, res.StatusCode, res.Header.Get("Content-Type"))
	}
	return res
}

// readUntil reads until what was read ends with suffix.
func readUntil(r io.Reader, suffix string) error {
	var got []byte
	for one := make([]byte, 1); !bytes.HasSuffix(got, []byte(suffix)); {
		n, err := r.Read(one)
		got = append(got, one[:n]...)
		if err != nil {
			return fmt.Errorf("%w after %q", err, got)
		}
	}
	return nil
}

// The first event is not held back, and the bytes of a stream are those of the hub.
func TestAStreamPassesTheProxyAtOnceAndWhole(t *testing.T) {
	minutes(t)
	h := child.New(t)
	h.Start()
	const topic = "https://example.com/bytes"
	before := h.Must(topic, "before")
	for _, data := range []string{"one", "", "two\nlines", "mixed\r\nends\rhere", "äöü 🐚", strings.Repeat("long ", 50_000), " blank "} {
		h.Must(topic, data)
	}
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			through := nginx(t, p.bare, h.URL)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()

			fresh := get(ctx, t, through+"?topic="+topic, "")
			defer fresh.Body.Close()
			const limit = 5 * time.Second // for a machine that is busy; what is buffered would never come
			begun := time.Now()
			id := h.Must(topic, "last")
			if err := readUntil(fresh.Body, "id: "+id+"\ndata: last\n\n"); err != nil {
				t.Fatal(err)
			}
			took := time.Since(begun)
			t.Logf("the first event took %v", took)
			if took > limit {
				t.Errorf("the first event took %v", took)
			}

			var bodies [2]bytes.Buffer
			for i, hub := range []string{h.URL, through} {
				res := get(ctx, t, hub+"?topic="+topic, before)
				err := readUntil(io.TeeReader(res.Body, &bodies[i]), "id: "+id+"\ndata: last\n\n")
				_ = res.Body.Close()
				if err != nil {
					t.Fatal(err)
				}
			}
			retry := regexp.MustCompile(`(?m)^retry: \d+$`)
			direct, proxied := retry.ReplaceAllString(bodies[0].String(), "retry"), retry.ReplaceAllString(bodies[1].String(), "retry")
			if direct != proxied {
				t.Errorf("%d bytes from the hub, %d through nginx, or others", len(direct), len(proxied))
			}
		})
	}
}
