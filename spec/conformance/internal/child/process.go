package child

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a program and how to start it again. It is killed at the end of the test, and its log shown if
// the test failed. Its methods belong to the test's goroutine.
type Process struct {
	name  string // as messages call it
	path  string
	args  []string
	tb    testing.TB
	cmd   *exec.Cmd
	done  chan struct{} // closed when the process has ended; state may be read then
	state *os.ProcessState
	out   lockedBuffer
}

// NewProcess describes a process that is not started yet.
func NewProcess(t testing.TB, name, path string, args ...string) *Process {
	t.Helper()
	p := &Process{name: name, path: path, args: args, tb: t}
	t.Cleanup(func() {
		if p.Running() {
			p.Kill()
		}
		p.keepLog()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", p.name, p.tail())
		}
	})
	return p
}

// Spawn starts the process without waiting for anything.
func (p *Process) Spawn() {
	p.tb.Helper()
	p.cmd = exec.CommandContext(context.Background(), p.path, p.args...) //nolint:forbidigo,gosec // ended by Kill or Stop
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.Env = append(environ(), "GOTRACEBACK=all")
	if err := p.cmd.Start(); err != nil {
		p.tb.Fatalf("start %s: %v", p.name, err)
	}
	done := make(chan struct{})
	p.done = done
	cmd := p.cmd
	go func() {
		_ = cmd.Wait()
		p.state = cmd.ProcessState
		close(done)
	}()
}

// environ is this process's environment without what a hub would take for its configuration.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { //nolint:forbidigo // the child's environment
		return strings.HasPrefix(v, "CINNABAR_") || strings.HasPrefix(v, "MERCURE_")
	})
}

// Running reports whether the process is there.
func (p *Process) Running() bool {
	if p.done == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill ends the process as kill -9 does, and waits for its end.
func (p *Process) Kill() {
	p.tb.Helper()
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Signal sends SIGTERM.
func (p *Process) Signal() {
	p.tb.Helper()
	p.Send(syscall.SIGTERM)
}

// Send sends a signal.
func (p *Process) Send(s os.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.tb.Fatalf("signal %v to %s: %v", s, p.name, err)
	}
}

// Wait waits for the end of the process and returns its exit code.
func (p *Process) Wait(limit time.Duration) int {
	p.tb.Helper()
	select {
	case <-p.done:
		return p.state.ExitCode()
	case <-time.After(limit):
		p.tb.Fatalf("%s has not ended after %v; its log:\n%s", p.name, limit, p.Log())
		return -1
	}
}

// Stop ends the process as SIGTERM does and requires a clean end.
func (p *Process) Stop() {
	p.tb.Helper()
	p.Signal()
	if code := p.Wait(startLimit); code != 0 {
		p.tb.Fatalf("exit code %d; the log of %s:\n%s", code, p.name, p.Log())
	}
}

// keepLog writes the log into the directory that CINNABAR_TEST_LOGS names, if it names one.
func (p *Process) keepLog() {
	dir := os.Getenv("CINNABAR_TEST_LOGS") //nolint:forbidigo // only tests call this
	if dir == "" {
		return
	}
	file := filepath.Join(dir, fmt.Sprintf("%s %d.log", p.name, time.Now().UnixNano()))
	if err := os.WriteFile(file, []byte(p.Log()), 0o600); err != nil { //nolint:gosec // where whoever runs the tests wants it
		p.tb.Errorf("keep the log of %s: %v", p.name, err)
	}
}

// shownLog is how many bytes of a log a failed test shows.
const shownLog = 32 << 10

// tail is the end of the log.
func (p *Process) tail() string {
	all := p.Log()
	if len(all) > shownLog {
		return "…" + all[len(all)-shownLog:]
	}
	return all
}

// Log is everything that the process and its predecessors have written.
func (p *Process) Log() string { return p.out.String() }

// given are the addresses that this process has handed out.
var given sync.Map

// FreePort returns an address of host that was free a moment ago, for a process that needs one that it can have
// again: below the ports that the system gives to outgoing connections, one of which could take it meanwhile.
func FreePort(t testing.TB, host string) string {
	t.Helper()
	var lc net.ListenConfig
	var last error
	for range 100 {
		l, err := lc.Listen(t.Context(), "tcp", net.JoinHostPort(host, strconv.Itoa(10_000+rand.IntN(20_000)))) //nolint:gosec // no secret
		if err != nil {
			last = err
			continue
		}
		_ = l.Close()
		if _, again := given.LoadOrStore(l.Addr().String(), true); again {
			continue // whoever has it may not have begun to listen
		}
		return l.Addr().String()
	}
	t.Fatalf("no free port: %v", last)
	return ""
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
