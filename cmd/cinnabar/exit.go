package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/spec/client"
)

// Exit codes, for scripts.
const (
	exitFailure     = 1
	exitUsage       = 2 // the command line, the environment or the configuration file is wrong
	exitRefused     = 3 // the hub answered 4xx
	exitUnavailable = 4 // the hub could not be reached, or answered 5xx or 429
)

// usageError is a mistake in what the user wrote.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// exitCode sorts err into one of the codes that the help promises.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		if e.Temporary() {
			return exitUnavailable
		}
		if e.Status >= http.StatusBadRequest {
			return exitRefused
		}
		return exitFailure
	}
	if errors.Is(err, app.ErrUnavailable) {
		return exitUnavailable
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		switch {
		case e.Op == "parse":
			return exitUsage
		case !errors.Is(err, context.Canceled) && !errors.Is(err, errInterrupted):
			return exitUnavailable
		}
	}
	return exitFailure
}

// needsCommand is what a command does that only groups others.
func needsCommand(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return &usageError{fmt.Errorf("%s needs one of its commands: %s\nSee %[1]s --help", cmd.CommandPath(), strings.Join(names, ", "))}
}

// wrapArgs makes every complaint about arguments a usageError, on cmd and all below it.
func wrapArgs(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		check = noArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err}
		}
		return nil
	}
	for _, c := range cmd.Commands() {
		wrapArgs(c)
	}
}

// noArgs is cobra.NoArgs, which calls any argument an unknown command, even `false` of `--classic false`, and proposes none.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasAvailableSubCommands():
		known := make(map[string]bool)
		for _, c := range cmd.Commands() {
			known[c.Name()] = c.IsAvailableCommand()
		}
		return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), app.DidYouMean(args[0], known))
	case args[0] == "true" || args[0] == "false":
		return fmt.Errorf("%s takes no arguments, but was given %q; a flag that is true or false is written --name=%[2]s", cmd.CommandPath(), args[0])
	}
	return fmt.Errorf("%s takes no arguments, but was given %q", cmd.CommandPath(), args[0])
}

// oneArg asks for exactly one argument, with the question for it.
func oneArg(question string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 || args[0] == "":
			return errors.New(question)
		case len(args) > 1:
			return fmt.Errorf("%s takes one argument, but was given %d", cmd.CommandPath(), len(args))
		}
		return nil
	}
}

// flagError is what a flag that cannot be read is answered with; one that does not exist may be a slip of the pen.
func flagError(cmd *cobra.Command, err error) error {
	hint := ""
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		known := make(map[string]bool)
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known["--"+f.Name] = !f.Hidden })
		hint = app.DidYouMean("--"+unknown.GetSpecifiedName(), known)
	}
	return &usageError{fmt.Errorf("%w%s\nSee %s --help", err, hint, cmd.CommandPath())}
}
