package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			line := "cinnabar " + version()
			if info != nil {
				line += " " + info.GoVersion
				for _, s := range info.Settings {
					switch s.Key {
					case "GOOS", "GOARCH", "vcs.revision", "vcs.time":
						line += " " + s.Value
					case "vcs.modified":
						if s.Value == "true" {
							line += " modified"
						}
					}
				}
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		},
	}
}

// version is the module's version as the Go tool recorded it; "devel" for a build from a work tree.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
