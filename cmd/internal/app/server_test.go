package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// served runs h behind the public server and returns its base URL.
func served(t *testing.T, cfg *Config, h http.Handler, cert *certificate) string {
	t.Helper()
	l, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(cfg, h, cert, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- serve(s, l, cert != nil) }()
	t.Cleanup(func() {
		if err := shutdown(context.WithoutCancel(t.Context()), s, slog.New(slog.DiscardHandler)); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if cert != nil {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

func TestPublicServerSpeaks(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool := writePair(t, certFile, keyFile, 1)
	cert, err := newCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	cfg := Default()
	proto := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) })
	plain, secure := served(t, &cfg, proto, nil), served(t, &cfg, proto, cert)
	for name, tt := range map[string]struct {
		url  string
		set  func(*http.Protocols)
		want string
	}{
		"HTTP/1.1":               {plain, func(p *http.Protocols) { p.SetHTTP1(true) }, "HTTP/1.1"},
		"HTTP/2 in the clear":    {plain, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }, "HTTP/2.0"},
		"HTTP/1.1 over TLS":      {secure, func(p *http.Protocols) { p.SetHTTP1(true) }, "HTTP/1.1"},
		"HTTP/2 chosen over TLS": {secure, func(p *http.Protocols) { p.SetHTTP1(true); p.SetHTTP2(true) }, "HTTP/2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			var p http.Protocols
			tt.set(&p)
			tr := &http.Transport{Protocols: &p, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
			defer tr.CloseIdleConnections()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tt.url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			if b, err := io.ReadAll(resp.Body); err != nil || string(b) != tt.want {
				t.Errorf("%q, %v; want %s", b, err, tt.want)
			}
		})
	}
}

// TestServersHaveSeveralListeners has each serve two at once, as with two sockets of a service manager.
func TestServersHaveSeveralListeners(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool := writePair(t, certFile, keyFile, 1)
	log := slog.New(slog.DiscardHandler)
	cert, err := newCertificate(certFile, keyFile, log)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Default()
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for name, tt := range map[string]struct {
		server *http.Server
		scheme string
	}{
		"public":          {newServer(&cfg, h, nil, log), "http"},
		"public over TLS": {newServer(&cfg, h, cert, log), "https"},
		"admin":           {newAdminServer(h, log), "http"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &App{log: log, failed: make(chan error, 1)}
			tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
			defer tr.CloseIdleConnections()
			var listeners []net.Listener
			for range 2 {
				l, err := listen(t.Context(), "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				listeners = append(listeners, l)
				a.goServe(tt.server, l, tt.scheme == "https")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for _, l := range listeners {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, tt.scheme+"://"+l.Addr().String(), http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Error(err)
					continue
				}
				_ = resp.Body.Close()
			}
			tr.CloseIdleConnections()
			if err := shutdown(t.Context(), tt.server, log); err != nil {
				t.Error(err)
			}
			a.wg.Wait()
			select {
			case err := <-a.failed:
				t.Error(err)
			default:
			}
		})
	}
}

// TestWhatIsNotDoneInTimeIsCut keeps a stop clean whatever clients do: one asked for nothing, one takes for ever.
func TestWhatIsNotDoneInTimeIsCut(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	l, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	busy, seen := make(chan struct{}), make(chan struct{}, 2)
	s := newAdminServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(busy)
		<-r.Context().Done()
	}), log)
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			seen <- struct{}{}
		}
	}
	done := make(chan error, 1)
	go func() { done <- serve(s, l, false) }()
	for _, sent := range []string{"", "GET / HTTP/1.1\r\nHost: h\r\n\r\n"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		<-seen
	}
	<-busy
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := shutdown(ctx, s, log); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// TestHeadIsBounded covers LIM-13.
func TestHeadIsBounded(t *testing.T) {
	cfg := Default()
	cfg.MaxHead = 16 << 10
	url := served(t, &cfg, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil)
	for _, tt := range []struct{ size, want int }{{15 << 10, 200}, {24 << 10, 431}} {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		// The server may hang up before everything is written; what counts is its answer.
		_, _ = fmt.Fprintf(c, "GET /?q=%s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", strings.Repeat("x", tt.size))
		status := make([]byte, 12)
		if _, err := io.ReadFull(c, status); err != nil || string(status) != fmt.Sprintf("HTTP/1.1 %d", tt.want) {
			t.Errorf("%d bytes: %q, %v; want %d", tt.size, status, err, tt.want)
		}
		_ = c.Close()
	}
}
