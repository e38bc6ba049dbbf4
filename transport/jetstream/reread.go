package jetstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/transport"
)

const (
	rereadPause    = 50 * time.Millisecond
	maxRereadPause = 500 * time.Millisecond
	rereadPatience = 10 * time.Second // for reading the log, before it is begun again
)

var errShorter = errors.New("the log is shorter than it was")

// suspect notes that something may have been lost. Called by run.
func (f *interestFollower) suspect(why reason, err error) {
	f.mu.Lock()
	f.suspectLocked(why)
	f.mu.Unlock()
	f.log.opts.Logger.Debug("the follower makes sure that nothing is lost", slog.String("reason", why.String()), slog.Any("error", err))
}

// suspectLocked is suspect for whoever holds mu. From here on safe stands still until the log has been read.
func (f *interestFollower) suspectLocked(why reason) {
	f.doubts++
	if f.suspected.IsZero() {
		f.suspected = time.Now()
	}
	if !f.why[why] {
		f.why[why] = true
		f.seen.suspected[why].Add(1)
	}
}

// recover reads the log from safe on and hands out what has not been, until nothing happens while it does so.
func (f *interestFollower) recover(ctx context.Context) {
	pause := rereadPause
	for ctx.Err() == nil && !f.unreadable {
		f.prepare()
		err := f.reread(ctx)
		if err == nil && f.settled() {
			return
		}
		if err == nil {
			pause = rereadPause
			continue
		}
		f.unreadable = errors.Is(err, errFenceText)
		f.log.opts.Logger.Debug("the log cannot be read again yet", slog.Any("error", err))
		f.idle(ctx, pause)
		pause = min(2*pause, maxRereadPause)
	}
}

// prepare ends the rounds: who waits for them is promised what will be read. Their filters and the fresh ones
// are confirmed with the next answer.
func (f *interestFollower) prepare() {
	f.mu.Lock()
	if f.redialed() {
		f.suspectLocked(reasonReconnect)
	}
	f.doubts = 0
	if f.flight != nil {
		f.unsure = append(f.unsure, f.flight.filters...)
		close(f.flight.done)
		f.flight = nil
	}
	if f.next != nil {
		f.unsure = append(f.unsure, f.next.filters...)
		close(f.next.done)
		f.next = nil
	}
	f.unsure = append(f.unsure, f.fresh...)
	f.fresh, f.end = nil, nil
	// filters that nobody follows any more are not waited for: it may take hours until they could be confirmed
	subs := f.due(time.Now(), true)
	f.unsure = slices.DeleteFunc(f.unsure, func(flt *filter) bool { return f.filters[flt.name] != flt })
	f.mu.Unlock()
	leave(subs)
}

// progress notes that the log has been read to its end.
func (f *interestFollower) progress() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.whole = time.Now()
}

// settled ends the suspicion if nothing has happened since prepare.
func (f *interestFollower) settled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.whole = time.Now()
	if f.doubts > 0 || f.log.conn.dialed() != f.dials || len(f.fresh) > 0 {
		return false
	}
	f.suspected, f.why, f.dropped = time.Time{}, [reasons]bool{}, 0
	return true
}

// reread makes sure of the subscriptions, and hands out what the log holds beyond safe.
func (f *interestFollower) reread(ctx context.Context) error {
	if err := f.subscribe(f.unsure); err != nil {
		return err
	}
	token, err := f.askFence()
	if err != nil {
		return err
	}
	m, err := f.await(ctx, token)
	if err != nil {
		return err
	}
	answer, err := readFence(m)
	if err != nil {
		return err
	}
	// What is stored after this comes through the channel, from which nothing is taken until the log is read. So
	// the answer to this question must not come through it.
	e, err := f.stored(ctx)
	if err != nil {
		return err
	}
	if answer == unnumbered {
		answer = e.last
	}
	f.mu.Lock()
	fence(f.unsure, answer)
	confirm(f.unsure, e.last)
	f.unsure, f.leader = nil, e.leader
	err = f.measure(e.last)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	if err := f.read(ctx, e.last); err != nil || !e.silent {
		return err
	}
	f.progress()
	return errSilent // nothing else comes: the log is read again and again, until it is put in order (watch.go)
}

// await takes from the channel until the answer comes. Frames before it bring what will be read.
func (f *interestFollower) await(ctx context.Context, token string) (*nats.Msg, error) {
	timer := time.NewTimer(fencePatience)
	defer timer.Stop()
	for {
		select {
		case m := <-f.heard:
			f.drop(m)
			if m.Sub == f.answers && strings.TrimPrefix(m.Subject, f.inbox) == token {
				return m, nil
			}
		case <-timer.C:
			return nil, errNotAnswered
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// idle drops what comes for a while.
func (f *interestFollower) idle(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case m := <-f.heard:
			f.drop(m)
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// drop notes what is of interest in a message that is not handled.
func (f *interestFollower) drop(m *nats.Msg) {
	f.mu.Lock()
	if why, ok := f.disturbed(m); ok && f.doubts == 0 {
		f.suspectLocked(why)
	}
	f.mu.Unlock()
	if m.Sub == f.answers || m.Sub == f.elections {
		return
	}
	f.seen.messages.Add(1)
	f.seen.bytes.Add(uint64(m.Size())) //nolint:gosec // not negative
	if seq, _, ok := f.positions(m); ok {
		f.dropped = max(f.dropped, seq)
	}
}

// stored asks the leader how much is stored.
func (f *interestFollower) stored(ctx context.Context) (end, error) {
	info, err := f.log.readInfo(ctx, f.log.opts.Prefix, nil, patience{quiet: fencePatience, total: fencePatience, attempts: 1})
	if err == nil {
		err = f.log.same(info)
	}
	if err != nil {
		return end{}, err
	}
	return info.end()
}

// measure compares the end of the log with what is known. A log that has lost its end, or is another one, is
// followed from where it ends now. Called with mu held.
func (f *interestFollower) measure(last transport.Position) error {
	if f.lost != nil {
		f.forget(min(f.lost.to, last))
	}
	short := last < max(f.reached, f.safe, f.dropped)
	if short && f.short.since.IsZero() {
		f.suspectLocked(reasonRegress)
	}
	if !f.short.lasts(short) {
		if short {
			return errShorter
		}
		f.log.newest.reach(last)
		return nil
	}
	f.log.opts.Logger.Error("the log has lost its newest entries",
		slog.Uint64("position", uint64(last)), slog.Uint64("followed", uint64(max(f.reached, f.safe))))
	f.forget(last)
	return nil
}

// forget goes back to an earlier position. Called with mu held.
func (f *interestFollower) forget(to transport.Position) {
	f.reached, f.safe, f.dropped, f.previous = to, to, 0, 0
	f.handed = handed{}
	f.lost, f.short = nil, shortness{}
}

// read hands out what has not been of (safe, upto], where upto is stored.
func (f *interestFollower) read(ctx context.Context, upto transport.Position) error {
	ctx, cancel := context.WithTimeout(ctx, rereadPatience)
	defer cancel()
	for {
		err := f.scan(ctx, upto)
		if !errors.Is(err, transport.ErrTrimmed) {
			return err
		}
		if err := f.skip(ctx); err != nil {
			return err
		}
	}
}

func (f *interestFollower) scan(ctx context.Context, upto transport.Position) error {
	f.mu.Lock()
	after := f.safe
	f.mu.Unlock()
	for e, err := range f.log.Scan(ctx, after, upto, nil) {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		after = e.Pos
		if f.misses(e) {
			f.seen.reread.Add(1)
			f.hand(e)
			f.pass(e.Pos)
		}
	}
	if after < upto { // the last entries are gone, or the scan was told of a shorter log
		x, err := f.log.freshExtent(ctx)
		if err != nil {
			return err
		}
		if x.last < upto {
			return errShorter
		}
	}
	f.pass(upto)
	return nil
}

// misses reports whether an entry read from the log has to be handed out. If not, it is passed, under one lock
// with the decision: an Add before it makes the entry one of interest, an Add after it answers with a later position.
func (f *interestFollower) misses(e transport.Entry) bool {
	subject := strings.TrimPrefix(f.log.subjects.of(e.Update.Topics), f.log.subjects.updates)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.handed.has(e.Pos) && f.covers(subject) {
		return true
	}
	f.passLocked(e.Pos)
	return false
}

// pass notes that everything up to pos has been handed out.
func (f *interestFollower) pass(pos transport.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passLocked(pos)
}

func (f *interestFollower) passLocked(pos transport.Position) {
	f.safe, f.reached = max(f.safe, pos), max(f.reached, pos)
	f.handed.prune(f.safe)
}

// skip goes on at what is retained.
func (f *interestFollower) skip(ctx context.Context) error {
	x, err := f.log.freshExtent(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	missing := uint64(0)
	if x.first > f.safe+1 {
		missing = uint64(x.first - 1 - f.safe)
		for pos := range f.handed.set {
			if pos > f.safe && pos < x.first {
				missing--
			}
		}
	}
	f.mu.Unlock()
	f.pass(x.first - 1)
	if missing > 0 {
		f.seen.lost.Add(missing)
		f.log.opts.Logger.Error("entries left the log before they could be followed",
			slog.Uint64("entries", missing), slog.Uint64("position", uint64(x.first)))
	}
	return nil
}

// fallBack lets the follower of everything go on where this one cannot, without a gap between them.
func (f *interestFollower) fallBack(ctx context.Context) {
	l := f.log
	l.opts.Logger.Error("this server does not answer fences as expected: every node follows everything",
		slog.String("server", f.log.nc.ConnectedServerVersion()))
	l.tail.follow() // before the end of the log is read, so that nothing falls in between
	for ctx.Err() == nil {
		e, err := f.stored(ctx)
		if err == nil {
			f.mu.Lock()
			err = f.measure(e.last)
			f.mu.Unlock()
		}
		if err == nil {
			err = f.read(ctx, e.last)
		}
		if err == nil {
			break
		}
		f.idle(ctx, maxRereadPause)
	}
	f.prepare()
	f.mu.Lock()
	defer f.mu.Unlock()
	l.follower.reach(f.safe)
	f.fallen, f.suspected, f.registry, f.unsure = true, time.Time{}, newRegistry(), nil
}
