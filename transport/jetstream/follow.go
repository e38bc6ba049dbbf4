package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// The follower of a log that others write to, too, reads it through one ordered consumer of its own: an ephemeral
// consumer without acknowledgements, whose deliveries are numbered. Whatever goes wrong with it (a gap in the numbers, a
// missed heartbeat, the consumer or the server gone) has one answer: a new consumer after the last
// position handed out. Positions at or below it are dropped, so nothing is handed out twice; a position
// that is jumped over is looked for in the store and among the entries that this process appended, so nothing
// is left out. In a log that this process alone writes to there is no need for a consumer, see feed.
type follower struct {
	log *Log

	reached atomic.Uint64 // position that fn has begun to handle
	renewed atomic.Uint64 // 1 + the position to begin at in another log, whatever was reached in the one before; 0 = none
	rewind  atomic.Uint64 // 1 + the position to go back to, set when the log has lost its end; 0 = none
	busy    atomic.Bool   // fn runs
	moved   atomic.Int64  // unix nanoseconds of the last sign of life

	fn    func(transport.Entry) // set by establish, called by run
	short shortness             // owned by run

	mu     sync.Mutex    // guards below
	ended  chan struct{} // closed when the follower has ended; nil before Follow
	reader interface{ Stop() }
}

const (
	pullBytes      = 8 << 20 // that the server sends ahead
	pullExpiry     = 5 * time.Second
	pullHeartbeat  = time.Second
	stallPatience  = 3 * time.Second  // standing still with entries ahead: a new consumer
	silentPatience = 10 * time.Second // … and then the transport is not ready
	followPause    = 50 * time.Millisecond
	maxFollowPause = time.Second
	closeGrace     = time.Second // for the follower to end when Close has no time left
)

func newFollower(l *Log) *follower { return &follower{log: l} }

var errSecondFollow = errors.New("jetstream: follow: the log has, or has had, its one follower")

// Follow starts the follower at the end of the log; see transport.Transport. A log has one follower in its
// life: a second call is an error even when the first has ended.
func (l *Log) Follow(ctx context.Context, fn func(transport.Entry)) (transport.Interest, error) {
	f := l.follower
	if l.isClosed() {
		return nil, fmt.Errorf("jetstream: follow: %w", transport.ErrClosed)
	}
	ended := make(chan struct{})
	if !f.begin(ended) {
		return nil, errSecondFollow
	}
	in, run, err := l.establish(ctx, fn)
	if err != nil {
		f.begin(nil)
		close(ended)
		return nil, fmt.Errorf("jetstream: follow: %w", err)
	}
	go func() { // waited for by Close
		defer close(ended)
		ctx, end := l.whileOpen(ctx)
		defer end()
		run(ctx)
	}()
	return in, nil
}

// establish makes the follower that the options ask for, at the end of the log, and returns how to run it.
func (l *Log) establish(ctx context.Context, fn func(transport.Entry)) (transport.Interest, func(context.Context), error) {
	f := l.follower
	f.fn = fn
	if i := l.interest; i != nil {
		if err := i.follow(ctx, fn); err != nil {
			return nil, nil, err
		}
		return i, func(ctx context.Context) {
			i.run(ctx)
			if ctx.Err() == nil { // it cannot be
				i.fallBack(ctx)
				f.run(ctx)
			}
		}, nil
	}
	l.tail.follow() // before the end of the log is read, so that nothing falls in between
	x, err := l.freshExtent(ctx)
	if err != nil {
		l.tail.unfollow()
		return nil, nil, err
	}
	f.reach(x.last)
	return interest{l}, f.run, nil
}

// whileOpen returns a context that ends with ctx or with the log. Call end when it is of no more use.
func (l *Log) whileOpen(ctx context.Context) (open context.Context, end func()) {
	open, cancel := context.WithCancelCause(ctx)
	over, watcher := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watcher)
		select {
		case <-l.closed:
			cancel(transport.ErrClosed)
		case <-over:
		}
	}()
	return open, func() { close(over); <-watcher; cancel(nil) }
}

// begin reserves the follower, or, with nil, gives it free again.
func (f *follower) begin(ended chan struct{}) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ended != nil && f.ended != nil {
		return false
	}
	f.ended = ended
	return true
}

// begun reports whether Follow has been called.
func (f *follower) begun() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended != nil
}

// run follows until ctx ends.
func (f *follower) run(ctx context.Context) {
	defer f.log.tail.unfollow()
	pause := followPause
	for ctx.Err() == nil {
		before := f.reached.Load()
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if f.reached.Load() != before {
			pause = followPause
		}
		f.log.opts.Logger.Debug("follower begins again", slog.Uint64("position", f.reached.Load()), slog.Any("error", err))
		_, changed := f.log.health.get()
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(pause):
			pause = min(2*pause, maxFollowPause)
		}
	}
}

// follow makes sure where the log and the follower stand, then reads on until that fails.
func (f *follower) follow(ctx context.Context) error {
	l := f.log
	x, err := l.freshExtent(ctx)
	if err != nil {
		return err
	}
	if x.replica {
		return fmt.Errorf("%w: there is no leader", transport.ErrUnavailable)
	}
	// the log may have grown beyond it again since
	if to := f.renewed.Swap(0); to > 0 {
		f.reach(transport.Position(to - 1))
	}
	if to := f.rewind.Swap(0); to > 0 && to-1 < f.reached.Load() {
		f.reach(transport.Position(to - 1))
	}
	if reached := transport.Position(f.reached.Load()); x.last < reached {
		if l.opts.clustered() && !f.short.lasts(true) {
			return fmt.Errorf("%w: the log answers up to %d and was followed up to %d", transport.ErrUnavailable, x.last, reached)
		}
		l.opts.Logger.Error("the log has lost its newest entries",
			slog.Uint64("position", uint64(x.last)), slog.Uint64("followed", uint64(reached)))
		f.reach(x.last) // or the entries that now take their places would be dropped
	}
	f.short.lasts(false)
	if err := f.fill(ctx, x.first); err != nil { // entries that retention has taken meanwhile
		return err
	}
	if !l.opts.clustered() {
		return f.feed(ctx, x.last)
	}
	return f.consume(ctx)
}

// consume reads through a consumer until it fails.
func (f *follower) consume(ctx context.Context) error {
	l := f.log
	cons, err := l.js.CreateConsumer(ctx, l.opts.Prefix, jetstream.ConsumerConfig{
		Description:       "follower of a Mercure hub",
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       f.reached.Load() + 1,
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: time.Minute,
	})
	if err != nil {
		return fmt.Errorf("create consumer: %w", err)
	}
	defer l.forgetConsumer(ctx, l.opts.Prefix, cons.CachedInfo().Name)
	reader, err := cons.Messages(jetstream.PullMaxBytes(l.pullBytes()), jetstream.PullExpiry(pullExpiry),
		jetstream.PullHeartbeat(pullHeartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return fmt.Errorf("read consumer: %w", err)
	}
	if err := f.use(reader); err != nil {
		reader.Stop()
		return err
	}
	defer f.unuse()
	unhook := context.AfterFunc(ctx, reader.Stop)
	defer unhook()
	defer reader.Stop()
	for delivery := uint64(1); ; delivery++ {
		m, err := reader.Next()
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Consumer != delivery {
			return fmt.Errorf("delivery %d came instead of %d", meta.Sequence.Consumer, delivery)
		}
		pos := transport.Position(meta.Sequence.Stream)
		if err := f.fill(ctx, pos); err != nil {
			return err
		}
		e, known := l.tail.get(pos) // appended here: no need to decode it again
		if !known {
			e, err = decode(l.identity.Load().codec, pos, m.Headers(), m.Data())
		}
		if err != nil { // something else wrote into the stream
			l.opts.Logger.Error("entry skipped", slog.Any("error", err))
			f.reach(max(pos, transport.Position(f.reached.Load())))
			continue
		}
		if err := f.hand(ctx, e); err != nil {
			return err
		}
	}
}

// hand gives an entry to fn, unless it has had it.
func (f *follower) hand(ctx context.Context, e transport.Entry) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e.Pos <= transport.Position(f.reached.Load()) {
		return nil
	}
	if f.sentBack() { // e may be of a log that has begun again behind what was reached, and not be the next one there
		return errSentBack
	}
	// before fn: an Interest.Add that comes while fn runs must not count on this entry
	f.busy.Store(true)
	f.reach(e.Pos)
	f.log.newest.raise(e)          // nor may a scan up to this entry take the log to end before it
	f.log.counters.followed.Add(1) // before fn: whoever has had the entry finds it counted
	f.fn(e)
	f.busy.Store(false)
	f.moved.Store(time.Now().UnixNano())
	return nil
}

func (f *follower) reach(pos transport.Position) {
	f.moved.Store(time.Now().UnixNano())
	f.reached.Store(uint64(pos))
	f.log.tail.reach(pos)
}

// fill hands out what lies between the position reached and next, which the consumer has jumped over.
func (f *follower) fill(ctx context.Context, next transport.Position) error {
	if transport.Position(f.reached.Load())+1 >= next {
		return nil
	}
	l := f.log
	missing, settled := 0, false
	for at := transport.Position(f.reached.Load()); at+1 < next; {
		batch, upto, gap, err := l.readStore(ctx, at, next-1, readBatch)
		if err != nil {
			return err
		}
		var x extent
		if gap > 0 {
			if x, err = l.freshExtent(ctx); err != nil {
				return err
			}
		}
		read := at // what this replica has, and whether it is known that the log has no more
		if len(batch) > 0 {
			read = batch[len(batch)-1].Pos
		}
		sure := !l.opts.clustered()
		for _, stored := range append(batch, transport.Entry{Pos: upto + 1}) {
			for pos := at + 1; pos < stored.Pos; pos++ {
				e, ok := l.tail.get(pos)
				if !ok && !settled { // what was appended by this process is known once its acknowledgement is here
					if err := l.tail.settle(ctx); err != nil {
						return err
					}
					settled = true
					e, ok = l.tail.get(pos)
				}
				if !ok {
					err := x.gap(pos)
					if !sure && pos > read && err == nil {
						err, sure = l.missing(ctx, pos, next-1, true), true
					}
					if err != nil && !errors.Is(err, transport.ErrTrimmed) {
						return err // it is there, and comes with the next consumer
					}
					missing++
					continue
				}
				if err := f.hand(ctx, e); err != nil {
					return err
				}
			}
			if stored.Update != nil {
				if err := f.hand(ctx, stored); err != nil {
					return err
				}
			}
			at = min(stored.Pos, upto)
		}
	}
	f.reach(max(next-1, transport.Position(f.reached.Load())))
	if missing > 0 {
		l.opts.Logger.Error("entries left the log before they could be followed",
			slog.Int("entries", missing), slog.Uint64("position", uint64(next)))
	}
	return nil
}

// pullBytes is how much the server may send ahead. A message larger than what is asked for would never come.
func (l *Log) pullBytes() int { return max(pullBytes, 2*int(l.conn.nc.MaxPayload())) }

// forgetConsumer deletes a consumer that is of no more use; if that fails, the server does so after a minute.
func (l *Log) forgetConsumer(ctx context.Context, stream, name string) {
	if l.isClosed() || !l.nc.IsConnected() {
		return // the server ends too
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := l.js.DeleteConsumer(ctx, stream, name); err != nil {
		l.opts.Logger.Debug("consumer not deleted", slog.Any("error", err))
	}
}

// use notes the reader in use, so that restart can stop it. It is an error if the follower was sent elsewhere before
// there was a reader to be stopped.
func (f *follower) use(reader interface{ Stop() }) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sentBack() {
		return errSentBack
	}
	f.reader = reader
	return nil
}

func (f *follower) unuse() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reader = nil
}

// errSentBack ends a reader whose follower is to go on elsewhere.
var errSentBack = errors.New("sent to another position")

// sentBack reports whether the follower has been told to go on elsewhere, which follow does.
func (f *follower) sentBack() bool { return f.rewind.Load() > 0 || f.renewed.Load() > 0 }

// restart makes the follower take a new consumer.
func (f *follower) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reader != nil {
		f.reader.Stop()
	}
}

// stalled notices a follower that stands still although there is something ahead. It is given a new
// consumer, and is an error when that does not help.
func (f *follower) stalled() error {
	ahead := f.log.tail.behind()
	if f.log.opts.clustered() { // others append, too, and the monitor asks for the end of the log
		ahead = ahead || f.log.tail.followed() && f.log.extents.latest().last > transport.Position(f.reached.Load())
	}
	if !ahead || f.busy.Load() {
		f.moved.Store(time.Now().UnixNano())
		return nil
	}
	quiet := time.Since(time.Unix(0, f.moved.Load()))
	if quiet > stallPatience {
		f.restart()
	}
	if quiet > silentPatience {
		return fmt.Errorf("%w: the follower has been silent for %v", transport.ErrUnavailable, quiet.Round(time.Second))
	}
	return nil
}

// wait waits for the follower's end.
func (f *follower) wait(ctx context.Context) error {
	f.mu.Lock()
	ended := f.ended
	f.mu.Unlock()
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	// it has been told to end, and does so at once unless fn runs
	select {
	case <-ended:
		return nil
	case <-time.After(closeGrace):
		return context.Cause(ctx)
	}
}

// interest answers for a follower that gets every entry: selectors make no difference.
type interest struct{ log *Log }

// Add returns the position the follower has reached; see transport.Interest.
func (i interest) Add(context.Context, ...topic.Selector) (transport.Position, error) {
	if i.log.isClosed() {
		return 0, fmt.Errorf("jetstream: add interest: %w", transport.ErrClosed)
	}
	return transport.Position(i.log.follower.reached.Load()), nil
}

// Remove does nothing; see transport.Interest.
func (i interest) Remove(...topic.Selector) {}
