package jetstream

import "golang.org/x/sys/windows"

// diskSpace returns the bytes that this process may still write to the disk of dir, and the disk's size.
func diskSpace(dir string) (free, total uint64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	if err := windows.GetDiskFreeSpaceEx(name, &free, &total, nil); err != nil {
		return 0, 0, err
	}
	return free, total, nil
}
