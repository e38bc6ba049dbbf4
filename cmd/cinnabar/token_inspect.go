package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/auth"
)

func newTokenInspect() *cobra.Command {
	var key secretFlag
	var alg string
	var topics []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect [TOKEN]",
		Short: "Explain a token: claims, validity, what it grants",
		Long: `Explain a token: its claims, whether a hub with the key of --key would accept it now, what it grants, and for
each --topic whether and why. The token is the argument, - for standard input, or CINNABAR_TOKEN.

Ends with 0 if the token would be accepted and grants something for each topic asked about, else with 1.`,
		Example: "  cinnabar token inspect $TOKEN --key $KEY --topic https://example.com/books/1",
		Args:    cobra.MaximumNArgs(1),
	}
	key.bind(cmd, "key", "CINNABAR_KEY", "`key` to verify with: the hub's secret, or a PEM public key")
	f := cmd.Flags()
	f.StringVar(&alg, "alg", "", "`algorithm` of the key; when left out HS256, or for a PEM key what the token says")
	f.StringArrayVar(&topics, "topic", nil, "`topic` to ask about; repeatable")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		token, err := argumentToken(cmd, args)
		if err != nil {
			return err
		}
		secret, err := key.read()
		if err != nil {
			return err
		}
		var keys auth.Keys // stays nil without a key
		if secret != "" {
			if alg == "" && strings.Contains(secret, "-----BEGIN ") {
				alg = headerAlgorithm(token)
			}
			if keys, err = auth.ParseKey("verification", secret, alg, true); err != nil {
				return &usageError{err}
			}
		}
		report, err := auth.Inspect(token, auth.InspectOptions{Keys: keys, Topics: topics})
		if err != nil {
			return err
		}
		return printReport(cmd.OutOrStdout(), &report, asJSON)
	}
	return cmd
}

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
	}
	if token = strings.TrimSpace(token); token == "" {
		return "", &usageError{errors.New("which token? give it as the argument, - for standard input, or set CINNABAR_TOKEN")}
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
