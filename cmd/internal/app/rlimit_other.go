//go:build !unix

package app

// openFilesLimit returns 0: this system has no such limit to tell.
func openFilesLimit() uint64 { return 0 }
