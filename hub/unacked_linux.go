package hub

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unacked is how many bytes the kernel holds that the client's side has not acknowledged; -1 if it does
// not say.
func (k *h1Sink) unacked() int {
	if k.raw == nil {
		return -1
	}
	held := -1
	err := k.raw.Control(func(fd uintptr) {
		n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		if err == nil {
			held = n
		}
	})
	if err != nil {
		return -1
	}
	return held
}

// acknowledged is how many bytes the other end of a TCP connection has acknowledged since it began.
func acknowledged(c net.Conn) (uint64, bool) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return 0, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, false
	}
	_, acked, ok := delivery(raw)
	return acked, ok
}

// delivery says whether the kernel has bytes that the other end of a TCP connection has not acknowledged, and how many
// it has acknowledged since it began. ok is false for other connections, and for closed ones.
func delivery(raw syscall.RawConn) (pending bool, acked uint64, ok bool) {
	var (
		info *unix.TCPInfo
		err  error
	)
	ctlErr := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if ctlErr != nil || err != nil {
		return false, 0, false
	}
	return info.Unacked > 0 || info.Notsent_bytes > 0, info.Bytes_acked, true
}
