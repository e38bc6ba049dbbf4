package main

import "github.com/spf13/cobra"

func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make and explain tokens",
		RunE:  needsCommand,
	}
	cmd.AddCommand(newTokenMint(), newTokenInspect())
	return cmd
}
