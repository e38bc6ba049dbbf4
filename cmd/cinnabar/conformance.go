package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/conformance"
)

func newConformance() *cobra.Command {
	var target conformance.Target
	var publisher, subscriber, issuer secretFlag
	var verbose bool
	cmd := &cobra.Command{
		Use:   "conformance URL",
		Short: "Judge any hub by the protocol, over HTTP",
		Long: `Run the black-box cases of the protocol against the hub at URL and print a verdict on each. The cases sign
tokens of their own: classic ones with the hub's HMAC secrets (HS256), those of draft-08 with the key of an
issuer that the hub trusts. Cases that hold for both generations are tried in each. Cases that need a hub
started in a certain way are skipped unless the flags below say that it was. Ends with 1 if a case failed.`,
		Example: "  cinnabar conformance http://127.0.0.1:3000/.well-known/mercure --publisher-key $KEY --subscriber-key $KEY --anonymous\n" +
			"  cinnabar conformance https://hub.example.com/.well-known/mercure --generation draft-08 \\\n" +
			"    --issuer https://id.example.com --issuer-key @issuer.pem",
		Args: oneArg("which hub? give its URL as the argument"),
	}
	publisher.bind(cmd, "publisher-key", "CINNABAR_KEY", "`secret` of the publisher role")
	subscriber.bind(cmd, "subscriber-key", "CINNABAR_KEY", "`secret` of the subscriber role")
	issuer.bind(cmd, "issuer-key", "CINNABAR_ISSUER_KEY", "`secret` or PEM private key of the issuer")
	f := cmd.Flags()
	bindChoice(cmd, &target.Generation, "generation", "generation of the protocol to try; when left out those whose keys are given", spec.Classic.Name, spec.Draft08.Name, "both")
	f.StringVar(&target.Issuer, "issuer", "", "`URL` of an issuer that the hub trusts in both roles, the iss of draft-08 tokens")
	f.StringVar(&target.IssuerAlg, "issuer-alg", "", "`algorithm` of the issuer's tokens; when left out HS256, or what fits a PEM key")
	f.StringVar(&target.Resource, "audience", "", "the hub's resource identifier, a `URL`, the aud of draft-08 tokens, when it is not the one tried")
	f.StringVar(&target.PublicURL, "public-url", "", "the hub's `URL` against which it resolves relative topics and patterns; when left out that is not tried")
	f.BoolVar(&target.NoClassic, "no-classic", false, "the hub serves draft-08 alone (--classic=false)")
	f.BoolVar(&target.NoIssuers, "no-issuers", false, "the hub has no issuers: classic tokens alone, no metadata")
	f.BoolVar(&target.Anonymous, "anonymous", false, "the hub takes anonymous subscribers")
	f.BoolVar(&target.Subscriptions, "subscriptions", false, "the hub keeps the list of active subscriptions")
	f.StringVar(&target.AllowOrigin, "allow-origin", "", "an `origin` listed in the hub's cors-origin")
	f.StringVar(&target.PublishOrigin, "publish-origin", "", "an `origin` listed in the hub's publish-origin")
	f.StringVar(&target.Origin, "origin", "", "the hub's own public `origin`, when it is not the one of URL")
	f.DurationVar(&target.Heartbeat, "heartbeat", 0, "the hub's heartbeat, when it is short")
	f.DurationVar(&target.Lifetime, "lifetime", 0, "the hub's maximum connection lifetime, when it is short")
	f.DurationVar(&target.WriteTimeout, "write-timeout", 0, "the hub's write timeout, when readers may be stalled for it")
	f.BoolVar(&target.NoRetry, "no-retry", false, "the hub sends no retry field of its own")
	f.BoolVar(&target.NoHTTP2, "no-http2", false, "the hub speaks no HTTP/2")
	f.DurationVar(&target.Wait, "wait", 5*time.Second, "how long to wait for what must come")
	f.BoolVarP(&verbose, "verbose", "v", false, "also print the cases that hold")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		target.URL = args[0]
		if err := checkURL(target.URL); err != nil {
			return err
		}
		if target.PublisherKey, err = publisher.read(); err != nil {
			return err
		}
		if target.SubscriberKey, err = subscriber.read(); err != nil {
			return err
		}
		if target.IssuerKey, err = issuer.read(); err != nil {
			return err
		}
		if err := target.Check(); err != nil {
			return &usageError{fmt.Errorf("%w; see --publisher-key, --subscriber-key, --issuer and --issuer-key", err)}
		}
		ctx, stop := interruptible(cmd.Context(), 0)
		defer stop()
		var total, skipped int
		failed, err := conformance.Run(ctx, target, func(r conformance.Result) {
			total++
			if r.Skipped != "" {
				skipped++
			}
			printVerdict(cmd.OutOrStdout(), &r, verbose)
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%d cases: %d held, %d failed, %d skipped\n", total, total-failed-skipped, failed, skipped)
		if failed > 0 {
			return fmt.Errorf("%d cases failed", failed)
		}
		return nil
	}
	return cmd
}

func printVerdict(w io.Writer, r *conformance.Result, verbose bool) {
	rows := strings.Join(r.Case.Rows, " ")
	switch {
	case r.Err != nil:
		fmt.Fprintf(w, "FAIL  %s (%s)\n      %s\n      %s\n", r.Name(), rows, r.Case.Doc, strings.ReplaceAll(r.Err.Error(), "\n", "\n      "))
	case r.Skipped != "":
		fmt.Fprintf(w, "skip  %s (%s): %s\n", r.Name(), rows, r.Skipped)
	case verbose:
		fmt.Fprintf(w, "ok    %s (%s)\n", r.Name(), rows)
	}
}
