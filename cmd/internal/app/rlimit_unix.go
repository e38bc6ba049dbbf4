//go:build unix

package app

import "golang.org/x/sys/unix"

// openFilesLimit returns how many files, and so connections, this process may have open; the runtime has
// raised it as far as it could. 0 = not known.
func openFilesLimit() uint64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return uint64(r.Cur) //nolint:unconvert // int64 on some systems
}
