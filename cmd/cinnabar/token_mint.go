package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// defaultTTL is how long a draft-08 token is good unless told otherwise: it must have an end.
const defaultTTL = time.Hour

// mint is what token mint was told.
type mint struct {
	key        secretFlag
	o          auth.MintOptions
	publish    []string
	subscribe  []string
	publishP   []string // URL patterns, as the next
	subscribeP []string
	payload    string
	ttl        time.Duration
}

func newTokenMint() *cobra.Command {
	var m mint
	cmd := &cobra.Command{
		Use:   "mint",
		Short: "Sign a token and print it",
		Long: `Sign a token and print it: a classic one, or with --generation draft-08 an access token of type at+jwt. That needs
--issuer and --audience, which the hub has as --issuer and --resource-identifier (unless given, its --public-url), and it
expires after an hour unless --ttl says otherwise. --publish and --subscribe are then topics, compared as they are, and
--publish-urlpattern and --subscribe-urlpattern are URL patterns.`,
		Example: "  cinnabar token mint --key @/run/secrets/hub --publish '*' --ttl 1h\n" +
			"  cinnabar token mint --key $KEY --subscribe 'https://example.com/users/42/{+any}' --payload '{\"name\": \"Ada\"}'\n" +
			"  cinnabar token mint --generation draft-08 --key $KEY --issuer https://example.com --audience $HUB \\\n" +
			"      --subscribe-urlpattern 'https://example.com/users/42/*'",
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd) },
	}
	m.key.bind(cmd, "key", "CINNABAR_KEY", "`key` to sign with: the secret of the hub or the issuer, or a PEM private key")
	f := cmd.Flags()
	m.o.Generation = spec.Classic.Name
	bindChoice(cmd, &m.o.Generation, "generation", "generation of the token", spec.Classic.Name, spec.Draft08.Name)
	f.StringVar(&m.o.Algorithm, "alg", "", "`algorithm`; when left out HS256, or what fits a PEM key")
	f.StringVar(&m.o.KeyID, "kid", "", "key `id`, for a hub with a JWK Set")
	f.StringArrayVar(&m.publish, "publish", nil, "`selector` of topics that may be published to; repeatable, * = all")
	f.StringArrayVar(&m.subscribe, "subscribe", nil, "`selector` of topics whose private updates may be received; repeatable, * = all")
	f.StringVar(&m.payload, "payload", "", "`JSON` to attach to subscriptions; in draft-08 an object")
	f.StringVar(&m.o.Subject, "subject", "", "`sub` claim")
	f.DurationVar(&m.ttl, "ttl", 0, "`time` until it expires; 0 = never, in draft-08 an hour")
	f.StringArrayVar(&m.publishP, "publish-urlpattern", nil, "draft-08: URL `pattern` of topics that may be published to; repeatable")
	f.StringArrayVar(&m.subscribeP, "subscribe-urlpattern", nil, "draft-08: URL `pattern` of topics whose private updates may be received; repeatable")
	f.StringVar(&m.o.Issuer, "issuer", "", "draft-08: `iss` claim, the URL that the hub knows the issuer by")
	f.StringArrayVar(&m.o.Audience, "audience", nil, "draft-08: `aud` claim, the hub's resource identifier; repeatable (default CINNABAR_HUB)")
	f.StringVar(&m.o.ClientID, "client-id", "", "draft-08: `client_id` claim")
	return cmd
}

func (m *mint) run(cmd *cobra.Command) (err error) {
	if m.o.Key, err = m.key.read(); err != nil {
		return err
	}
	if m.o.Key == "" {
		return &usageError{errors.New("which key? give --key or set CINNABAR_KEY")}
	}
	m.o.TTL = m.ttl
	if m.o.Generation == spec.Draft08.Name {
		err = m.draft08()
		m.doubt(cmd.ErrOrStderr())
	} else {
		err = m.classic(cmd)
	}
	if err != nil {
		return &usageError{err}
	}
	token, err := auth.Mint(m.o)
	if err != nil {
		return &usageError{err}
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
	return err
}

func (m *mint) classic(cmd *cobra.Command) error {
	for _, name := range []string{"publish-urlpattern", "subscribe-urlpattern", "issuer", "audience", "client-id"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s belongs to draft-08: give --generation draft-08 as well", name)
		}
	}
	m.o.Publish, m.o.Subscribe = m.publish, m.subscribe
	if m.payload != "" {
		m.o.Payload = json.RawMessage(m.payload)
	}
	return nil
}

// draft08 makes a detail of each action that anything is granted for.
func (m *mint) draft08() error {
	if m.o.Issuer == "" {
		return errors.New("which issuer? a draft-08 token needs --issuer, the URL that the hub knows it by")
	}
	if hub := os.Getenv("CINNABAR_HUB"); len(m.o.Audience) == 0 && hub != "" {
		m.o.Audience = []string{hub}
	}
	if len(m.o.Audience) == 0 {
		return errors.New("for which hub? a draft-08 token needs --audience, the hub's resource identifier, or CINNABAR_HUB")
	}
	if m.o.TTL == 0 {
		m.o.TTL = defaultTTL
	}
	if topics := selectors(m.publish, m.publishP); topics != nil {
		m.o.Details = append(m.o.Details, auth.MintDetail{Actions: []spec.Action{spec.ActionPublish}, Topics: topics})
	}
	topics := selectors(m.subscribe, m.subscribeP)
	switch {
	case topics != nil:
		d := auth.MintDetail{Actions: []spec.Action{spec.ActionSubscribe}, Topics: topics}
		if m.payload != "" {
			d.Payload = json.RawMessage(m.payload)
		}
		m.o.Details = append(m.o.Details, d)
	case m.payload != "":
		return errors.New("--payload belongs to what --subscribe or --subscribe-urlpattern grants")
	}
	return nil
}

// doubt tells on w what is legal in a draft-08 token and yet hardly meant.
func (m *mint) doubt(w io.Writer) {
	for _, t := range slices.Concat(m.publish, m.subscribe) {
		if _, ok := topic.Counterpart(topic.Selector{Kind: topic.Exact, Pattern: t}); !ok {
			fmt.Fprintf(w, "cinnabar: note: draft-08 has no URI templates: %q grants the topic that is spelt like this; "+
				"patterns are given with --publish-urlpattern and --subscribe-urlpattern\n", t)
		}
	}
	if u, err := url.Parse(m.o.Issuer); m.o.Issuer != "" && (err != nil || u.Host == "") {
		fmt.Fprintf(w, "cinnabar: note: the issuer %q is no URL; a hub of this program knows issuers by a whole URL, such as https://example.com\n", m.o.Issuer)
	}
}

// selectors are the topics and patterns of one action; nil for none.
func selectors(topics, patterns []string) []topic.Selector {
	var list []topic.Selector
	for _, t := range topics {
		list = append(list, topic.Selector{Kind: topic.Exact, Pattern: t})
	}
	for _, p := range patterns {
		list = append(list, topic.Selector{Kind: topic.URLPattern, Pattern: p})
	}
	return list
}
