package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
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

// defaultMaxEvent is twice what the largest publication of a hub with a broker can be.
const defaultMaxEvent = "64MiB"

func newSubscribe() *cobra.Command {
	var hub hubFlags
	var s client.Subscriber
	var asJSON bool
	var count int
	var maxEvent string
	cmd := &cobra.Command{
		Use:   "subscribe",
		Short: "Print updates as they come",
		Long: `Print the data of each update on standard output, one after the other; --json prints one JSON object a line
instead, with id and type. When the stream ends it reconnects with its cursor, after the time the hub asks
for and a random time more, for as long as it takes; only a first attempt that does not get through is an
error. What happens to the connection, and whether the hub says that updates were lost, is told on standard error.`,
		Example: "  cinnabar subscribe --hub $HUB --topic 'https://example.com/books/{id}' --last-event-id earliest --count 3\n" +
			"  cinnabar subscribe --hub $HUB --match-urlpattern 'https://example.com/books/:id'",
	}
	hub.bind(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&s.Topics, "topic", nil, "`selector` of topics: a topic, a URI template, or *, as the classic protocol has it; repeatable")
	f.StringArrayVar(&s.Match, "match", nil, "`topic`, or *, as draft-08 has it; repeatable")
	f.StringArrayVar(&s.URLPatterns, "match-urlpattern", nil, "URL `pattern` of topics, as draft-08 has it; repeatable")
	f.StringVar(&s.LastEventID, "last-event-id", "", "begin after this event `id`; earliest = with all there is")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	f.IntVar(&count, "count", 0, "end after this `number` of updates; 0 = never")
	f.StringVar(&maxEvent, "max-event", defaultMaxEvent, "largest event taken, a `size`; a longer one ends the command")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if len(s.Topics)+len(s.Match)+len(s.URLPatterns) == 0 {
			return &usageError{errors.New("which topics? give --topic, --match or --match-urlpattern")}
		}
		if slices.Contains(slices.Concat(s.Topics, s.Match, s.URLPatterns), "") { // legal, but no topic is empty
			return &usageError{errors.New("an empty --topic, --match or --match-urlpattern selects nothing")}
		}
		if count < 0 {
			return &usageError{errors.New("--count must not be negative")}
		}
		if s.MaxEvent, err = parseMaxEvent(maxEvent); err != nil {
			return &usageError{err}
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
		switch {
		case errors.Is(err, errInterrupted) && count == 0:
			return nil // how an endless subscription ends
		case errors.Is(err, sse.ErrTooLong):
			return fmt.Errorf("%w; --max-event allows more than %s", err, maxEvent)
		}
		return err
	}
	return cmd
}

func parseMaxEvent(size string) (int, error) {
	n, err := humanize.ParseBytes(size)
	if err != nil || n == 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("--max-event: %q must be a size such as 512KiB, 64MiB or 1GiB", size)
	}
	return int(n), nil
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
