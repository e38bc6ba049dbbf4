//go:build linux

package jetstream

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// useAllFiles leaves this process no file to open until the returned function is called.
func useAllFiles(t *testing.T) (release func()) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = 0
	for _, f := range open {
		n, err := strconv.ParseUint(f.Name(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		low.Cur = max(low.Cur, n+1)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Skip(err)
	}
	var held []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held = append(held, f)
	}
	return func() {
		for _, f := range held {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
	}
}

// What the server cannot read it calls "not found", as what is gone.
func TestHistoryThatCannotBeReadIsUnavailable(t *testing.T) {
	o := Options{Dir: t.TempDir(), MaxBytes: 64 << 20, WindowBytes: 1 << 20}
	l := open(t, o)
	const n = 400
	for i := range n { // several blocks
		add(t, l, &spec.Update{Topics: []string{"t"}, Data: fmt.Sprint(i) + strings.Repeat("y", 50<<10)})
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l = open(t, o) // nothing is in the server's memory
	release := useAllFiles(t)
	read := 0
	var failed error
	for _, err := range l.Scan(t.Context(), 0, n, nil) {
		if err != nil {
			failed = err
			break
		}
		read++
	}
	release()
	if !errors.Is(failed, transport.ErrUnavailable) {
		t.Errorf("%d of %d entries, then %v; want ErrUnavailable", read, n, failed)
	}
	if got := scan(t, l, 0, n); len(got) != n {
		t.Errorf("%d entries when they can be read again", len(got))
	}
}
