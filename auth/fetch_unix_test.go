//go:build unix

package auth_test

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
)

// TestAFIFOIsNoKeySet would wait for a writer that never comes.
func TestAFIFOIsNoKeySet(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "set.json")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Skipf("no FIFO can be made here: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		j, err := auth.NewJWKS(ctx, fileURL(file), auth.JWKSOptions{})
		if err == nil {
			j.Close()
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("error %v, want that it is not a regular file", err)
		}
	case <-ctx.Done():
		t.Error("still waiting")
	}
}
