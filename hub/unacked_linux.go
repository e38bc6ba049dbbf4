package hub

import "golang.org/x/sys/unix"

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
