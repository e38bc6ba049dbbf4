package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a hub",
		Long: `Run a hub until SIGTERM or SIGINT, which end every stream after a whole event; a second one ends at once.
SIGHUP reads keys and certificates again.

Every flag can also come from the environment (--data-dir is CINNABAR_DATA_DIR; repeatable flags take a
comma-separated list) and from the YAML file of --config (data-dir: …). A flag wins over the environment,
that over the file, that over the default. Secrets may be written @/path/to/file. The names
MERCURE_PUBLISHER_JWT_KEY, MERCURE_PUBLISHER_JWT_ALG, MERCURE_SUBSCRIBER_JWT_KEY and
MERCURE_SUBSCRIBER_JWT_ALG are understood too. cinnabar config shows what is in effect.`,
		Example: "  cinnabar serve --dev\n" +
			"  cinnabar serve --dev --nodes 3\n" +
			"  cinnabar serve --publisher-jwt-key @/run/secrets/hub --subscriber-jwt-key @/run/secrets/hub --anonymous\n" +
			"  cinnabar serve --public-url https://example.com/.well-known/mercure --issuer https://id.example.com",
	}
	settings := app.NewSettings(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return serve(cmd, settings) }
	return cmd
}

func serve(cmd *cobra.Command, settings *app.Settings) error {
	if err := settings.Load(os.Environ()); err != nil {
		return &usageError{err}
	}
	cfg := settings.Config
	log := app.NewLogger(cmd.ErrOrStderr(), &cfg, isTerminal(cmd.ErrOrStderr()))
	a, err := newHub(cfg, log)
	if err != nil {
		return &usageError{err}
	}

	w := watchSignals()
	defer w.stop()
	if err := start(cmd.Context(), a.Start, w); err != nil {
		return err
	}
	if err := a.WriteBanner(cmd.OutOrStdout(), app.Version()); err != nil {
		log.Warn("banner not written", "error", err)
	}
	notify(daemon.SdNotifyReady + "\nSTATUS=" + a.URL())
	return attend(cmd.Context(), a, &cfg, log, w)
}

// hubs is what serve runs: a hub, or several that are a cluster.
type hubs interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Reload(ctx context.Context) error
	Failed() <-chan error
	URL() string
	WriteBanner(w io.Writer, version string) error
}

func newHub(cfg app.Config, log *slog.Logger) (hubs, error) {
	if cfg.Nodes > 1 {
		return app.NewNodes(cfg, log)
	}
	return app.New(cfg, log)
}

// start runs the start of a hub. It may take a while, with a large store or a key set that is far away: a signal
// ends it. One that comes as the hub has started is left to attend, which stops the hub.
func start(ctx context.Context, run func(context.Context) error, w *signalWatch) error {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	started := make(chan error, 1)
	go func() { started <- run(ctx) }()
	select {
	case err := <-started:
		return err
	case s := <-w.ended:
		abort(fmt.Errorf("stopped while starting: %s", s))
		err := <-started
		if err == nil {
			w.ended <- s // there is room: it came from there, and is the only one
		}
		return err
	}
}

// attend lets the hub run until a signal or a failure of its own, then stops it.
func attend(ctx context.Context, a hubs, cfg *app.Config, log *slog.Logger, w *signalWatch) error {
	var failed error
	reloadCtx, endReloads := context.WithCancel(ctx)
	defer endReloads()
	var reloads sync.WaitGroup
	reloads.Go(func() { reloadWhenAsked(reloadCtx, a, w) })
	select {
	case failed = <-a.Failed():
	case s := <-w.ended:
		log.Info("stopping", "signal", s.String())
	}
	endReloads()
	reloads.Wait()
	notify(daemon.SdNotifyStopping)
	stopCtx, cancel := context.WithTimeout(ctx, cfg.DrainDelay+cfg.ShutdownTimeout)
	defer cancel()
	return errors.Join(failed, a.Stop(stopCtx))
}

// reloadWhenAsked does what SIGHUP asks for until ctx ends, which also ends a reload under way.
func reloadWhenAsked(ctx context.Context, a hubs, w *signalWatch) {
	for {
		select {
		case <-w.reload:
			notify(daemon.SdNotifyReloading)
			_ = a.Reload(ctx) // it logs what it could not read, and the hub goes on with what it had
			notify(daemon.SdNotifyReady)
		case <-ctx.Done():
			return
		}
	}
}

// notify tells a service manager of type notify, if one is there; nobody else is waiting for it.
func notify(state string) { _, _ = daemon.SdNotify(false, state) }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
