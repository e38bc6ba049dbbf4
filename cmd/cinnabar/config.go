package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print what serve would run with, and where each value comes from",
		Long: `Print the effective configuration as YAML, secrets redacted, the source of each value as a comment. It takes
the flags of serve, and reads the same environment and file. Nothing is started; what serve would refuse is an error.`,
		Example: "  cinnabar config --config /etc/cinnabar.yaml",
	}
	settings := app.NewSettings(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := settings.Load(os.Environ()); err != nil {
			return &usageError{err}
		}
		if err := settings.WriteYAML(cmd.OutOrStdout()); err != nil {
			return err
		}
		if err := app.Check(settings.Config); err != nil {
			return &usageError{err}
		}
		return nil
	}
	return cmd
}
