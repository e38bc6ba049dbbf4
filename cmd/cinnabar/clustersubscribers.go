package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/spec"
)

func newClusterSubscriptions(admin *string) *cobra.Command {
	var raw bool
	var topic string
	var limit int
	cmd := &cobra.Command{
		Use:   "subscriptions",
		Short: "Print how many subscriptions there are on all nodes, by selector",
		Long: `Print how many subscriptions there are on all nodes together, by selector, those with most first. The hub must
keep the list of its subscribers (--subscriptions of serve). MATCH tells the language of a selector: topic is classic,
exact and urlpattern are the match types of draft-08. Who they are is told by the subscription API, which needs a
token.`,
		Example: "  cinnabar cluster subscriptions\n" +
			"  cinnabar cluster subscriptions --topic https://example.com/rooms/7   # how many get what is published there",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{"limit": {strconv.Itoa(limit)}}
			if topic != "" {
				query.Set("topic", topic)
			}
			body, err := askAdmin(cmd.Context(), *admin, http.MethodGet, "subscriptions/counts?"+query.Encode(), nil)
			if err != nil {
				return err
			}
			var counts app.SubscriptionCounts
			if err := json.Unmarshal(body, &counts); err != nil {
				return fmt.Errorf("what answered is no admin listener: %w", err)
			}
			if raw {
				_, err = cmd.OutOrStdout().Write(append(bytes.TrimSpace(body), '\n'))
				return err
			}
			return writeCounts(cmd.OutOrStdout(), &counts)
		},
	}
	f := cmd.Flags()
	f.StringVar(&topic, "topic", "", "count only selectors that match this `topic`")
	f.IntVar(&limit, "limit", 100, "list a `number` of selectors at most; all are counted")
	f.BoolVar(&raw, "json", false, "print what the node answered")
	return cmd
}

// writeCounts writes a table for people.
func writeCounts(w io.Writer, c *app.SubscriptionCounts) error {
	var b bytes.Buffer
	if len(c.Selectors) > 0 {
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		row(table, "SUBSCRIPTIONS", "MATCH", "SELECTOR")
		for _, s := range c.Selectors {
			row(table, strconv.Itoa(s.Subscriptions), cmp.Or(s.MatchType, spec.FieldTopic), s.Selector)
		}
		_ = table.Flush() // into memory
	}
	if c.More > 0 {
		fmt.Fprintf(&b, "and %d selectors more\n", c.More)
	}
	about := ""
	if c.Topic != "" {
		about = " match " + printable(c.Topic)
	}
	fmt.Fprintf(&b, "%d subscriptions of %d subscribers%s\n", c.Subscriptions, c.Subscribers, about)
	_, err := w.Write(b.Bytes())
	return err
}

func newClusterDisconnect(admin *string) *cobra.Command {
	var subscriber, subject string
	var keepAway time.Duration
	cmd := &cobra.Command{
		Use:   "disconnect",
		Short: "End the streams of a subscriber or of a token's subject on all nodes, and keep the client away",
		Long: `End streams on all nodes and keep their clients away for a while: asked again, the hub answers 204, which ends
the attempts of a browser.

--subject ends every stream opened with a token of that subject. --subscriber ends one connection, named by its id in
the subscription API; who comes back is known by the token's subject, so that one whose token has none can return.

Nodes remember in their memory whom to keep away, and tell those that start later. To keep somebody away for good, do not
give out tokens.`,
		Example: "  cinnabar cluster disconnect --subject ann --for 1h\n" +
			"  cinnabar cluster disconnect --subscriber urn:uuid:2e0a… --for 0s   # may come back at once",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (subscriber == "") == (subject == "") {
				return &usageError{errors.New("whom? give either --subscriber or --subject")}
			}
			order, err := json.Marshal(map[string]string{"subscriber": subscriber, "subject": subject, "for": keepAway.String()})
			if err != nil {
				return err
			}
			body, err := askAdmin(cmd.Context(), *admin, http.MethodPost, "subscribers/disconnect", order)
			if err != nil {
				return err
			}
			var done app.Disconnected
			if err := json.Unmarshal(body, &done); err != nil {
				return fmt.Errorf("what answered is no admin listener: %w", err)
			}
			return writeDisconnected(cmd.OutOrStdout(), &done)
		},
	}
	f := cmd.Flags()
	f.StringVar(&subscriber, "subscriber", "", "`id` of a connection, as the subscription API tells it")
	f.StringVar(&subject, "subject", "", "`subject` of tokens (their sub claim)")
	f.DurationVar(&keepAway, "for", 5*time.Minute, "how long to keep the client away, at most 24h; 0s = it may come back at once")
	return cmd
}

// writeDisconnected writes what each node did. The error names the nodes that refused.
func writeDisconnected(w io.Writer, d *app.Disconnected) error {
	var b bytes.Buffer
	var errs []error
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row(table, "NODE", "STREAMS ENDED")
	for _, n := range d.Nodes {
		streams := strconv.Itoa(n.Streams)
		switch {
		case !n.Answers:
			streams = "no answer"
		case n.Error != "":
			streams = "refused"
			errs = append(errs, fmt.Errorf("%s refuses: %s", printable(n.Name), printable(n.Error)))
		}
		row(table, orDash(n.Name), streams)
	}
	_ = table.Flush() // into memory
	if d.Subject != "" {
		fmt.Fprintf(&b, "%s is kept away for %s\n", printable(d.Subject), printable(d.For))
	} else {
		fmt.Fprintf(&b, "nobody is kept away\n")
	}
	_, err := w.Write(b.Bytes())
	return errors.Join(append(errs, err)...)
}
