//go:build !linux

package hub

import (
	"net"
	"syscall"
)

// unacked is known on Linux only.
func (*h1Sink) unacked() int { return -1 }

// acknowledged is known on Linux only.
func acknowledged(net.Conn) (uint64, bool) { return 0, false }

func delivery(syscall.RawConn) (pending bool, acked uint64, ok bool) { return false, 0, false }
