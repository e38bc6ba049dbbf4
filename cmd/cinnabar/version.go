package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			words := []string{"cinnabar", app.Version()}
			if info != nil {
				words = append(words, info.GoVersion)
				for _, s := range info.Settings {
					switch s.Key {
					case "GOOS", "GOARCH", "vcs.revision", "vcs.time":
						words = append(words, s.Value)
					case "vcs.modified":
						if s.Value == "true" {
							words = append(words, "modified")
						}
					}
				}
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(words, " "))
			return err
		},
	}
}
