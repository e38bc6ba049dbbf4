package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/spec/conformance"
)

func newConformance() *cobra.Command {
	var target conformance.Target
	var publisher, subscriber secretFlag
	var verbose bool
	cmd := &cobra.Command{
		Use:   "conformance URL",
		Short: "Judge any hub by the protocol, over HTTP",
		Long: `Run the black-box cases of the protocol against the hub at URL and print a verdict on each. The keys are the
hub's HMAC secrets (HS256), with which the cases sign tokens. Cases that need a hub started in a certain way
are skipped unless the flags below say that it was. Ends with 1 if a case failed.`,
		Example: "  cinnabar conformance http://127.0.0.1:3000/.well-known/mercure --publisher-key $KEY --subscriber-key $KEY --anonymous",
		Args:    cobra.ExactArgs(1),
	}
	publisher.bind(cmd, "publisher-key", "CINNABAR_KEY", "`secret` of the publisher role")
	subscriber.bind(cmd, "subscriber-key", "CINNABAR_KEY", "`secret` of the subscriber role")
	f := cmd.Flags()
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
		if target.PublisherKey == "" || target.SubscriberKey == "" {
			return &usageError{errors.New("give --publisher-key and --subscriber-key, or set CINNABAR_KEY for both")}
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
