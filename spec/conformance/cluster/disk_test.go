//go:build linux

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
	var disks [nodes]string
	for i := range disks {
		disks[i] = smallDisk(t, 128)
	}
	w := embeddedAt(t, "interest", func(i int) []string { return []string{"--data-dir", filepath.Join(disks[i], "data")} })
	for _, c := range []struct {
		name string
		from int // the leader
	}{{"disk of a node that does not lead full", 1}, {"disk of the stream's leader full", 0}} {
		full := (w.leader(t) + c.from) % nodes
		h := w.hubs[full]
		t.Run(c.name, func(t *testing.T) {
			others := slices.Delete(w.urls(), full, full+1)
			v := play(t, plan{
				hubs: others, through: w.urls(), direct: w.urls(), clients: 60, rate: 300, before: time.Second, afterward: time.Second,
				fail: func(*run) {
					before := len(h.Log())
					filler := fill(t, disks[full])
					child.Eventually(t, patience, func() error { return notReady(t, h) })
					pause(t, 5*time.Second) // for the others' subscribers and its own everything goes on
					if err := notReady(t, h); err != nil {
						t.Errorf("with its disk still full: %v", err)
					}
					if said := h.Log()[before:]; !diskSaid.MatchString(said) {
						t.Error("the node does not say that its disk is full")
					}
					if err := os.Remove(filler); err != nil {
						t.Fatal(err)
					}
					w.leader(t)
				},
			})
			row(t, c.name, w.mode, v)
		})
	}
}

// diskSaid is what an operator looks for.
var diskSaid = regexp.MustCompile(`level=(WARN|ERROR) msg="the store of this node.*no space left`)
