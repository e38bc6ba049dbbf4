package main

import (
	"regexp"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

// TestVariablesOfOtherCommandsDoNotKeepAHubFromStarting sets each variable that a flag of any command says it reads:
// serve, and token inspect --config, would otherwise take it for a misspelt setting.
func TestVariablesOfOtherCommandsDoNotKeepAHubFromStarting(t *testing.T) {
	named := regexp.MustCompile(`\[(CINNABAR_[A-Z_]+)\]`)
	read := make(map[string]bool)
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		look := func(f *pflag.Flag) {
			if m := named.FindStringSubmatch(f.Usage); m != nil {
				read[m[1]] = true
			}
		}
		cmd.Flags().VisitAll(look)
		cmd.PersistentFlags().VisitAll(look)
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(newRoot())
	if len(read) < 5 {
		t.Fatalf("the help names %v, which cannot be all", read)
	}
	for name := range read {
		settings := app.NewSettings(pflag.NewFlagSet("serve", pflag.ContinueOnError))
		if err := settings.Load([]string{name + "=something-of-more-than-32-bytes-in-it"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
