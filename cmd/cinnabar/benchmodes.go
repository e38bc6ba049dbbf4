package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/load"
)

// benchCommand makes a command of bench that does what run does.
func benchCommand(cmd *cobra.Command, subscribes bool, run func(context.Context, load.Target) (*load.Result, error)) *cobra.Command {
	f := &benchFlags{}
	f.bind(cmd, subscribes)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		target, err := f.read()
		if err != nil {
			return err
		}
		ctx, stop := interruptible(cmd.Context(), 0)
		defer stop()
		r, err := run(ctx, *target)
		return f.report(cmd, r, err)
	}
	return cmd
}

func bindPublishing(cmd *cobra.Command, p *load.Publishing) {
	f := cmd.Flags()
	f.IntVar(&p.Publishers, "publishers", 4, "`number` of connections that publish, each waiting for every answer")
	f.Float64Var(&p.Rate, "rate", 0, "`updates` a second in all; 0 = flat out. Compare latencies at a fixed rate only")
	f.DurationVar(&p.Warmup, "warmup", time.Second, "`time` of publishing before anything is measured")
	f.DurationVar(&p.Duration, "duration", 10*time.Second, "`time` that is measured")
	bindUpdates(cmd, &p.Size, &p.Private)
}

func bindUpdates(cmd *cobra.Command, size *int, private *bool) {
	cmd.Flags().IntVar(size, "size", 200, "`bytes` of data in an update")
	cmd.Flags().BoolVar(private, "private", false, "publish private updates, which the subscribers' token must cover")
}

func bindWindow(cmd *cobra.Command, p *load.Publishing) {
	cmd.Flags().IntVar(&p.Window, "window", 32, "flat out: `updates` that may be on their way to subscribers at a time; 0 = no limit")
}

func newBenchFanout() *cobra.Command {
	var o load.Fanout
	cmd := benchCommand(&cobra.Command{
		Use:   "fanout",
		Short: "Everybody on one topic",
		Example: "  cinnabar bench fanout --hub $HUB --key $KEY --subscribers 1000\n" +
			"  cinnabar bench fanout --hub $HUB --key $KEY --subscribers 1000 --rate 30 --metrics http://127.0.0.1:3001/metrics",
	}, true, func(ctx context.Context, t load.Target) (*load.Result, error) { return load.RunFanout(ctx, t, o) })
	cmd.Flags().IntVar(&o.Subscribers, "subscribers", 1000, "`number` of subscribers")
	cmd.Flags().StringVar(&o.Topic, "topic", "", "`topic` to use instead of one of its own")
	bindPublishing(cmd, &o.Publishing)
	bindWindow(cmd, &o.Publishing)
	return cmd
}

func newBenchTopics() *cobra.Command {
	var o load.Topics
	cmd := benchCommand(&cobra.Command{
		Use:   "topics",
		Short: "Subscribers spread over many topics or templates, updates to any of them",
		Example: "  cinnabar bench topics --hub $HUB --key $KEY --subscribers 5000 --topics 1000\n" +
			"  cinnabar bench topics --hub $HUB --key $KEY --selector-template 'https://example.com/c%d/books/{id}'",
	}, true, func(ctx context.Context, t load.Target) (*load.Result, error) { return load.RunTopics(ctx, t, o) })
	cmd.Flags().IntVar(&o.Subscribers, "subscribers", 5000, "`number` of subscribers")
	bindTopics(cmd, &o.Topics, &o.Prefix, 1000)
	cmd.Flags().StringVar(&o.SelectorTemplate, "selector-template", "", "subscribe to this `template`, with %d for the topic's number; every update goes to a topic never seen before")
	bindPublishing(cmd, &o.Publishing)
	bindWindow(cmd, &o.Publishing)
	return cmd
}

func bindTopics(cmd *cobra.Command, n *int, prefix *string, usual int) {
	cmd.Flags().IntVar(n, "topics", usual, "`number` of topics")
	cmd.Flags().StringVar(prefix, "topic-prefix", "", "how topics `begin`, instead of https://cinnabar.example/bench/")
}

func newBenchIdle() *cobra.Command {
	var o load.Idle
	cmd := benchCommand(&cobra.Command{
		Use:     "idle",
		Short:   "Open many streams and hold them: how many, how fast, at what memory",
		Example: "  cinnabar bench idle --hub $HUB --key $KEY --subscribers 20000 --hold 1m --pid $(pidof cinnabar)",
	}, true, func(ctx context.Context, t load.Target) (*load.Result, error) { return load.RunIdle(ctx, t, o) })
	cmd.Flags().IntVar(&o.Subscribers, "subscribers", 10000, "`number` of subscribers")
	cmd.Flags().DurationVar(&o.Hold, "hold", 30*time.Second, "`time` to hold the streams; heartbeats come every 40s or so")
	bindTopics(cmd, &o.Topics, &o.Prefix, 1)
	return cmd
}

func newBenchReconnect() *cobra.Command {
	var o load.Reconnect
	cmd := benchCommand(&cobra.Command{
		Use:     "reconnect",
		Short:   "Everybody comes back at once, with a cursor, and gets what was missed",
		Example: "  cinnabar bench reconnect --hub $HUB --key $KEY --subscribers 5000 --missed 20 --history 100000",
	}, true, func(ctx context.Context, t load.Target) (*load.Result, error) { return load.RunReconnect(ctx, t, o) })
	cmd.Flags().IntVar(&o.Subscribers, "subscribers", 1000, "`number` of subscribers")
	cmd.Flags().IntVar(&o.Missed, "missed", 20, "`updates` that each subscriber misses")
	cmd.Flags().IntVar(&o.History, "history", 0, "`updates` of other topics that are published first")
	cmd.Flags().StringVar(&o.Topic, "topic", "", "`topic` to use instead of one of its own")
	bindUpdates(cmd, &o.Size, &o.Private)
	return cmd
}

func newBenchPublish() *cobra.Command {
	var o load.Publish
	cmd := benchCommand(&cobra.Command{
		Use:     "publish",
		Short:   "Publish with nobody listening",
		Example: "  cinnabar bench publish --hub $HUB --key $KEY --publishers 64 --metrics http://127.0.0.1:3001/metrics",
	}, false, func(ctx context.Context, t load.Target) (*load.Result, error) { return load.RunPublish(ctx, t, o) })
	bindTopics(cmd, &o.Topics, &o.Prefix, 1)
	bindPublishing(cmd, &o.Publishing)
	return cmd
}
