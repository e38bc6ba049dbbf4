//go:build unix

package load

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// spareFiles are open beside the connections.
const spareFiles = 64

// needFiles makes sure that n connections can be open, raising the limit as far as the system lets it.
func needFiles(n int) error {
	want := uint64(n) + spareFiles //nolint:gosec // not negative
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return nil //nolint:nilerr // opening will tell
	}
	if cur := uint64(r.Cur); cur >= want { //nolint:unconvert // signed on some systems
		return nil
	}
	raised := r
	set(&raised.Cur, want)
	if uint64(r.Max) < want { //nolint:unconvert // signed on some systems
		set(&raised.Max, want) // root may
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err != nil {
		return badOption("%d connections need %d open files, and this process may have %d: raise the hard limit (ulimit -Hn, LimitNOFILE=, nofile in limits.conf), or ask for fewer",
			n, want, r.Cur)
	}
	return nil
}

// set stores v in a field that is signed on some systems.
func set[T ~int64 | ~uint64](field *T, v uint64) { *field = T(v) }

// ownCPU is the processor time that this process has used.
func ownCPU() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
