package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/cmd/internal/load"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Put load on any hub, and tell what it bears",
		Long: `Put load on the hub at --hub, a Cinnabar or any other, and print what was seen: rates, latencies, and what was lost,
duplicated, out of order or sent to the wrong subscriber. Everything goes over HTTP/1.1, with TLS if the URL says so.
Run it on another machine than the hub's, or keep in mind that the two share the processors: the last line tells
how much the generator took. Ctrl-C ends a run early, and prints what was measured until then.

Ends with 1 if the hub was at fault. docs/performance.md says what every figure means.`,
		RunE: needsCommand,
	}
	cmd.AddCommand(newBenchFanout(), newBenchTopics(), newBenchIdle(), newBenchReconnect(), newBenchPublish())
	return cmd
}

// benchTTL is how long a draft-08 token of a run is good; it must have an end.
const benchTTL = 24 * time.Hour

// benchFlags are what all of bench's commands have in common.
type benchFlags struct {
	hub                      hubFlags
	key, subscriberKey       secretFlag
	subscriberToken          secretFlag
	generation, issuer       string
	audience                 string
	anonymous, asJSON, quiet bool
	sources                  []string
	target                   load.Target
}

func (f *benchFlags) bind(cmd *cobra.Command, subscribes bool) {
	f.hub.bind(cmd)
	f.key.bind(cmd, "key", "CINNABAR_KEY", "`key` of the hub, to sign tokens for all topics with, when there is no --token")
	flags := cmd.Flags()
	f.generation = spec.Classic.Name
	bindChoice(cmd, &f.generation, "generation", "generation of the parameters to subscribe with, and of tokens that are signed with --key", spec.Classic.Name, spec.Draft08.Name)
	flags.StringVar(&f.issuer, "issuer", "", "draft-08: `iss` claim of tokens that are signed with --key")
	flags.StringVar(&f.audience, "audience", "", "draft-08: `aud` claim of such tokens, the hub's resource identifier; that of --hub unless given")
	flags.IntSliceVar(&f.target.Meter.PIDs, "pid", nil, "process `number` of the hub on this machine, to measure what it uses (Linux); repeatable")
	flags.StringVar(&f.target.Meter.MetricsURL, "metrics", "", "`URL` of the hub's metrics, to measure what it uses, such as http://127.0.0.1:3001/metrics")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object instead of a table")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "do not tell on standard error what is being done")
	if !subscribes {
		return
	}
	f.subscriberToken.bind(cmd, "subscriber-token", "CINNABAR_SUBSCRIBER_TOKEN", "JSON Web `Token` of the subscribers, when it is another")
	f.subscriberKey.bind(cmd, "subscriber-key", "CINNABAR_SUBSCRIBER_KEY", "`key` for subscribers' tokens, when it is another")
	flags.BoolVar(&f.anonymous, "anonymous", false, "subscribe without a token")
	flags.StringVar(&f.target.PublishURL, "publish-hub", "", "`URL` of the node to publish to, when it is another than --hub")
	flags.StringSliceVar(&f.sources, "source", nil, "local `address` to connect from; repeatable, used in turn")
	flags.DurationVar(&f.target.Patience, "patience", 5*time.Second, "`time` to wait for missing updates while none arrives")
	flags.IntVar(&f.target.Connect, "connect", 128, "`number` of streams that are being opened at a time")
}

// read completes the target.
func (f *benchFlags) read() (*load.Target, error) {
	t := &f.target
	var err error
	if t.URL, _, err = f.hub.read(); err != nil {
		return nil, err
	}
	t.Draft08 = f.generation == spec.Draft08.Name
	if t.PublishToken, err = f.token(&f.hub.token, &f.key); err != nil {
		return nil, err
	}
	if !f.quiet {
		t.Notify = func(what string) { fmt.Fprintln(os.Stderr, "bench:", what) }
	}
	if f.subscriberToken.flag == nil { // a command that does not subscribe
		return t, nil
	}
	if t.PublishURL != "" {
		if err := checkAddress("--publish-hub", t.PublishURL, "http://127.0.0.1:3000/.well-known/mercure"); err != nil {
			return nil, err
		}
	}
	for _, s := range f.sources {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, &usageError{fmt.Errorf("--source: %w", err)}
		}
		t.Sources = append(t.Sources, a)
	}
	return t, f.readSubscriber()
}

// readSubscriber reads the subscribers' token, which is the publishers' unless there is another.
func (f *benchFlags) readSubscriber() (err error) {
	t := &f.target
	if f.anonymous {
		return nil
	}
	if t.SubscribeToken, err = f.token(&f.subscriberToken, &f.subscriberKey); err == nil && t.SubscribeToken == "" {
		t.SubscribeToken = t.PublishToken
	}
	return err
}

// token is the one that was given, or one for all topics, signed with the key that was given, or none.
func (f *benchFlags) token(token, key *secretFlag) (string, error) {
	if token.flag.Changed && key.flag.Changed {
		return "", &usageError{fmt.Errorf("give --%s or --%s, not both", token.flag.Name, key.flag.Name)}
	}
	if !key.flag.Changed {
		if t, err := token.read(); err != nil || t != "" {
			return t, err
		}
	}
	k, err := key.read()
	if err != nil || k == "" {
		return "", err
	}
	o := auth.MintOptions{Key: k, Publish: []string{spec.Wildcard}, Subscribe: []string{spec.Wildcard}}
	if f.target.Draft08 {
		if f.issuer == "" {
			return "", &usageError{errors.New("which issuer? a draft-08 token needs --issuer, the URL that the hub knows it by")}
		}
		all := []topic.Selector{{Kind: topic.Exact, Pattern: spec.Wildcard}}
		o = auth.MintOptions{
			Generation: spec.Draft08.Name, Key: k, Issuer: f.issuer, Audience: []string{cmp.Or(f.audience, f.target.URL)}, TTL: benchTTL,
			Details: []auth.MintDetail{{Actions: []spec.Action{spec.ActionPublish, spec.ActionSubscribe}, Topics: all}},
		}
	}
	t, err := auth.Mint(o)
	if err != nil {
		return "", &usageError{err}
	}
	return t, nil
}

// report prints a result, and makes faults of the hub the command's error.
func (f *benchFlags) report(cmd *cobra.Command, r *load.Result, err error) error {
	if err != nil {
		if _, ok := errors.AsType[*load.OptionError](err); ok {
			return &usageError{fmt.Errorf("%w\nSee %s --help", err, cmd.CommandPath())}
		}
		return err
	}
	if f.asJSON {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		err = r.WriteTable(cmd.OutOrStdout())
	}
	if err != nil {
		return err
	}
	if err := r.Faults(); err != nil {
		return fmt.Errorf("at fault: %w", err)
	}
	return nil
}
