package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
)

// publishTimeout bounds one publication; a hub that cannot store it answers 503 long before.
const publishTimeout = time.Minute

func newPublish() *cobra.Command {
	var hub hubFlags
	var u spec.Update
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Publish an update and print its id",
		Example: "  cinnabar publish --hub $HUB --token $TOKEN --topic https://example.com/books/1 --data '{\"stock\": 3}'\n" +
			"  date | cinnabar publish --topic clock --data -",
	}
	hub.bind(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&u.Topics, "topic", nil, "`topic` of the update; repeat for alternates")
	f.StringVar(&u.Data, "data", "", "`data`, or - to read standard input")
	f.BoolVar(&u.Private, "private", false, "only for subscribers whose token covers a topic")
	f.StringVar(&u.ID, "id", "", "event `id`; made by the hub when left out")
	f.StringVar(&u.Type, "type", "", "event `type`")
	f.Uint64Var(&u.Retry, "retry", 0, "reconnection time for subscribers, in `milliseconds`")
	required(cmd, "topic")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		url, token, err := hub.read()
		if err != nil {
			return err
		}
		if u.Data == "-" {
			b, err := io.ReadAll(cmd.InOrStdin())
			if err != nil {
				return fmt.Errorf("read standard input: %w", err)
			}
			u.Data = string(b)
		}
		ctx, stop := interruptible(cmd.Context(), publishTimeout)
		defer stop()
		p := client.Publisher{URL: url, Token: token}
		id, err := p.Publish(ctx, &u)
		if err != nil {
			return err
		}
		if !spec.ValidText(id) { // it would do to a terminal whatever it likes
			return fmt.Errorf("the hub took the update, but answers with something that is no id: %.80q", id)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), id)
		return err
	}
	return cmd
}
