package load_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/cmd/internal/load"
)

const (
	key = "a secret for tests, of more than 32 bytes"
	// long is the patience of tests with a hub that loses nothing: it is only used up when something is broken.
	long = 2 * time.Minute
)

// startHub runs a whole hub with its log in memory, and returns it as a target.
func startHub(t *testing.T, change func(*app.Config)) load.Target {
	t.Helper()
	cfg := app.Default()
	cfg.Transport, cfg.Listen, cfg.AdminListen, cfg.DrainDelay = "memory", "127.0.0.1:0", "", 0
	cfg.PublisherKey, cfg.SubscriberKey = app.NewSecret(key), app.NewSecret(key)
	change(&cfg)
	hub, err := app.New(cfg, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		t.Fatalf("make a hub: %v", err)
	}
	if err := hub.Start(t.Context()); err != nil {
		t.Fatalf("start a hub: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := hub.Stop(ctx); err != nil {
			t.Errorf("stop the hub: %v", err)
		}
	})
	token, err := auth.Mint(auth.MintOptions{Key: key, Publish: []string{"*"}, Subscribe: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	return load.Target{URL: hub.URL(), PublishToken: token, SubscribeToken: token, Patience: long}
}

func unchanged(*app.Config) {}

// until runs a measurement for longer and longer, until the machine found time to take part in it.
func until(t *testing.T, p load.Publishing, run func(load.Publishing) (*load.Result, error)) *load.Result {
	t.Helper()
	for p.Duration = 200 * time.Millisecond; ; p.Duration *= 4 {
		r, err := run(p)
		if err != nil {
			t.Fatal(err)
		}
		if r.Publishing.Accepted > 0 || p.Duration > time.Minute {
			return r
		}
	}
}

// flawless checks what any run at a hub without faults gives, and that the result can be written.
func flawless(t *testing.T, r *load.Result, subscribers int64) {
	t.Helper()
	if err := r.Faults(); err != nil {
		t.Errorf("at fault: %v", err)
	}
	if r.Interrupted {
		t.Error("interrupted")
	}
	if s := r.Streams; s == nil || s.Opened != subscribers || s.Alive != subscribers {
		t.Errorf("streams %+v", s)
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), r.Mode+" at http") {
		t.Errorf("%v\n%s", err, &table)
	}
	if b, err := json.Marshal(r); err != nil || !bytes.Contains(b, []byte(`"schema":"cinnabar-bench/1"`)) {
		t.Errorf("%v\n%s", err, b)
	}
}

func TestFanoutAtARealHub(t *testing.T) {
	target := startHub(t, unchanged)
	for name, p := range map[string]load.Publishing{
		"flat out":            {Publishers: 3, Size: 200, Window: 8, Warmup: 50 * time.Millisecond},
		"at a rate":           {Publishers: 2, Size: 64, Rate: 200},
		"private, unwindowed": {Publishers: 1, Size: 1000, Private: true, Rate: 50},
	} {
		t.Run(name, func(t *testing.T) {
			r := until(t, p, func(p load.Publishing) (*load.Result, error) {
				return load.RunFanout(t.Context(), target, load.Fanout{Publishing: p, Subscribers: 20})
			})
			flawless(t, r, 20)
			d := r.Deliveries
			if d.Received != 20*r.Publishing.Accepted || d.Foreign != 0 {
				t.Errorf("%d accepted, %d received, %d foreign", r.Publishing.Accepted, d.Received, d.Foreign)
			}
			if l := d.Latency; l == nil || l.P50 <= 0 || l.P50 > l.P90 || l.P90 > l.P99 || l.P99 > l.Max {
				t.Errorf("latency %+v", l)
			}
		})
	}
}

func TestTopicsAtARealHub(t *testing.T) {
	target := startHub(t, unchanged)
	for name, template := range map[string]string{"topics": "", "templates": "https://example.com/c%d/{+path}"} {
		t.Run(name, func(t *testing.T) {
			r := until(t, load.Publishing{Publishers: 2, Size: 100, Window: 10}, func(p load.Publishing) (*load.Result, error) {
				return load.RunTopics(t.Context(), target, load.Topics{Publishing: p, Subscribers: 20, Topics: 10, SelectorTemplate: template})
			})
			flawless(t, r, 20)
			if r.Deliveries.Received != 2*r.Publishing.Accepted {
				t.Errorf("%d accepted, %d received", r.Publishing.Accepted, r.Deliveries.Received)
			}
		})
	}
}

func TestIdleAtARealHub(t *testing.T) {
	target := startHub(t, func(c *app.Config) { c.Heartbeat = 50 * time.Millisecond })
	if runtime.GOOS == "linux" {
		target.Meter.PIDs = []int{os.Getpid()} // the hub is in this process
	}
	for hold := time.Second; ; hold *= 4 {
		r, err := load.RunIdle(t.Context(), target, load.Idle{Subscribers: 30, Topics: 3, Hold: hold})
		if err != nil {
			t.Fatal(err)
		}
		flawless(t, r, 30)
		if m := r.Server; runtime.GOOS == "linux" && (m == nil || m.Error != "" || m.RSSBefore < 1000 || m.RSSAfter < 1000 || m.RSSPerConnection == nil) {
			t.Errorf("server %+v", m)
		}
		if *r.Streams.Heartbeats > 0 {
			return
		}
		if hold > time.Minute {
			t.Fatal("no heartbeats seen")
		}
	}
}

func TestReconnectAtARealHub(t *testing.T) {
	target := startHub(t, unchanged)
	r, err := load.RunReconnect(t.Context(), target, load.Reconnect{Subscribers: 25, Missed: 40, History: 200, Size: 100})
	if err != nil {
		t.Fatal(err)
	}
	flawless(t, r, 25)
	if r.Deliveries.Received != 25*40 || r.Publishing.Accepted != 40 || r.CatchUp.Each == nil || r.CatchUp.All <= 0 {
		t.Errorf("deliveries %+v, publishing %+v, catch-up %+v", r.Deliveries, r.Publishing, r.CatchUp)
	}
}

func TestPublishAtARealHub(t *testing.T) {
	target := startHub(t, unchanged)
	r := until(t, load.Publishing{Publishers: 2, Size: 64}, func(p load.Publishing) (*load.Result, error) {
		return load.RunPublish(t.Context(), target, load.Publish{Publishing: p, Topics: 3})
	})
	if err := r.Faults(); err != nil || r.Publishing.Latency == nil || r.Streams != nil {
		t.Errorf("%v, %+v", err, r.Publishing)
	}
}

func TestOverTLS(t *testing.T) {
	cert, certKey := certificate(t)
	target := startHub(t, func(c *app.Config) { c.TLSCert, c.TLSKey = cert, certKey })
	o := load.Reconnect{Subscribers: 5, Missed: 3, Size: 100}
	if r, err := load.RunReconnect(t.Context(), target, o); err == nil {
		t.Fatalf("an unknown certificate was accepted: %+v", r)
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	target.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	r, err := load.RunReconnect(t.Context(), target, o)
	if err != nil {
		t.Fatal(err)
	}
	flawless(t, r, 5)
}
