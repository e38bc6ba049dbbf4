package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/auth"
)

func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make and explain tokens",
		RunE:  needsCommand,
	}
	cmd.AddCommand(newTokenMint(), newTokenInspect())
	return cmd
}

func newTokenMint() *cobra.Command {
	var key secretFlag
	var o auth.MintOptions
	var payload string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "mint",
		Short: "Sign a token and print it",
		Example: "  cinnabar token mint --key @/run/secrets/hub --publish '*' --ttl 1h\n" +
			"  cinnabar token mint --key $KEY --subscribe 'https://example.com/users/42/{+any}' --payload '{\"name\": \"Ada\"}'",
	}
	key.bind(cmd, "key", "CINNABAR_KEY", "`key` to sign with: the hub's secret, or a PEM private key")
	f := cmd.Flags()
	f.StringVar(&o.Algorithm, "alg", "", "`algorithm`; when left out HS256, or what fits a PEM key")
	f.StringVar(&o.KeyID, "kid", "", "key `id`, for a hub with a JWK Set")
	f.StringArrayVar(&o.Publish, "publish", nil, "`selector` of topics that may be published to; repeatable, * = all")
	f.StringArrayVar(&o.Subscribe, "subscribe", nil, "`selector` of topics whose private updates may be received; repeatable, * = all")
	f.StringVar(&payload, "payload", "", "`JSON` to attach to subscriptions")
	f.StringVar(&o.Subject, "subject", "", "`sub` claim")
	f.DurationVar(&ttl, "ttl", 0, "`time` until it expires; 0 = never")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if o.Key, err = key.read(); err != nil {
			return err
		}
		if o.Key == "" {
			return &usageError{errors.New("which key? give --key or set CINNABAR_KEY")}
		}
		if payload != "" {
			o.Payload = json.RawMessage(payload)
		}
		o.TTL = ttl
		token, err := auth.Mint(o)
		if err != nil {
			return &usageError{err}
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
		return err
	}
	return cmd
}
