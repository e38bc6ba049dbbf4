package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

var errInterrupted = errors.New("interrupted")

// interruptible returns a context that SIGINT and SIGTERM end, with errInterrupted as its cause, and that
// lasts at most limit, 0 for ever.
func interruptible(parent context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
		signal.Stop(signals)
	}()
	if limit == 0 {
		return ctx, func() { cancel(nil) }
	}
	timed, stop := context.WithTimeout(ctx, limit)
	return timed, func() { stop(); cancel(nil) }
}

// required marks a flag of cmd that must be given; it panics if there is none of that name.
func required(cmd *cobra.Command, name string) {
	if err := cmd.MarkFlagRequired(name); err != nil {
		panic(err)
	}
}
