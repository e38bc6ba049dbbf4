//go:build !linux

package hub

// unacked is known on Linux only.
func (*h1Sink) unacked() int { return -1 }
