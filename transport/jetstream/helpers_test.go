package jetstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

func update(i int) *spec.Update {
	return &spec.Update{Topics: []string{fmt.Sprintf("https://example.com/books/%d", i%7)}, Data: fmt.Sprintf("data %d", i)}
}

func add(t testing.TB, l *Log, u *spec.Update) transport.Entry {
	t.Helper()
	e, err := l.Append(t.Context(), u)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return e
}

// scan reads (after, upto]. Of a log that others have part in it does so as a hub does, trying again for a while what
// cannot be read at the moment.
func scan(t testing.TB, l *Log, after, upto transport.Position) []transport.Entry {
	t.Helper()
	var got []transport.Entry
	for began := time.Now(); ; time.Sleep(retryPause) {
		err := error(nil)
		for e, failed := range l.Scan(t.Context(), after, upto, nil) {
			if err = failed; err != nil {
				break
			}
			got, after = append(got, e), e.Pos
		}
		switch {
		case err == nil:
			return got
		case !l.opts.clustered() || !errors.Is(err, transport.ErrUnavailable) || time.Since(began) > busyTimeout:
			t.Fatalf("scan: %v", err)
		}
	}
}

// collector is a follower that keeps what it gets.
type collector struct {
	mu      sync.Mutex // guards below
	entries []transport.Entry
	changed chan struct{}
}

func (c *collector) take(e transport.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = append(c.entries, e)
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// until waits until the follower has come to pos, and returns all it got.
func (c *collector) until(t *testing.T, pos transport.Position) []transport.Entry {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		c.mu.Lock()
		got := slices.Clone(c.entries)
		if len(got) > 0 && got[len(got)-1].Pos >= pos {
			c.mu.Unlock()
			return got
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the follower got %d entries and did not come to %d", len(got), pos)
		}
	}
}

func follow(t *testing.T, l *Log) *collector {
	t.Helper()
	c := &collector{}
	if _, err := l.Follow(t.Context(), c.take); err != nil {
		t.Fatal(err)
	}
	return c
}

// mustBeSame fails the test unless both are the same entries in the same order.
func mustBeSame(t *testing.T, what string, got, want []transport.Entry) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i].Pos != want[i].Pos || got[i].Update.ID != want[i].Update.ID || got[i].Update.Data != want[i].Update.Data {
			t.Fatalf("%s: entry %d is %d %+v, want %d %+v", what, i, got[i].Pos, got[i].Update, want[i].Pos, want[i].Update)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d entries, want %d", what, len(got), len(want))
	}
}

// eventually waits for what nothing announces, looking every few milliseconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(60 * time.Second)
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// mountTmpfs mounts a file system in memory on dir until the test ends, or skips the test.
func mountTmpfs(t *testing.T, dir, options string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("needs Linux and root: a small file system is mounted")
	}
	if out, err := command(t, "mount", "-t", "tmpfs", "-o", options, "tmpfs", dir); err != nil {
		t.Skipf("mount is not allowed here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := command(t, "umount", dir); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
}

// ballast writes a file of n bytes into dir and returns how to remove it.
func ballast(t *testing.T, dir string, n int) (remove func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	if err := os.WriteFile(name, make([]byte, n), 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

func background(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}

// diskUsed returns the bytes that are used of the disk of dir.
func diskUsed(t *testing.T, dir string) int {
	t.Helper()
	free, total, err := diskSpace(dir)
	if err != nil {
		t.Fatal(err)
	}
	return int(total - free)
}
