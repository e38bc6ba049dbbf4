//go:build unix

package jetstream

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// childServers tells a copy of the test binary to be the node that is frozen.
const childServers = "CINNABAR_TEST_FREEZE_SERVERS"

// TestFrozenNode is the child: it enters ten, and again when it was lost, and says so.
func TestFrozenNode(t *testing.T) {
	urls := os.Getenv(childServers)
	if urls == "" {
		t.Skip("runs as the child of TestANodeThatWasFrozenEntersAgain")
	}
	l, err := Open(t.Context(), Options{Servers: &Servers{URLs: strings.Split(urls, ",")}, Prefix: "hub", Node: "frozen", Follow: FollowAll, lease: shortLease})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	lost := attend(t, l, nil)
	for round := 0; ; round++ {
		for i := range 10 {
			if err := l.Enter(t.Context(), somebody(i)); err != nil {
				fmt.Println("error", err)
				return
			}
		}
		fmt.Println("entered", round)
		<-lost
	}
}

func TestANodeThatWasFrozenEntersAgain(t *testing.T) {
	s := newServers(t, 3)
	a := openExternal(t, s, Options{Prefix: "hub", Node: "a", lease: shortLease})
	lost := attend(t, a, nil)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFrozenNode$", "-test.timeout=10m")
	child.Env = append(os.Environ(), childServers+"="+strings.Join(s.urls(0), ","))
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = child.Wait()
	}()
	lines := bufio.NewScanner(out)
	until := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "error") {
				t.Fatal(lines.Text())
			}
			if lines.Text() == want {
				return
			}
		}
		t.Fatalf("the child did not say %q", want)
	}
	until("entered 0")
	mustList(t, a, 0, 10)
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the frozen are out", func() bool { return lists(t, a, 0, 0) })
	mustTell(t, a, 0, 10)
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until("entered 1") // after it was told
	mustList(t, a, 0, 10)
	mustTell(t, a, 0, 10)
	if len(lost) > 0 {
		t.Error("the other one was taken for dead")
	}
}
