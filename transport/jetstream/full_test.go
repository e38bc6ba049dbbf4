package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

func command(t *testing.T, name string, args ...string) ([]byte, error) {
	t.Helper()
	return exec.CommandContext(background(t), name, args...).CombinedOutput()
}

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex // guards below
	b  bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *logBuffer) has(s string) bool { return b.count(s) > 0 }

func (b *logBuffer) count(s string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.b.String(), s)
}

// fillDisk appends until the log is full, and returns what was acknowledged.
func fillDisk(t *testing.T, l *Log, bytes int) []transport.Entry {
	t.Helper()
	var acked []transport.Entry
	for i := range 100_000 {
		u := update(i)
		u.Data = fmt.Sprintf("%d ", i) + strings.Repeat("x", bytes)
		if i%10 == 0 {
			u.ID = fmt.Sprintf("https://example.com/ids/%d", i)
		}
		e, err := l.Append(t.Context(), u)
		if errors.Is(err, transport.ErrFull) {
			return acked
		}
		if err != nil {
			t.Fatalf("append %d: %v; want ErrFull", i, err)
		}
		acked = append(acked, e)
	}
	t.Fatal("the disk does not become full")
	return nil
}

// fillWithFile takes all the space there is.
func fillWithFile(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 1<<16))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// testFull fills a disk, makes space again, and expects the log to be well.
func testFull(t *testing.T, minFree int64, wantRestart bool) {
	t.Helper()
	dir := t.TempDir()
	mountTmpfs(t, dir, "size=12m")
	remove := ballast(t, dir, 6<<20)
	var lines logBuffer
	o := Options{Dir: dir, MinFree: minFree, Logger: slog.New(slog.NewTextHandler(&lines, nil))}
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(background(t)); err != nil {
			t.Error(err)
		}
	}()
	c := follow(t, l)
	var acked []transport.Entry
	if wantRestart { // somebody else takes the space that the log counts on
		acked = append(acked, add(t, l, update(0)))
		fillWithFile(t, filepath.Join(dir, "other"))
	}
	acked = append(acked, fillDisk(t, l, 3000)...)

	// full: nothing can be added, all can be read
	if _, err := l.Span(t.Context()); err != nil {
		t.Errorf("span of a full log: %v", err)
	}
	mustBeSame(t, "scan while full", scan(t, l, 0, acked[len(acked)-1].Pos), acked)
	mustBeSame(t, "followed while full", c.until(t, acked[len(acked)-1].Pos), acked)
	began := time.Now()
	if _, err := l.Append(t.Context(), update(1)); err == nil {
		t.Error("append to a full log succeeded")
	} else if !errors.Is(err, transport.ErrFull) {
		t.Errorf("append to a full log: %v", err)
	}
	if waited := time.Since(began); waited > l.opts.PublishTimeout/2 { // it was told, not left to find out
		t.Errorf("the publisher was told after %v", waited)
	}

	remove()
	eventually(t, "append after space was made", func() bool {
		u := update(2)
		e, err := l.Append(t.Context(), u)
		if err == nil {
			acked = append(acked, e)
		} else if !errors.Is(err, transport.ErrFull) {
			t.Errorf("append: %v", err)
		}
		return err == nil
	})
	for i := range 20 {
		acked = append(acked, add(t, l, update(i)))
	}
	if _, err := l.Span(t.Context()); err != nil {
		t.Errorf("span: %v", err)
	}
	last := acked[len(acked)-1].Pos
	mustBeSame(t, "scan afterwards", scan(t, l, 0, last), acked)
	mustBeSame(t, "followed afterwards", c.until(t, last), acked)
	for _, e := range acked {
		if pos, err := l.Locate(t.Context(), e.Update.ID); err != nil || pos != e.Pos {
			t.Fatalf("locate %s: %d, %v; want %d", e.Update.ID, pos, err, e.Pos)
		}
	}
	eventually(t, "word that all is well", func() bool { return lines.count("publishers are taken again") == 1 })
	if n := lines.count("publishers are refused"); n != 1 {
		t.Errorf("that publishers are refused was said %d times", n)
	}
	if got := lines.has("restarting the embedded server"); got != wantRestart {
		t.Errorf("the server was restarted: %v, want %v", got, wantRestart)
	}
}

func TestFullDiskIsNoticedBeforeTheStoreFails(t *testing.T) { testFull(t, 0, false) }

func TestFullDiskIsSurvivedWhenAWriteHasFailed(t *testing.T) { testFull(t, 1, true) }

func TestRetentionMakesRoomOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	mountTmpfs(t, dir, "size=12m")
	l := open(t, Options{Dir: dir, MaxAge: 3 * time.Second, MinFree: 5 << 20})
	fillDisk(t, l, 30000)
	eventually(t, "append after entries have aged", func() bool {
		u := update(0)
		u.Data = strings.Repeat("x", 30000)
		_, err := l.Append(t.Context(), u)
		return err == nil
	})
}

func TestDiskIsAskedAgainInTime(t *testing.T) {
	h := headroom{dir: t.TempDir(), minFree: 1 << 10}
	if err := h.take(100); err != nil {
		t.Fatal(err)
	}
	if left := h.left.Load(); left <= 0 || left > trustFor {
		t.Errorf("%d bytes are trusted, want at most %d", left, trustFor)
	}
	h.minFree = 1 << 62
	var err error
	for range trustFor/recordOverhead + 2 {
		if err = h.take(0); err != nil {
			break
		}
	}
	if !errors.Is(err, transport.ErrFull) || !strings.Contains(err.Error(), h.dir) {
		t.Errorf("beyond what is free: %v", err)
	}
	if h.enough(0) {
		t.Error("there is enough space")
	}
	gone := headroom{dir: h.dir + "/gone"}
	if err := gone.take(1); err != nil {
		t.Errorf("a disk that cannot be asked: %v", err)
	}
}

func TestServerIsRestartedWithGrowingPauses(t *testing.T) {
	start := time.Now()
	at := start.Add
	var r recovery
	if !r.trouble(at(0)) || r.trouble(at(0)) {
		t.Error("trouble is not new once")
	}
	var restarts []time.Duration
	for d := time.Duration(0); d < 2*time.Minute; d += 100 * time.Millisecond {
		if r.due(at(d), true) {
			restarts = append(restarts, d)
		}
	}
	if len(restarts) < 9 || restarts[0] != 0 || restarts[1] != time.Second || restarts[2] != 3*time.Second {
		t.Errorf("restarts at %v", restarts)
	}
	for i := 5; i < len(restarts)-1; i++ {
		if p := restarts[i+1] - restarts[i]; p != restartBackoff {
			t.Errorf("pause of %v", p)
		}
	}
	last := restarts[len(restarts)-1]
	if !r.well(at(last+time.Second)) || r.well(at(last+time.Second)) {
		t.Error("well is not new once")
	}
	r.trouble(at(last + 2*time.Second))
	if r.due(at(last+2*time.Second), true) {
		t.Error("restarted at once although it had been restarted often")
	}
	r.well(at(last + 3*time.Second))
	r.well(at(last + 2*time.Minute))
	r.trouble(at(last + 3*time.Minute))
	if !r.due(at(last+3*time.Minute), true) || r.due(at(last+3*time.Minute), true) {
		t.Error("not restarted at once after a long calm")
	}
	var full recovery
	full.trouble(at(0))
	if full.due(at(restartBackoff-1), false) || !full.due(at(restartBackoff), false) {
		t.Error("a full disk is not left in peace for a while")
	}
}

func TestErrorsOfAFullDiskAreRecognised(t *testing.T) {
	for text, want := range map[string]bool{
		"write /x/1.blk: no space left on device": true, "write x: disk quota exceeded": true,
		"write x: file too large": true, "There is not enough space on the disk.": true,
		"write x: input/output error": false, "": false, context.Canceled.Error(): false,
	} {
		if noSpace(text) != want {
			t.Errorf("%q is recognised: %v", text, !want)
		}
	}
}
