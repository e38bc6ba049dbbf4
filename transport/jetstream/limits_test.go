package jetstream

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// limited adapts servers to an account that may store so much.
func limited(t *testing.T, maxFile string) func(int, *server.Options) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "accounts.conf")
	text := `accounts { HUB { jetstream { max_file: ` + maxFile + ` }, users [ { user: hub, password: secret } ] }, SYS {} }
system_account: SYS`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(_ int, o *server.Options) {
		c, err := server.ProcessConfigFile(name)
		if err != nil {
			t.Fatal(err)
		}
		o.Accounts, o.Users, o.SystemAccount = c.Accounts, c.Users, c.SystemAccount
	}
}

// An account that may store no more has no space left for history: publishers are told so at once, and the node
// stays ready for its subscribers.
func TestAnAccountThatIsFullIsFull(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"one server": 1, "three servers": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dirs := make([]string, n)
			for i := range dirs {
				dirs[i] = t.TempDir()
			}
			s := startServers(t, dirs, limited(t, "400000"))
			t.Cleanup(s.stopAll)
			l := openAnywhere(t, Options{
				Servers: &Servers{URLs: s.urls(0), User: "hub", Password: "secret"}, Follow: FollowInterest, NoIDIndex: true,
				PublishTimeout: 5 * time.Second,
			})
			var c collector
			in, err := l.Follow(t.Context(), c.take)
			if err != nil {
				t.Fatal(err)
			}
			u := &spec.Update{Topics: []string{"a"}, Data: strings.Repeat("x", 10_000)}
			if _, err := in.Add(t.Context(), classic("a")); err != nil {
				t.Fatal(err)
			}
			var last transport.Entry
			for range 100 {
				e, appendErr := l.Append(t.Context(), u)
				if err = appendErr; err != nil {
					break
				}
				last = e
			}
			if !errors.Is(err, transport.ErrFull) {
				t.Errorf("append: %v", err)
			}
			c.until(t, last.Pos)
			calm(t, l)
			// to the brim: then even the question for the end of the log is refused for want of space
			for size := 4096; size > 0; {
				m, err := l.nc.Request(l.subjects.updates+"x", make([]byte, size), 10*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := l.readAck(m); err != nil {
					size /= 2
				}
			}
			began := l.Stats().Suspected["probe"]
			time.Sleep(5 * fenceEvery) // nothing announces the fences that are to be refused
			if now := l.Stats().Suspected["probe"]; now != began {
				t.Errorf("suspected %d times", now-began)
			}
			l.interest.mu.Lock()
			l.interest.suspectLocked(reasonLeader)
			l.interest.mu.Unlock()
			l.interest.nudge()
			calm(t, l)
			if from, err := in.Add(t.Context(), classic("b")); err != nil || from < last.Pos {
				t.Errorf("add: %d, %v", from, err)
			}
			if err := l.Ready(t.Context()); err != nil {
				t.Error(err)
			}

			stream, err := l.js.Stream(t.Context(), l.opts.Prefix)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "space", func() bool { e, err := l.Append(t.Context(), u); last = e; return err == nil })
			if _, refusing := l.refusals.pending(); refusing {
				t.Error("publishers are still said to be refused")
			}
			c.until(t, last.Pos)
			if got := c.until(t, add(t, l, named("b")).Pos); got[len(got)-1].Late {
				t.Error("late")
			}
		})
	}
}
