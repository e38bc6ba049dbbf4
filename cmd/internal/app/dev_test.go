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

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
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
	t.Setenv("TOKEN", mint(t, secret)) // for the keys of one's own
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
			if own := strings.Contains(name, "my own"); own == strings.Contains(banner.String(), "eyJ") {
				t.Errorf("a token is printed for keys of one's own, or none for generated ones:\n%s", &banner)
			}
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

func TestDevKeysFollowNoPreparedLink(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(dir, "dev-keys.json.new")); err != nil {
		t.Fatal(err)
	}
	start(t, "--dev", "--transport=memory", "--data-dir="+dir)
	if b, err := os.ReadFile(other); err != nil || string(b) != "precious" {
		t.Errorf("%q, %v: the file that the link names was written", b, err)
	}
	info, err := os.Lstat(filepath.Join(dir, "dev-keys.json"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v; want a file with permission 0600", info, err)
	}
}

func TestDevKeysThatOthersKnowAreRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "dev-keys.json")
	s, _, err := load(t, "", nil, "--dev", "--transport=memory", "--listen=127.0.0.1:0", "--admin-listen=", "--data-dir="+dir)
	if err != nil {
		t.Fatal(err)
	}
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o602: true} {
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(`{"jwt_key": "`+secret+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		a, err := app.New(s.Config, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = a.Start(t.Context())
		if got := err != nil && strings.Contains(err.Error(), "chmod 600"); got != refused || (err != nil) != refused {
			t.Errorf("mode %o: %v, want refused to be %t", mode, err, refused)
		}
		if err == nil {
			err = a.Stop(t.Context())
		}
		if err != nil && !refused {
			t.Error(err)
		}
	}
}
