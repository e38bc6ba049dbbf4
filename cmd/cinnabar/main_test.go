package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"cinnabar": main}) }

// scriptPatience bounds the wait for a hub of a script to start; it is only reached when something is broken.
const scriptPatience = 2 * time.Minute

// TestScripts runs the stories in testdata/script with the real main. STEADY is an address that hubs can be
// started at again. Beside testscript's own commands there are
//
//	ready           waits until a hub started with & serves, and sets HUB to its URL and ADDR to its address
//	stopping        waits until it has begun to stop
//	exits N CMD …   runs a command that must end with exit code N
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("KEY", "an-hmac-secret-of-more-than-32-bytes")
			e.Setenv("STEADY", steadyAddress(t))
			return listenForNotices(e)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"ready":    cmdReady,
			"stopping": cmdStopping,
			"exits":    cmdExits,
		},
	})
}

// steadyAddress is an address that a hub can be started at again and again: its port is outside the range
// from which systems take the local ports of connections, any of which could have it in between.
func steadyAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := "127.0.0.1:" + strconv.Itoa(20000+rand.IntN(12000))
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port found")
	return ""
}

type noticesKey struct{}

// listenForNotices stands in for the service manager: hubs of the script tell it when they are ready.
func listenForNotices(e *testscript.Env) error {
	path := filepath.Join(e.WorkDir, "notify")
	var lc net.ListenConfig
	c, err := lc.ListenPacket(context.Background(), "unixgram", path)
	if err != nil {
		return nil //nolint:nilerr // a system without such sockets; the scripts that need them say [!unix] skip
	}
	e.Setenv("NOTIFY_SOCKET", path)
	e.Values[noticesKey{}] = c
	e.Defer(func() { _ = c.Close() })
	return nil
}

// await reads notices until one has the given line, and returns it.
func await(ts *testscript.TestScript, line string) string {
	c, ok := ts.Value(noticesKey{}).(net.PacketConn)
	if !ok {
		ts.Fatalf("no notices on this system")
	}
	if err := c.SetReadDeadline(time.Now().Add(scriptPatience)); err != nil {
		ts.Fatalf("%v", err)
	}
	buf := make([]byte, 4096)
	for {
		n, _, err := c.ReadFrom(buf)
		if err != nil {
			ts.Fatalf("waiting for %s: %v", line, err)
		}
		if notice := string(buf[:n]); strings.Contains(notice, line) {
			return notice
		}
	}
}

func cmdReady(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: ready")
	}
	_, url, _ := strings.Cut(await(ts, "READY=1"), "STATUS=")
	_, rest, _ := strings.Cut(url, "://")
	addr, _, _ := strings.Cut(rest, "/")
	ts.Setenv("HUB", url)
	ts.Setenv("ADDR", addr)
}

func cmdStopping(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: stopping")
	}
	await(ts, "STOPPING=1")
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N command [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		got = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
