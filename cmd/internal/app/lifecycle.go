package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// step undoes one thing that Start did.
type step struct {
	name  string
	limit time.Duration // of this step alone
	must  bool          // it gets its time even when the caller's is over: it keeps data whole
	run   func(context.Context) error
}

// lifecycle runs steps once, last in first out.
type lifecycle struct {
	log *slog.Logger

	mu    sync.Mutex
	steps []step        // guarded by mu
	done  chan struct{} // guarded by mu; not nil once stop was called, closed when it has finished
	err   error         // readable once done is closed
}

func (l *lifecycle) add(s step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = append(l.steps, s)
}

// stop runs the steps in reverse and joins their errors, each with its name. Later and concurrent calls
// wait for the first one and return what it returned.
func (l *lifecycle) stop(ctx context.Context) error {
	l.mu.Lock()
	if l.done != nil {
		done := l.done
		l.mu.Unlock()
		select {
		case <-done:
			return l.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	l.done = make(chan struct{})
	steps := l.steps
	l.mu.Unlock()

	var errs []error
	for _, s := range slices.Backward(steps) {
		if err := l.run(ctx, s); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", s.name, err))
		}
	}
	l.err = errors.Join(errs...)
	close(l.done)
	return l.err
}

func (l *lifecycle) run(ctx context.Context, s step) error {
	if s.must {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	begin := time.Now()
	err := s.run(ctx)
	l.log.Debug("stopped", "step", s.name, "took", time.Since(begin), "error", err)
	return err
}
