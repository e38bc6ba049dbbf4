//go:build unix

package jetstream

import "golang.org/x/sys/unix"

// diskSpace returns the bytes that this process may still write to the disk of dir, and the disk's size.
func diskSpace(dir string) (free, total uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	size := uint64(s.Bsize)                              //nolint:gosec // a block size is positive
	return uint64(s.Bavail) * size, s.Blocks * size, nil //nolint:unconvert // signed on some systems
}
