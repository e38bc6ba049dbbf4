// Command cinnabar is a Mercure hub and the tools around it: `cinnabar serve` runs one, the other commands
// publish, subscribe, make and explain tokens, judge and load a hub, and save, move and read its log.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run(os.Args[1:])) }

// run executes one command and returns the exit code.
func run(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "cinnabar:", err)
	}
	return exitCode(err)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "cinnabar",
		Short: "A Mercure hub: publish to browsers over server-sent events",
		Long: `Cinnabar is a hub for the Mercure protocol: applications publish updates to it over HTTP, browsers and
other clients subscribe to topics and receive them as server-sent events, and resume after an interruption.

Try it:  cinnabar serve --dev

Exit codes: 0 done; 1 failed; 2 the command line or the configuration is wrong; 3 the hub refused (4xx);
4 the hub could not be reached or cannot serve now; 130 and 143 a second SIGINT or SIGTERM cut serve short.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newServe(), newPublish(), newSubscribe(), newToken(), newConformance(), newBench(), newCluster(),
		newBackup(), newRestore(), newExport(), newConfig(), newVersion())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if !c.Runnable() { // cobra's completion: it would print its help, and end well, whatever it is given
			c.RunE = needsCommand
		}
	}
	wrapArgs(root)
	completeChoices(root)
	return root
}
