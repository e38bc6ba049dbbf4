package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

func newRestore() *cobra.Command {
	var place app.Place
	var input string
	var show progress
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Put a saved log into a hub that has none",
		Long: `Put what cinnabar backup has saved into a data directory, a running hub or cluster, or NATS servers, with its positions and
event ids: clients go on with the cursors that they have. The file is checked first, to its last byte.

The place must hold no updates: nothing is overwritten. What fails on the way leaves it empty, which the message says, and can
be repeated. Hubs that run there serve the restored log within a few seconds; their publishers wait meanwhile.
Limits, such as --history-max-bytes, are those of the place: what is beyond them is trimmed.`,
		Example: "  cinnabar restore --input hub.tar --admin http://127.0.0.1:3001\n" +
			"  cinnabar restore --input hub.tar --data-dir /var/lib/cinnabar",
	}
	place.Bind(cmd.Flags())
	cmd.Flags().StringVar(&input, "input", "", "`file` to read; - is standard input, which is kept in a temporary file to be checked first")
	show.bind(cmd)
	required(cmd, "input")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := interruptible(cmd.Context(), 0)
		defer stop()
		file, release, err := openInput(cmd, input)
		if err != nil {
			return err
		}
		report, done := show.on(cmd)
		m, err := place.Restore(ctx, file, report)
		if err == nil {
			show.result("restored", m)
		}
		return done(errors.Join(fault(ctx, err), release()))
	}
	return cmd
}

// openInput opens what can be read twice: a file, or a copy of standard input or of a pipe.
func openInput(cmd *cobra.Command, name string) (file *os.File, release func() error, err error) {
	from, what := cmd.InOrStdin(), "standard input"
	if name != "-" {
		given, err := os.Open(name) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, nil, err
		}
		if _, err := given.Seek(0, io.SeekCurrent); err == nil {
			return given, given.Close, nil
		}
		defer func() { _ = given.Close() }() // was only read
		from, what = given, name
	}
	file, err = os.CreateTemp("", "cinnabar-restore-*") // mode 0600
	if err != nil {
		return nil, nil, err
	}
	release = func() error { return errors.Join(file.Close(), os.Remove(file.Name())) }
	if _, err := io.Copy(file, from); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read %s: %w", what, err), release())
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, nil, errors.Join(err, release())
	}
	return file, release, nil
}
