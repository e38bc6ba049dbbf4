package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

// inspect is what token inspect was told.
type inspect struct {
	key      secretFlag
	alg      string
	issuer   string
	audience string
	config   string
	topics   []string
	json     bool
}

func newTokenInspect() *cobra.Command {
	var i inspect
	cmd := &cobra.Command{
		Use:   "inspect [TOKEN]",
		Short: "Explain a token: its generation, claims, validity, what it grants",
		Long: `Explain a token: which generation's rules a hub applies to it and why, its claims, whether a hub with the key of --key
would accept it now, what it grants, and for each --topic whether and why. The token is the argument, @/path/to/file,
- for standard input, or CINNABAR_TOKEN.

With --config it is judged by what a hub with that file, and the variables of the environment, trusts: the keys of its
roles, or the issuer that the token names. JWK Sets are then fetched.

Ends with 0 if the token would be accepted and grants something for each topic asked about, else with 1.`,
		Example: "  cinnabar token inspect $TOKEN --key $KEY --topic https://example.com/books/1\n" +
			"  cinnabar token inspect $TOKEN --key @issuer.pem --issuer https://id.example.com --audience $HUB\n" +
			"  cinnabar token inspect $TOKEN --config /etc/cinnabar.yaml",
		Args: cobra.MaximumNArgs(1),
		RunE: i.run,
	}
	i.key.bind(cmd, "key", "CINNABAR_KEY", "`key` to verify with: the secret of the hub or the issuer, or a PEM public key")
	f := cmd.Flags()
	f.StringVar(&i.alg, "alg", "", "`algorithm` of the key; when left out HS256, or for a PEM key what the token says")
	f.StringVar(&i.issuer, "issuer", "", "draft-08: `URL` of the issuer whose key it is; when left out the one that the token names")
	f.StringVar(&i.audience, "audience", "", "draft-08: `URL` that the hub has as resource identifier; when left out any")
	f.StringVar(&i.config, "config", "", "`file` of a hub's settings, in place of the flags before")
	f.StringArrayVar(&i.topics, "topic", nil, "`topic` to ask about; repeatable")
	f.BoolVar(&i.json, "json", false, "print the report as JSON")
	return cmd
}

func (i *inspect) run(cmd *cobra.Command, args []string) error {
	token, err := argumentToken(cmd, args)
	if err != nil {
		return err
	}
	report, err := i.report(cmd, token)
	if err != nil {
		return err
	}
	return printReport(cmd.OutOrStdout(), &report, i.json)
}

func (i *inspect) report(cmd *cobra.Command, token string) (auth.Report, error) {
	if i.config != "" {
		for _, name := range []string{"key", "alg", "issuer", "audience"} {
			if cmd.Flags().Changed(name) {
				return auth.Report{}, &usageError{fmt.Errorf("--%s cannot be used with --config, which says what the hub has", name)}
			}
		}
		return i.byConfig(cmd, token)
	}
	secret, err := i.key.read()
	if err != nil {
		return auth.Report{}, err
	}
	o := auth.InspectOptions{Issuer: i.issuer, Resource: i.audience, Topics: i.topics}
	if secret != "" {
		alg := i.alg
		if alg == "" && strings.Contains(secret, "-----BEGIN ") {
			alg = headerAlgorithm(token)
		}
		if o.Keys, err = auth.ParseKey("verification", secret, alg, true); err != nil {
			return auth.Report{}, &usageError{err}
		}
	}
	return auth.Inspect(token, o)
}

// byConfig reads the settings as serve does.
func (i *inspect) byConfig(cmd *cobra.Command, token string) (auth.Report, error) {
	settings := app.NewSettings(pflag.NewFlagSet("serve", pflag.ContinueOnError))
	settings.Config.ConfigFile = i.config
	if err := settings.Load(os.Environ()); err != nil {
		return auth.Report{}, &usageError{err}
	}
	ctx, stop := interruptible(cmd.Context(), inspectTimeout)
	defer stop()
	r, err := app.Inspect(ctx, settings.Config, token, i.topics)
	if errors.Is(err, app.ErrUsage) {
		err = &usageError{err}
	}
	return r, err
}

// inspectTimeout bounds the fetching of JWK Sets.
const inspectTimeout = time.Minute

func printReport(w io.Writer, r *auth.Report, asJSON bool) error {
	var err error
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		err = enc.Encode(r)
	} else {
		_, err = io.WriteString(w, r.String())
	}
	switch {
	case err != nil:
		return err
	case !r.Accepted:
		return errors.New("the token would not be accepted")
	}
	for _, t := range r.Topics {
		if !t.Publish.Granted && !t.Subscribe.Granted {
			return fmt.Errorf("the token grants nothing for topic %q", t.Topic)
		}
	}
	return nil
}

// argumentToken reads the token from where the user put it.
func argumentToken(cmd *cobra.Command, args []string) (string, error) {
	token := os.Getenv("CINNABAR_TOKEN")
	if len(args) == 1 {
		token = args[0]
	}
	if token == "-" {
		b, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 1<<20))
		if err != nil {
			return "", fmt.Errorf("read standard input: %w", err)
		}
		token = string(b)
	} else {
		var err error
		if token, err = app.NewSecret(token).Read(); err != nil {
			return "", &usageError{err}
		}
	}
	if token = strings.TrimPrefix(strings.TrimSpace(token), "Bearer "); token == "" { // as it is copied from a request
		return "", &usageError{errors.New("which token? give it as the argument, @/path/to/file, - for standard input, or set CINNABAR_TOKEN")}
	}
	return token, nil
}

// headerAlgorithm is the alg that the token's header claims, empty if it cannot be read. Only to explain a
// token: a hub never lets it choose.
func headerAlgorithm(token string) string {
	head, _, _ := strings.Cut(token, ".")
	var h struct {
		Algorithm string `json:"alg"`
	}
	b, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil || json.Unmarshal(b, &h) != nil {
		return ""
	}
	return h.Algorithm
}
