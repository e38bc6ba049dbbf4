package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

func newExport() *cobra.Command {
	var place app.Place
	var output, after string
	var topics []string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write a hub's log as lines of JSON",
		Long: `Write the updates that a hub retains, in their order, one JSON object a line, to be read by people and programs:
position, id, time, topics, type, retry, private and data; data that is not UTF-8 stands in data_base64. Private updates
are among them. An export cannot be restored: cinnabar backup saves a log.`,
		Example: "  cinnabar export --admin http://127.0.0.1:3001 --output - --topic 'https://example.com/books/{id}' | jq .data\n" +
			"  cinnabar export --data-dir /var/lib/cinnabar --output updates.ndjson",
	}
	place.Bind(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&output, "output", "", "`file` to write; - is standard output")
	f.StringVar(&after, "after", "", "begin after this event `id`")
	f.StringArrayVar(&topics, "topic", nil, "only updates of these topics, a `selector`: a topic, a URI template, or *; repeatable")
	required(cmd, "output")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := interruptible(cmd.Context(), 0)
		defer stop()
		return writeFile(cmd, output, func(w io.Writer) error {
			_, err := place.Export(ctx, w, after, topics)
			return fault(ctx, err)
		})
	}
	return cmd
}
