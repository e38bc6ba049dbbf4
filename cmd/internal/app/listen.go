package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
)

// The forms of --listen and --admin-listen.
const (
	kindTCP     = "tcp"
	kindUnix    = "unix"
	kindFD      = "fd"
	kindSystemd = "systemd"
)

// adminSocket is the FileDescriptorName= of a socket unit that is meant for --admin-listen.
const adminSocket = "admin"

// splitAddress tells the form of a listening address and what follows its prefix.
func splitAddress(address string) (kind, rest string, err error) {
	if address == kindSystemd {
		return kindSystemd, "", nil
	}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if path == "" {
			return "", "", errors.New("unix: needs a path")
		}
		return kindUnix, path, nil
	}
	if n, ok := strings.CutPrefix(address, "fd:"); ok {
		if fd, err := strconv.Atoi(n); err != nil || fd < 0 {
			return "", "", errors.New("fd: needs the number of an open file")
		}
		return kindFD, n, nil
	}
	return kindTCP, address, nil
}

// listen opens address, one of the forms of splitAddress but systemd.
func listen(ctx context.Context, address string) (net.Listener, error) {
	kind, rest, err := splitAddress(address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	switch kind {
	case kindUnix:
		return listenUnix(ctx, rest)
	case kindFD:
		return listenFD(rest)
	case kindSystemd: // net.Listen would take it for any address and any port
		return nil, errors.New("listen on systemd: not an address; sockets of a service manager are taken over, not opened")
	}
	// A peer that vanished without a word is noticed within about a minute even on a silent stream.
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3,
	}}
	l, err := lc.Listen(ctx, "tcp", rest)
	switch {
	case addressInUse(err):
		return nil, fmt.Errorf("listen on %s: address already in use: another program, or another hub, has it; stop that one or choose another address", address)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("listen on %s: not permitted: ports below 1024 need a privilege; choose a higher one or grant CAP_NET_BIND_SERVICE: %w", address, err)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}

func addressInUse(err error) bool {
	const wsaeaddrinuse = syscall.Errno(10048) // what windows says; its syscall.EADDRINUSE is an invented number
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, wsaeaddrinuse)
}

// listenUnix opens the socket at path for the owner and the group. A socket that nobody serves any more
// is removed first; one that is in use, or a file that is no socket, is left alone.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	if err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("listen on unix:%s: a file that is not a socket is in the way", path)
		}
		var d net.Dialer
		if c, err := d.DialContext(ctx, "unix", path); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("listen on unix:%s: address already in use: another program, or another hub, serves it", path)
		} else if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("listen on unix:%s: %w", path, err)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen on unix:%s: remove the stale socket: %w", path, err)
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on unix:%s: %w", path, err)
	}
	if err := os.Chmod(path, 0o660); err != nil { //nolint:gosec // a proxy of the same group connects to it
		_ = l.Close()
		return nil, fmt.Errorf("listen on unix:%s: %w", path, err)
	}
	return l, nil
}

// listenFD takes over a listening socket that the parent process opened.
func listenFD(number string) (net.Listener, error) {
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("listen on fd:%s: %w", number, err)
	}
	f := os.NewFile(uintptr(n), "fd:"+number)
	l, err := net.FileListener(f)
	if f != nil {
		_ = f.Close() // FileListener works on a copy
	}
	if err != nil {
		return nil, fmt.Errorf("listen on fd:%s: not a listening socket handed over by the parent: %w", number, err)
	}
	return l, nil
}

// reachable reports whether other machines can connect to l.
func reachable(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && !a.IP.IsLoopback()
}

// activated takes the sockets that a service manager passed, in its order: those named "admin" apart from the others.
// What is no stream socket is closed and left out.
func activated() (public, admin []net.Listener) {
	for _, f := range activation.Files(true) {
		l, err := net.FileListener(f)
		_ = f.Close() // FileListener works on a copy
		switch {
		case err != nil:
		case f.Name() == adminSocket:
			admin = append(admin, l)
		default:
			public = append(public, l)
		}
	}
	return public, admin
}
