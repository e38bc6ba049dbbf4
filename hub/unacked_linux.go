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
	var info *unix.TCPInfo
	ctlErr := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if ctlErr != nil || err != nil {
		return 0, false
	}
	return info.Bytes_acked, true
}
