package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/hub"
	"github.com/cinnabar-hub/cinnabar/transport/memory"
)

var errCalledOff = errors.New("called off")

// TestStartThatIsCalledOffWaitsForNoKeySet has two key sets that never come. Both are asked for at once.
func TestStartThatIsCalledOffWaitsForNoKeySet(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	cfg := Default()
	cfg.Listen, cfg.AdminListen, cfg.Transport, cfg.JWKSAllowPrivate = "127.0.0.1:0", "", "memory", true
	cfg.PublisherJWKS = "https://" + l.Addr().String() + "/publisher"
	cfg.SubscriberJWKS = "https://" + l.Addr().String() + "/subscriber"
	a, err := New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { ended <- a.Start(ctx) }()
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(5 * time.Second)); err != nil { // less than one fetch may take
		t.Fatal(err)
	}
	for range 2 {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			break
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	cancel(errCalledOff)
	begin := time.Now()
	if err := <-ended; !errors.Is(err, errCalledOff) {
		t.Errorf("error %v, want why it was called off", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %s to give up", took)
	}
}

// heldListener is a listener at an address that need not exist.
type heldListener struct {
	net.Listener
	at net.Addr
}

func (l heldListener) Addr() net.Addr { return l.at }

func TestSocketsAreJudgedByWhatTheyAre(t *testing.T) {
	world := heldListener{at: &net.TCPAddr{IP: net.IPv4zero, Port: 3000}}
	local := heldListener{at: &net.TCPAddr{IP: net.IPv6loopback, Port: 3000}}
	unix := heldListener{at: &net.UnixAddr{Name: "/run/hub.sock", Net: "unix"}}
	for name, tt := range map[string]struct {
		public, admin net.Listener
		dev, secure   bool
		refused       string
		warning       string
	}{
		"this machine":              {local, unix, false, false, "", ""},
		"a Unix socket":             {unix, local, false, false, "", ""},
		"the world":                 {world, local, false, false, "", "plain HTTP on 0.0.0.0:3000"},
		"the world over TLS":        {world, local, false, true, "", ""},
		"admin for the world":       {local, world, false, true, "", "admin listener 0.0.0.0:3000 can be reached"},
		"dev on this machine":       {local, unix, true, false, "", ""},
		"dev for the world":         {world, local, true, true, "0.0.0.0:3000 is not on a loopback address", ""},
		"admin of dev for everyone": {local, world, true, false, "0.0.0.0:3000 is not on a loopback address", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var lines strings.Builder
			a := &App{cfg: Config{Dev: tt.dev}, log: slog.New(slog.NewTextHandler(&lines, nil))}
			if tt.secure {
				a.cert = &certificate{}
			}
			err := a.judge([]net.Listener{tt.public}, []net.Listener{tt.admin})
			if (err != nil) != (tt.refused != "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("error %v, want %q", err, tt.refused)
			}
			if got := lines.String(); (got != "") != (tt.warning != "") || !strings.Contains(got, tt.warning) {
				t.Errorf("log %q, want %q", got, tt.warning)
			}
		})
	}
}

// TestHubThatIsNotReadyServesUnlessTheCallerGaveUp has a hub whose follower never runs.
func TestHubThatIsNotReadyServesUnlessTheCallerGaveUp(t *testing.T) {
	for name, tt := range map[string]struct {
		deadline time.Duration
		want     error
	}{
		"the caller waits longer":  {2 * startPatience, nil},
		"the caller waits shorter": {startPatience / 2, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, err := memory.New(memory.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = log.Close(context.WithoutCancel(t.Context())) }()
				cfg := Default()
				authorizer, err := auth.New(cfg.authOptions())
				if err != nil {
					t.Fatal(err)
				}
				app := &App{log: slog.New(slog.DiscardHandler), failed: make(chan error, 1)}
				h, err := hub.New(cfg.hubOptions(log, authorizer, nil, nil))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				if err := app.awaitReady(ctx, h); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
			})
		})
	}
}
