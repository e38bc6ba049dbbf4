//go:build linux

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// smallDisk is a file system of its own of some MiB, where the test may make one.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only the superuser can make a small file system")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", mib), "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no small file system here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// fill leaves no byte on a disk; remove the file to have it all back.
func fill(t *testing.T, disk string) (filler string) {
	t.Helper()
	filler = filepath.Join(disk, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for len(block) > 0 {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return filler
}

// A node whose disk is full says so and is not ready; its subscribers are served from the others' copies, and with
// space it is well again by itself.
func TestAFullDiskOfOneNodeIsTheOthersWork(t *testing.T) {
	minutes(t)
	disk := smallDisk(t, 128)
	const full = 0
	w := embeddedAt(t, "interest", func(i int) []string {
		if i == full {
			return []string{"--data-dir", filepath.Join(disk, "data")}
		}
		return nil
	})
	t.Logf("the leader is node %d, the disk of node %d gets full", w.leader(t), full)
	v := play(t, plan{
		hubs: w.urls()[1:], through: w.urls(), direct: w.urls(), clients: 60, rate: 300, before: time.Second, afterward: time.Second,
		fail: func(*run) {
			filler := fill(t, disk)
			child.Eventually(t, patience, func() error {
				return notReady(t, w.hubs[full])
			})
			pause(t, 3*time.Second)
			if err := notReady(t, w.hubs[full]); err != nil {
				t.Errorf("with its disk still full: %v", err)
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			w.leader(t)
		},
	})
	row(t, "disk of one node full", w.mode, v)
}
