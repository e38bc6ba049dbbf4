//go:build !unix

package load

import (
	"errors"
	"time"
)

// needFiles does nothing: this system has no such limit to raise.
func needFiles(int) error { return nil }

// ownCPU is not known here.
func ownCPU() (time.Duration, error) { return 0, errors.ErrUnsupported }
