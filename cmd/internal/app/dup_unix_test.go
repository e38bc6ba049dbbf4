//go:build unix

package app

import (
	"os"

	"golang.org/x/sys/unix"
)

func dup(f *os.File) (int, error) { return unix.Dup(int(f.Fd())) }
