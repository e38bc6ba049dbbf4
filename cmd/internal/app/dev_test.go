//go:build unix

package app_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pasted returns the lines of the banner that begin with curl, as one would paste them.
func pasted(t *testing.T, banner string) (subscribe, publish string) {
	t.Helper()
	for line := range strings.Lines(banner) {
		switch line = strings.TrimSpace(line); {
		case strings.Contains(line, " -N "):
			subscribe = line
		case strings.HasPrefix(line, "curl "):
			publish = line
		}
	}
	if subscribe == "" || publish == "" {
		t.Fatalf("no curl lines in %s", banner)
	}
	return subscribe, publish
}

func TestLinesPrintedByDevWorkWhenPasted(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	for name, args := range map[string][]string{
		"on a port":           {"--dev", "--transport=memory"},
		"on a Unix socket":    {"--dev", "--transport=memory", "--listen=unix:" + filepath.Join(t.TempDir(), "hub.sock")},
		"on the disk":         {"--dev"},
		"at another path":     {"--dev", "--transport=memory", "--hub-path=/live/hub"},
		"with keys of my own": {"--dev", "--transport=memory", "--publisher-jwt-key=" + secret, "--subscriber-jwt-key=" + secret},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := start(t, args...)
			var banner strings.Builder
			if err := a.WriteBanner(&banner, "v0"); err != nil {
				t.Fatal(err)
			}
			subscribe, publish := pasted(t, banner.String())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream := exec.CommandContext(ctx, "sh", "-c", "exec "+subscribe+" -s")
			out, err := stream.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stream.Wait() }() // ended by cancel
			defer cancel()
			lines := bufio.NewScanner(out)
			if !lines.Scan() || lines.Text() != ":" {
				t.Fatalf("the stream begins with %q", lines.Text())
			}
			id, err := exec.CommandContext(ctx, "sh", "-c", publish+" -sf").Output()
			if err != nil {
				t.Fatalf("%s: %v", publish, err)
			}
			var got []string
			for lines.Scan() && lines.Text() != "" {
				if !strings.HasPrefix(lines.Text(), "retry:") {
					got = append(got, lines.Text())
				}
			}
			if want := "id: " + string(id) + "|data: Hello, world"; strings.Join(got, "|") != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestDevKeysAreKeptForTheOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	once := func() {
		a, _ := start(t, "--dev", "--transport=memory", "--data-dir="+dir)
		if err := a.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	file := filepath.Join(dir, "dev-keys.json")
	once()
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want permission 0600", info.Mode(), err)
	}
	once()
	if second, err := os.ReadFile(file); err != nil || string(second) != string(first) {
		t.Errorf("the key changed with the second start (%v)", err)
	}
}
