package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

func newBackup() *cobra.Command {
	var place app.Place
	var output string
	var show progress
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Save a hub's log to a file",
		Long: `Save the log of a hub, with its positions, its event ids and what they depend on, to one file that cinnabar restore
takes: into another directory, a cluster or NATS servers. Every client's cursor stays valid there. A hub that runs goes on
meanwhile; what is published then may be missing in the file.

The file holds all updates, private ones too, and the key of the event ids: keep it as safe as the log itself. It is readable
by its owner only, and appears under its name when it is whole.`,
		Example: "  cinnabar backup --data-dir /var/lib/cinnabar --output hub.tar\n" +
			"  cinnabar backup --admin http://127.0.0.1:3001 --output - | ssh elsewhere 'cat > hub.tar'",
	}
	place.Bind(cmd.Flags())
	cmd.Flags().StringVar(&output, "output", "", "`file` to write; - is standard output")
	show.bind(cmd)
	required(cmd, "output")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := interruptible(cmd.Context(), 0)
		defer stop()
		report, done := show.on(cmd)
		return done(writeFile(cmd, output, func(w io.Writer) error {
			m, err := place.Backup(ctx, w, report)
			if err == nil {
				show.result("saved", m)
			}
			return fault(ctx, err)
		}))
	}
	return cmd
}

// fault sorts the error of a command that works on a log.
func fault(ctx context.Context, err error) error {
	if errors.Is(err, app.ErrUsage) {
		return &usageError{err}
	}
	if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return err
}

// writeFile has write fill the file called name, which appears, readable by its owner only, when it is whole. - is
// standard output. A device or a pipe, such as /dev/stdout, is written to as it stands: a file put in its place would
// take it from everybody.
func writeFile(cmd *cobra.Command, name string, write func(io.Writer) error) (err error) {
	if name == "-" {
		return write(cmd.OutOrStdout())
	}
	switch info, err := os.Stat(name); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && info.IsDir():
		return &usageError{fmt.Errorf("--output: %s is a directory", name)}
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY, 0) //nolint:gosec // the operator names it
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	case err == nil: // a link goes on naming what it names
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
	}
	aside, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(aside.Name()))
		}
	}()
	err = write(aside)
	if err == nil {
		err = aside.Sync()
	}
	if err := errors.Join(err, aside.Close()); err != nil {
		return err
	}
	return os.Rename(aside.Name(), name)
}
