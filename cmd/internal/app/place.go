package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/jetstream"
)

// Place is where a log is that a command saves, restores or reads as a whole: in the data directory of a hub that is
// stopped, on NATS servers, or with a hub that is running.
type Place struct {
	cfg   Config
	admin string // URL or unix:PATH
}

// ErrUnavailable means that a log, or the hub that has it, cannot be reached now.
var ErrUnavailable = transport.ErrUnavailable

// ErrUsage marks what the user can put right on the command line.
var ErrUsage = errors.New("the command line is wrong")

// Manifest says what a backup holds.
type Manifest = transport.Manifest

// Progress tells how far a backup or a restore has come.
type Progress = transport.Progress

// connectPatience is how long NATS servers are tried.
const connectPatience = 10 * time.Second

// Bind adds the flags to fs.
func (p *Place) Bind(fs *pflag.FlagSet) {
	fs.SortFlags = false
	p.cfg = Config{NATSPrefix: Default().NATSPrefix}
	s := &schema{fs: fs}
	s.group("Where the log is")
	s.text(&p.cfg.DataDir, "data-dir", "data `directory` of a hub with a log of its own, which must be stopped")
	s.text(&p.admin, "admin", "`URL` of the admin listener of a running hub, such as http://127.0.0.1:3001, or unix:PATH; on the same machine only [CINNABAR_ADMIN]")
	p.cfg.bindNATS(s)
	fs.Lookup("nats-url").Usage = "`URL` of a NATS server with JetStream, nats:// or tls:// (repeatable)"
	fs.Lookup("nats-prefix").Usage = "`name` that streams and subjects begin with, as the hub's --nats-prefix; not used with --admin"
	s.group("NATS")
	s.count(&p.cfg.Replicas, 0, "replicas", "copies to keep where a restore makes the streams on NATS servers; 0 = 3 where there are as many servers, else 1")
}

// check says what is wrong with the flags; errors wrap ErrUsage.
func (p *Place) check() (proofs, error) {
	if p.cfg.DataDir == "" && len(p.cfg.NATSURLs) == 0 && p.admin == "" {
		p.admin = os.Getenv("CINNABAR_ADMIN")
	}
	ways := 0
	for _, given := range []bool{p.cfg.DataDir != "", len(p.cfg.NATSURLs) > 0, p.admin != ""} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return proofs{}, fmt.Errorf("%w: where is the log? give one of --data-dir, for a hub that is stopped, --nats-url, and --admin, for one that runs", ErrUsage)
	}
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	p.cfg.validateNATS(refuse, func(string, ...any) {})
	secrets, err := p.cfg.readProofs()
	if p.admin != "" {
		errs = append(errs, checkAdmin(p.admin))
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return proofs{}, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return secrets, nil
}

// open opens the log without a hub. With existing, a directory that is not there is not made.
func (p *Place) open(ctx context.Context, secrets proofs, existing bool) (*jetstream.Store, error) {
	o := p.cfg.jetstreamOptions(secrets, slog.New(slog.DiscardHandler))
	if o.Servers == nil {
		if _, err := os.Stat(p.cfg.DataDir); existing && err != nil {
			return nil, fmt.Errorf("--data-dir: %w", err)
		}
		s, err := jetstream.OpenStore(ctx, o)
		if errors.Is(err, jetstream.ErrLocked) {
			return nil, fmt.Errorf("%w: a hub runs on it; stop it, or reach it with --admin in place of --data-dir", err)
		}
		return s, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, connectPatience, fmt.Errorf("%w: not within %v", ErrUnavailable, connectPatience))
	defer cancel()
	s, err := jetstream.OpenStore(ctx, o)
	if err != nil {
		return nil, explain(err)
	}
	return s, nil
}

// with calls do with the log that the flags name.
func (p *Place) with(ctx context.Context, existing bool, do func(transport.Archive) error) error {
	secrets, err := p.check()
	if err != nil {
		return err
	}
	if p.admin != "" {
		return do(newRemote(p.admin))
	}
	s, err := p.open(ctx, secrets, existing)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

// Backup writes the log to w. progress may be nil.
func (p *Place) Backup(ctx context.Context, w io.Writer, progress func(Progress)) (m Manifest, err error) {
	err = p.with(ctx, true, func(log transport.Archive) error {
		m, err = log.Backup(ctx, w, progress)
		return err
	})
	return m, err
}

// Restore reads a backup, which it checks first, so that a file that is damaged changes nothing. progress may be nil.
func (p *Place) Restore(ctx context.Context, r io.ReadSeeker, progress func(Progress)) (m Manifest, err error) {
	if _, err := p.check(); err != nil { // before what takes a while
		return m, err
	}
	if _, err := jetstream.VerifyBackup(r, progress); err != nil {
		return m, err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return m, err
	}
	err = p.with(ctx, false, func(log transport.Archive) error {
		m, err = log.Restore(ctx, r, progress)
		return err
	})
	return m, err
}

// Export writes updates to w as lines of JSON: those after an event id, if it is not empty, and of the topics that one
// of the selectors selects, if there are any. It returns how many it wrote.
func (p *Place) Export(ctx context.Context, w io.Writer, after string, topics []string) (n uint64, err error) {
	o := transport.ExportOptions{After: after}
	for _, pattern := range topics {
		s := topic.Selector{Kind: topic.Classic, Pattern: pattern}
		if _, err := topic.Compile(s, nil, topic.Limits{}); err != nil {
			return 0, fmt.Errorf("%w: --topic: %w", ErrUsage, err)
		}
		o.Topics = append(o.Topics, s)
	}
	err = p.with(ctx, true, func(log transport.Archive) error {
		n, err = log.Export(ctx, w, o)
		return err
	})
	return n, err
}
