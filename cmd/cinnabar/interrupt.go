package main

import (
	"context"
	"errors"
	"fmt"
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

// required makes cmd complain, before it runs, when the flag called name was not given.
func required(cmd *cobra.Command, name string) {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed(name) {
			return &usageError{fmt.Errorf("--%s is required\nSee %s --help", name, cmd.CommandPath())}
		}
		return nil
	}
}
