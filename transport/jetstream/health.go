package jetstream

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// What was measured with nats-server 2.15: the first failed write makes a stream refuse every later one,
// without an answer, until the server is restarted, even when there is space again, and retention no longer
// frees any. No acknowledged update was lost by it. Hence two measures. Publishers are refused while there
// is still some space (headroom), so that the store, its retention and its readers go on. And if a write
// has failed all the same, the server is restarted in place once there is space.

// health is the state of the store. A nil error is well; else it wraps ErrFull (readable, nothing can be
// added) or ErrUnavailable.
type health struct {
	mu      sync.Mutex // guards below
	err     error
	changed chan struct{} // closed and renewed with each change
}

func newHealth() *health { return &health{changed: make(chan struct{})} }

func (h *health) get() (err error, changed <-chan struct{}) { //nolint:revive,staticcheck // the state is an error here, not the outcome
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err, h.changed
}

// set notes the state and wakes those who wait for a change.
func (h *health) set(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil && h.err == nil {
		return
	}
	h.err = err
	close(h.changed)
	h.changed = make(chan struct{})
}

const (
	checkEvery     = time.Second
	restartBackoff = 15 * time.Second // longest pause between two restarts of a server in trouble
	wellAfter      = time.Minute      // without trouble, until earlier restarts are forgotten
)

// monitor watches over the log until it closes: it alone restarts the server.
func (l *Log) monitor(ctx context.Context) {
	if l.opts.clustered() {
		l.watchCluster(ctx)
	} else {
		l.watchStore(ctx)
	}
}

// watchStore is the monitor of a log that is kept in this process alone.
func (l *Log) watchStore(ctx context.Context) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	var r recovery
	restarted := false // and not yet compared with what is known here
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.poke:
		case <-ticker.C:
		}
		if l.restoring.Load() {
			continue
		}
		trouble := l.server.trouble()
		if trouble == "" && restarted {
			// publishers wait for it: positions that were lost must not be given again before
			if err := l.forgetLost(ctx); err != nil {
				trouble = err.Error()
			} else {
				restarted = false
			}
		}
		if trouble == "" {
			if r.well(time.Now()) {
				l.opts.Logger.Info("the store is well again")
			}
			l.health.set(l.stalled())
			if n, refusing := l.refusals.pending(); refusing && l.space.enough(n) {
				l.refusals.over()
			}
			l.window.expire()
			continue
		}
		space := l.space.enough(0)
		kind := transport.ErrUnavailable
		if !space || noSpace(trouble) {
			kind = transport.ErrFull
		}
		l.health.set(fmt.Errorf("%w: %s", kind, trouble))
		if r.trouble(time.Now()) {
			l.opts.Logger.Error("the store is in trouble", slog.String("text", trouble))
		}
		if r.due(time.Now(), space) {
			l.restart(ctx, r.restarts)
			restarted = true
			l.nudge()
		}
	}
}

// recovery decides when a server in trouble is restarted: at once when there is space on the disk, then
// with growing pauses. On a full disk the server can be read as it is; it is restarted seldom, so that
// retention gets its chance to free space.
type recovery struct {
	since    time.Time // when the trouble began, or, in calm, when it ended; zero before the first
	inside   bool      // trouble, not calm
	restarts int
	last     time.Time // restart
}

// trouble notes trouble and reports whether it is new.
func (r *recovery) trouble(now time.Time) bool {
	if r.inside {
		return false
	}
	r.inside, r.since = true, now
	return true
}

// well notes calm and reports whether it is new.
func (r *recovery) well(now time.Time) bool {
	if r.inside {
		r.inside, r.since = false, now
		return true
	}
	if now.Sub(r.since) > wellAfter {
		r.restarts = 0
	}
	return false
}

// due reports whether the server is to be restarted now, and counts it.
func (r *recovery) due(now time.Time, space bool) bool {
	var pause time.Duration
	switch {
	case !space:
		pause = restartBackoff
	case r.restarts > 0:
		pause = min(checkEvery<<min(r.restarts-1, 10), restartBackoff)
	}
	from := r.since
	if r.last.After(from) || r.restarts > 0 {
		from = r.last
	}
	if now.Sub(from) < pause {
		return false
	}
	r.restarts++
	r.last = now
	return true
}

// restart runs a new server over the same store. The connection follows by itself.
func (l *Log) restart(ctx context.Context, attempt int) {
	l.opts.Logger.Warn("restarting the embedded server", slog.Int("attempt", attempt))
	l.server.stop()
	if err := l.server.start(ctx); err != nil {
		if ctx.Err() == nil {
			l.opts.Logger.Error("restart of the embedded server failed", slog.Any("error", err))
		}
		return
	}
	l.follower.restart()
}

// forgetLost drops what this process knows beyond the end of a log that came back shorter: the positions will
// be given again, to other entries.
func (l *Log) forgetLost(ctx context.Context) error {
	x, err := l.freshExtent(ctx)
	if err != nil {
		return err
	}
	pos, _ := l.newest.get()
	if pos <= x.last {
		return nil
	}
	l.opts.Logger.Error("the log has lost its newest entries",
		slog.Uint64("position", uint64(x.last)), slog.Uint64("known", uint64(pos)))
	l.shorten(x.last)
	return nil
}

// shorten forgets what is known beyond end: what follows there are, or will be, other entries.
func (l *Log) shorten(end transport.Position) {
	l.newest.lower(end)
	l.window.reset()
	l.tail.lose(end)
	l.follower.rewind.Store(uint64(end) + 1)
	l.follower.restart()
	if l.interest != nil {
		l.interest.lose(end)
	}
}

// nudge makes the monitor look now.
func (l *Log) nudge() {
	select {
	case l.poke <- struct{}{}:
	default: // it is about to
	}
}

// noSpace recognises the errors of a full disk, an exhausted quota and a file-size limit by their texts:
// the server reports its trouble as text.
func noSpace(text string) bool {
	text = strings.ToLower(text)
	for _, s := range []string{"no space left", "quota exceeded", "file too large", "not enough space", "disk is full"} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}
