//go:build !linux

package hub

import "net"

// unacked is known on Linux only.
func (*h1Sink) unacked() int { return -1 }

// acknowledged is known on Linux only.
func acknowledged(net.Conn) (uint64, bool) { return 0, false }
