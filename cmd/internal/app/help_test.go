package app_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// lockedBuilder is a writer for several goroutines.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// logged returns a logger and what it has written so far; the log is shown when the test fails.
func logged(t *testing.T) (log *slog.Logger, lines func() string) {
	t.Helper()
	var b lockedBuilder
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.String())
		}
	})
	return slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})), b.String
}
