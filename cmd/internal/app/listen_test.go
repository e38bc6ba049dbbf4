//go:build unix

package app

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListenForms(t *testing.T) {
	dir := t.TempDir()
	for name, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": "unix:" + filepath.Join(dir, "a.sock")} {
		t.Run(name, func(t *testing.T) {
			l, err := listen(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			connects(t, l)
		})
	}
	t.Run("fd", func(t *testing.T) {
		parent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = parent.Close() }()
		f, err := parent.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		// listen takes the descriptor over and closes it, so f must not.
		fd, err := dup(f)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		l, err := listen(t.Context(), fmt.Sprintf("fd:%d", fd))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		if l.Addr().String() != parent.Addr().String() {
			t.Errorf("address %s, want %s", l.Addr(), parent.Addr())
		}
	})
}

func connects(t *testing.T, l net.Listener) {
	t.Helper()
	c, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

func TestListenRefusals(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "file"), filepath.Join(dir, "used.sock")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	used, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = used.Close() }()
	for name, tt := range map[string]struct{ address, want string }{
		"a port that is taken":           {taken.Addr().String(), "listen on " + taken.Addr().String() + ": address already in use: another program"},
		"a file in the way":              {"unix:" + file, "not a socket is in the way"},
		"a socket that is served":        {"unix:" + socket, "serves it"},
		"a directory that is not there":  {"unix:" + filepath.Join(dir, "no", "a.sock"), "no such file"},
		"a descriptor that is not open":  {"fd:999", "not a listening socket"},
		"no address at all":              {"systemd", "not an address"},
		"a port that is none":            {"127.0.0.1:nowhere", "listen on 127.0.0.1:nowhere"},
		"a path that is missing":         {"unix:", "needs a path"},
		"a descriptor that is no number": {"fd:-1", "needs the number"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := listen(t.Context(), tt.address)
			if err == nil {
				_ = l.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %q", err, tt.want)
			}
		})
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the file in the way is gone: %v", err)
	}
}

func TestUnixSocketThatNobodyServesIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hub.sock")
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = stale.Close()
	l, err := listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	connects(t, l)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v; want permission 0660", info.Mode(), err)
	}
}
