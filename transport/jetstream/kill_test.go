package jetstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// childDir tells a copy of the test binary to be the publisher that is killed.
const childDir = "CINNABAR_TEST_KILL_DIR"

// TestKilledPublisher is the child: it publishes without end and prints what is acknowledged.
func TestKilledPublisher(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("runs as the child of TestEveryAcknowledgedUpdateSurvivesKill")
	}
	l, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for p := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				u := update(i)
				u.Type = fmt.Sprintf("%d.%d.%d", os.Getpid(), p, i)
				if p%2 == 1 {
					u.ID = "https://example.com/ids/" + u.Type
				}
				e, err := l.Append(context.WithoutCancel(t.Context()), u)
				mu.Lock()
				if err != nil {
					fmt.Println("error", err)
				} else {
					fmt.Println("ack", e.Pos, e.Update.ID, u.Type) // one write, before the next append
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

type acked struct {
	pos transport.Position
	id  string
	typ string
}

// killWhilePublishing runs a child on dir, kills it after n acknowledgements, and returns all it printed.
func killWhilePublishing(t *testing.T, dir string, n int) []acked {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledPublisher$")
	child.Env = append(os.Environ(), childDir+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var got []acked
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n') // a line cut short was not acknowledged to anyone
		if err != nil {
			if err != io.EOF {
				t.Logf("child's output: %v", err)
			}
			break
		}
		var a acked
		switch {
		case strings.HasPrefix(line, "ack "):
			if _, err := fmt.Sscanf(line, "ack %d %s %s", &a.pos, &a.id, &a.typ); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			got = append(got, a)
		case strings.HasPrefix(line, "error"):
			t.Errorf("child: %s", line)
		}
		if len(got) == n {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	if len(got) < n {
		t.Fatalf("the child printed %d acknowledgements", len(got))
	}
	return got
}

func TestEveryAcknowledgedUpdateSurvivesKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	var all []acked
	for round := range 4 {
		all = append(all, killWhilePublishing(t, dir, 300+200*round)...)
		l := open(t, Options{Dir: dir})
		byPos := map[transport.Position]transport.Entry{}
		types := map[string]bool{}
		last := transport.Position(0)
		for _, e := range scan(t, l, 0, 1<<60) {
			if e.Pos != last+1 {
				t.Fatalf("round %d: position %d follows %d", round, e.Pos, last)
			}
			if types[e.Update.Type] {
				t.Errorf("round %d: update %s is there twice", round, e.Update.Type)
			}
			last, byPos[e.Pos], types[e.Update.Type] = e.Pos, e, true
		}
		for i, a := range all {
			e, ok := byPos[a.pos]
			if !ok || e.Update.ID != a.id || e.Update.Type != a.typ {
				t.Fatalf("round %d: update %s acknowledged at %d: %+v", round, a.typ, a.pos, e.Update)
			}
			if i%20 != 0 {
				continue
			}
			if pos, err := l.Locate(t.Context(), a.id); err != nil || pos != a.pos {
				t.Fatalf("round %d: locate %s: %d, %v; want %d", round, a.id, pos, err, a.pos)
			}
		}
		u := update(round)
		u.Type = fmt.Sprintf("parent.%d", round)
		if e := add(t, l, u); e.Pos != last+1 {
			t.Errorf("round %d: position %d follows %d", round, e.Pos, last)
		}
		// an id that was stored but not noted when the process was killed is noted now
		for pos := last; pos+20 > last && pos > 0; pos-- {
			if got, err := l.Locate(t.Context(), byPos[pos].Update.ID); err != nil || got != pos {
				t.Errorf("round %d: locate newest %s: %d, %v; want %d", round, byPos[pos].Update.ID, got, err, pos)
			}
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
