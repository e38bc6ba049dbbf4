package jetstream

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDirectoryThatCannotBeUsedIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, dir string) string
		want    string
	}{
		{"below a file", func(*testing.T, string) string { return filepath.Join(file, "data") }, "cannot be made"},
		{"written in another mode", func(t *testing.T, dir string) string {
			t.Helper()
			write(t, filepath.Join(dir, modeFile), "cluster\n")
			return dir
		}, "mode \"cluster\" and cannot be used in mode \"standalone\"; to take the history along, start the cluster once more as it was, run `cinnabar backup --admin "},
		{"of another program", func(t *testing.T, dir string) string {
			t.Helper()
			if err := os.Mkdir(filepath.Join(dir, storeDir), 0o700); err != nil {
				t.Fatal(err)
			}
			return dir
		}, "not a hub's"},
		{"read-only", func(t *testing.T, dir string) string {
			t.Helper()
			mountTmpfs(t, dir, "ro")
			return dir
		}, "not writable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := c.prepare(t, t.TempDir())
			l, err := Open(t.Context(), Options{Dir: dir})
			if err == nil {
				t.Fatal(errors.Join(errors.New("opened"), l.Close(t.Context())))
			}
			if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want it to name %q and to say %q", err, dir, c.want)
			}
		})
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDirectoryIsLocked(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "made", "on", "the", "way")}
	l := open(t, o)
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), o.Dir) {
		t.Errorf("second opening: %v; want ErrLocked with the directory", err)
	}
	if _, err := l.Append(t.Context(), update(0)); err != nil {
		t.Errorf("append after the attempt: %v", err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	open(t, o)
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"no data directory":   {},
		"MaxBytes":            {Dir: "x", MaxBytes: -1},
		"PublishTimeout":      {Dir: "x", PublishTimeout: -1},
		"at least 100ms":      {Dir: "x", MaxAge: time.Millisecond},
		"at most":             {Dir: "x", MaxUpdateBytes: 1 << 30},
		`Prefix "a.b" is not`: {Dir: "x", Prefix: "a.b"},
	} {
		if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v; want %q", o, err, name)
		}
	}
}
