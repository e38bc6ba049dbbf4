package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/spec/client"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// jsonEvent is a line of subscribe --json. It has no retry: that of the stream stands in the first event's block.
type jsonEvent struct {
	ID   string `json:"id"`
	Type string `json:"type,omitempty"`
	Data string `json:"data"`
}

func newSubscribe() *cobra.Command {
	var hub hubFlags
	var s client.Subscriber
	var asJSON bool
	var count int
	cmd := &cobra.Command{
		Use:   "subscribe",
		Short: "Print updates as they come",
		Long: `Print the data of each update on standard output, one after the other; --json prints one JSON object a line
instead, with id and type. When the stream ends it reconnects with its cursor, after the time the hub asks
for and a random time more, for as long as it takes; only a first attempt that does not get through is an
error. What happens to the connection, and whether the hub says that updates were lost, is told on standard error.`,
		Example: "  cinnabar subscribe --hub $HUB --topic 'https://example.com/books/{id}' --last-event-id earliest --count 3",
	}
	hub.bind(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&s.Topics, "topic", nil, "`selector` of topics: a topic, a URI template, or *; repeatable")
	f.StringVar(&s.LastEventID, "last-event-id", "", "begin after this event `id`; earliest = with all there is")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	f.IntVar(&count, "count", 0, "end after this `number` of updates; 0 = never")
	required(cmd, "topic")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if count < 0 {
			return &usageError{errors.New("--count must not be negative")}
		}
		if s.URL, s.Token, err = hub.read(); err != nil {
			return err
		}
		report(&s, cmd.ErrOrStderr())
		ctx, stop := interruptible(cmd.Context(), 0)
		defer stop()
		seen := 0
		err = s.Run(ctx, func(e sse.Event) error {
			if err := printEvent(cmd.OutOrStdout(), e, asJSON); err != nil {
				return err
			}
			if seen++; seen == count {
				return client.ErrStop
			}
			return nil
		})
		if errors.Is(err, errInterrupted) && count == 0 {
			return nil // how an endless subscription ends
		}
		return err
	}
	return cmd
}

func printEvent(w io.Writer, e sse.Event, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprintln(w, e.Data)
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(jsonEvent{ID: e.ID, Type: e.Type, Data: e.Data})
}

// report tells on w what happens to the connection of s.
func report(s *client.Subscriber, w io.Writer) {
	s.OnOpen = func(o client.Open) {
		switch {
		case o.Lost:
			fmt.Fprintf(w, "cinnabar: updates may be lost: asked for what came after %q, the hub answers %q\n", o.Sent, o.Got)
		case o.Sent != "" && o.Got != "":
			fmt.Fprintf(w, "cinnabar: subscribed, resumed after %q\n", o.Sent)
		default:
			fmt.Fprintln(w, "cinnabar: subscribed")
		}
	}
	s.OnRetry = func(cause error, wait time.Duration) {
		what := "the stream ended"
		if !client.Ended(cause) {
			what = cause.Error()
		}
		fmt.Fprintf(w, "cinnabar: %s, again in %s\n", what, wait.Round(100*time.Millisecond))
	}
}
