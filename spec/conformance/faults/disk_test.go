package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// smallDisk is a file system of its own of some MiB, where the test may make one.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("only the superuser of a Linux machine can make a small file system")
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

// A full disk answers 507 to publishers and leaves subscribers connected; with space the hub is well again
// by itself, and everything acknowledged is there. Covers: ERR-12.
func TestAFullDiskIs507AndPasses(t *testing.T) {
	disk := smallDisk(t, 64)
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 32<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	h := child.New(t, "--data-dir", filepath.Join(disk, "data"), "--publish-timeout", "5s")
	h.Start()
	const topic = "https://example.com/disk"
	c := h.Subscribe("https://example.com/other")
	token := child.Token(t)
	block := strings.Repeat("x", 256<<10)
	var acks []acknowledged
	publish := func() error {
		data := fmt.Sprint(0, " ", len(acks))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		id, err := h.Publish(ctx, token, url.Values{"topic": {topic}, "data": {data}, "pad": {block}, "type": {strings.Repeat("t", 1000)}})
		if err == nil {
			acks = append(acks, acknowledged{id, data})
		}
		return err
	}
	fill := func() error { // the block is data of another topic
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := h.Publish(ctx, token, url.Values{"topic": {"https://example.com/bulk"}, "data": {block}})
		return err
	}
	var full error
	for i := 0; full == nil && i < 1000; i++ {
		if full = publish(); full == nil {
			full = fill()
		}
	}
	if full == nil {
		t.Fatal("the disk never got full")
	}
	if !strings.Contains(full.Error(), "507") {
		t.Fatalf("a full disk is answered %v, want 507", full)
	}
	for range 5 {
		if err := fill(); err == nil || !strings.Contains(err.Error(), "507") {
			t.Errorf("on a full disk: %v, want 507", err)
		}
	}
	if n := gauges(t, h)["cinnabar_subscribers"]; n != 1 {
		t.Errorf("%v subscribers, want the one to be still there", n)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	child.Eventually(t, patience, func() error { return publish() })
	if n := gauges(t, h)["cinnabar_subscribers"]; n != 1 {
		t.Errorf("%v subscribers, want the one to be still there", n)
	}
	h.Must("https://example.com/other", "live")
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if err := readUntil(c, "data: live\n\n"); err != nil {
		t.Errorf("the subscriber: %v", err)
	}
	for _, restarted := range []bool{false, true} {
		if restarted {
			h.Stop()
			h.Start()
		}
		end := h.Must(topic, "end")
		verify(t, history(t, h, topic, end), [][]acknowledged{acks})
	}
}

func readUntil(c interface{ Read([]byte) (int, error) }, suffix string) error {
	var got []byte
	one := make([]byte, 1)
	for !strings.HasSuffix(string(got), suffix) {
		n, err := c.Read(one)
		got = append(got, one[:n]...)
		if err != nil {
			return errors.Join(fmt.Errorf("read %q", got), err)
		}
	}
	return nil
}
