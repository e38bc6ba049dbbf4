package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// What is watched of a log that others have part in: whether it takes appends, which is asked every second;
// whether it is the log that it was; and the server in this process, if there is one, without which the log goes
// on elsewhere.

const (
	probePatience = 900 * time.Millisecond
	// answerPatience is how long the log may be without a leader and a quorum until the node is not ready: a
	// polite change of the leader takes less.
	answerPatience = 3 * time.Second
	// lostPatience is how long a log that is shorter than it was is not believed. A leader that is cut off from the
	// others notices after 10 seconds, and one that has just been elected may still apply what it has.
	lostPatience = 15 * time.Second
)

// errEnded is for good.
var errEnded = fmt.Errorf("%w: the connection to NATS has ended for good; restart the node", transport.ErrUnavailable)

// shortness notes since when a log has been shorter than what is known of it. Owned by one goroutine.
type shortness struct{ since time.Time }

// lasts notes whether the log is short now, and reports whether it has been for so long that it is believed.
func (s *shortness) lasts(short bool) bool {
	switch {
	case !short:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = time.Now()
	}
	return short && time.Since(s.since) >= lostPatience
}

// watcher is the monitor's state.
type watcher struct {
	*Log
	server   recovery
	answered time.Time // when the log was last known to take appends
	silent   bool      // it has been told that it does not
	mute     bool      // it has been told that updates are not sent once more
	short    shortness
}

// watchCluster is the monitor of a log that others have part in.
func (l *Log) watchCluster(ctx context.Context) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	w := watcher{Log: l, answered: time.Now()}
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.conn.ended:
			l.opts.Logger.Error("the connection to NATS has ended for good", slog.Any("error", l.nc.LastError()))
			l.health.set(errEnded)
			<-ctx.Done()
			return
		case <-l.poke:
		case <-ticker.C:
		}
		local, all, stalled := w.watchServer(ctx), w.probe(ctx), l.stalled()
		switch {
		case ctx.Err() != nil:
			return
		case local != nil:
			l.health.set(local)
		case all != nil:
			l.health.set(all)
		default:
			l.health.set(stalled)
		}
		l.window.expire()
	}
}

// watchServer looks at the server in this process. Its first failed write leaves a replica that stands still, and
// that this node would read before all others, as it is the nearest. So the store is turned off, as the
// server itself does for some failures, until it is restarted in place once there is space; its routes lead to the
// others meanwhile.
func (w *watcher) watchServer(ctx context.Context) error {
	if w.Log.server == nil {
		return nil
	}
	trouble := w.Log.server.trouble()
	if trouble == "" {
		if w.server.well(time.Now()) {
			w.opts.Logger.Info("the store of this node is well again")
		}
		return nil
	}
	space := w.space.enough(0)
	if !space && !noSpace(trouble) { // the server tells what came of it
		trouble = "no space left on the disk: " + trouble
	}
	if w.server.trouble(time.Now()) {
		w.opts.Logger.Error("the store of this node is in trouble; the others keep the log", slog.String("text", trouble))
	}
	if space && w.server.due(time.Now(), true) {
		w.restart(ctx, w.server.restarts)
		w.nudge()
	} else {
		w.Log.server.shed()
	}
	return fmt.Errorf("%w: the store of this node: %s", transport.ErrUnavailable, trouble)
}

// probe asks whether the log takes appends, and returns an error when it has not for a while.
func (w *watcher) probe(ctx context.Context) error {
	asked := time.Now()
	known, _ := w.newest.get() // before: others append meanwhile
	info, err := w.readInfo(ctx, w.opts.Prefix, nil, patience{quiet: probePatience, total: probePatience / 2, attempts: 1})
	switch {
	case err != nil:
		w.extents.leave()
	case !info.led():
		w.extents.leave()
		err = errors.New("it has no leader")
	default:
		if err := w.compare(info, newExtent(info, asked), known); err != nil {
			return err
		}
		if w.interest != nil && info.Config.RePublish == nil {
			w.mendRepublish(ctx)
		}
		if !info.quorum() {
			err = errors.New("its leader is without the others")
		}
	}
	if err == nil {
		if w.silent {
			w.silent = false
			w.opts.Logger.Info("the log takes updates again")
		}
		w.answered = asked
		return nil
	}
	quiet := time.Since(w.answered)
	if quiet < answerPatience {
		return nil
	}
	if !w.silent && ctx.Err() == nil {
		w.silent = true
		w.opts.Logger.Warn("the log takes no updates; history is still read where a replica is left", slog.Any("error", err))
	}
	return fmt.Errorf("%w: the log has not taken updates for %v: %w", transport.ErrUnavailable, quiet.Round(time.Second), err)
}

// mendRepublish has a stream send updates once more that was made by somebody who does not need it. Until then
// the follower reads what it needs.
func (w *watcher) mendRepublish(ctx context.Context) {
	if _, _, err := w.openOnce(ctx, logConfig(w.opts)); err != nil && ctx.Err() == nil && !w.mute {
		w.mute = true
		w.opts.Logger.Error("the log does not send updates once more, so they come late, and it cannot be made to", slog.Any("error", err))
	}
}

// compare looks whether this is the log that it was.
func (w *watcher) compare(info streamInfo, x extent, known transport.Position) error {
	id, err := readIdentity(w.opts.Prefix, info.Config.Metadata)
	if err != nil {
		return fmt.Errorf("%w: %w", transport.ErrUnavailable, err)
	}
	if now := w.identity.Load(); id.epoch != now.epoch || id.key != now.key {
		w.renew(id, x, restoredUpTo(info.Config.Metadata))
		return nil
	}
	w.noteExtent(x)
	if !w.short.lasts(x.last < known) {
		return nil
	}
	w.short.lasts(false)
	w.opts.Logger.Error("the log has lost its newest entries",
		slog.Uint64("position", uint64(x.last)), slog.Uint64("known", uint64(known)))
	w.shorten(x.last)
	return nil
}

// renew goes on with another log, which stands where the one before was. It is followed from its beginning, or from
// the end of the backup that it was restored from: those updates were handed out in their time. restored is that
// position, 0 for none.
func (l *Log) renew(id identity, x extent, restored transport.Position) {
	from := max(x.first-1, restored)
	l.opts.Logger.Warn("the log was made anew or replaced: events of the one before are unknown from now on",
		slog.Uint64("position", uint64(x.last)), slog.Uint64("followed_from", uint64(from)))
	l.newest.lower(0)
	l.extents.reset()
	l.shorten(from)
	l.follower.renewed.Store(uint64(from) + 1)
	if from > transport.Position(l.follower.reached.Load()) { // now, for those who ask what they need not read
		l.follower.reach(from)
	}
	l.identity.Store(&id) // from now on the log is read
	l.extents.note(x)
	l.follower.restart()
}

// same says whether info is of the log that this node reads: nothing of another one must be handed out before it is
// known as such, and neither of one that is being restored.
func (l *Log) same(info streamInfo) error {
	now := l.identity.Load()
	if now == nil { // being opened
		return nil
	}
	id, err := readIdentity(l.opts.Prefix, info.Config.Metadata)
	if err == nil && id.epoch == now.epoch && id.key == now.key {
		return nil
	}
	l.nudge()
	return fmt.Errorf("%w: another log stands in the place of this one, or is being restored", transport.ErrUnavailable)
}
