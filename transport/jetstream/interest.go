package jetstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// The follower of what is of interest. The leader of the stream publishes what it has stored once more, on a
// live subject, with the positions of the update and of the one before it on the same subject; a node
// subscribes to the live subjects that its selectors may select. That costs a node what its subscribers need and
// not what the whole hub does, but such a frame comes at most once: nobody keeps it for a node that
// could not be reached. What makes it safe:
//
//   - One channel takes the frames of all subscriptions, and the answers to fences, in the order in which they
//     came. One goroutine (run, hear.go) reads it and calls fn.
//   - A fence (fence.go) is a question to the leader over the way that frames take: when it is answered, the
//     leader's server knows every subscription made before it, and every frame sent before it is here.
//   - Fences go out all the time. One that is not answered, a new leader, a new connection, a full channel, or a
//     frame that names a predecessor which has not come, makes the follower suspect: it reads the log
//     itself (reread.go) and hands out what has not been.
//
// Positions: everything up to `safe` has been handed out or is not for us; of what lies between safe and
// `reached`, the highest position known, it is remembered what was handed out.
type interestFollower struct {
	// static after construction
	log   *Log
	heard chan *nats.Msg
	inbox string        // prefix of the subjects of answers
	wake  chan struct{} // capacity 1: run has something to do
	seen  interestCounters

	fn func(transport.Entry) // set by follow, called by run
	hearing

	mu sync.Mutex // guards below; never held over I/O or fn
	registry
	reached, safe transport.Position
	begun         bool          // follow has been called
	fallen        bool          // the `all` follower has taken over
	suspected     time.Time     // since when; zero = not
	whole         time.Time     // when the log was last read to its end, as it is while suspect
	why           [reasons]bool // counted since then
	doubts        int           // raised since run last began to read the log
	lost          *shortened    // the log has lost its end or is another one
}

// shortened says where a log that is not the one known before ends.
type shortened struct{ to transport.Position }

type interestCounters struct {
	messages, bytes, malformed, reread, late, lost atomic.Uint64

	suspected [reasons]atomic.Uint64
}

// reason is why the follower has to make sure that nothing was lost.
type reason int

const (
	reasonProbe     reason = iota // a fence or the question for the log's end was not answered
	reasonLeader                  // the stream has a new leader, and the old one may have died before it sent its last frames
	reasonReconnect               // frames were sent while there was no connection
	reasonSlow                    // fn took longer than the channel has room for
	reasonGap                     // a frame's predecessor on its subject has not come
	reasonRegress                 // the log is shorter than it was
	reasons         = iota
)

// String returns the label in Stats.Suspected.
func (r reason) String() string {
	return [...]string{"probe", "leader", "reconnect", "slow", "gap", "regress"}[r]
}

const (
	heardCapacity = 1 << 14 // frames
	// addPatience bounds Interest.Add: a subscriber must not wait for a quorum.
	addPatience           = fencePatience + 100*time.Millisecond
	minLeave, spreadLeave = time.Second, 4 * time.Second
)

func newInterestFollower(l *Log) *interestFollower {
	return &interestFollower{
		log: l, heard: make(chan *nats.Msg, heardCapacity), wake: make(chan struct{}, 1),
		inbox: nats.NewInbox() + ".", registry: newRegistry(),
	}
}

// follow establishes the follower at the end of the log. The caller runs it.
func (f *interestFollower) follow(ctx context.Context, fn func(transport.Entry)) error {
	f.fn = fn
	if err := f.mayHear(); err != nil {
		return err
	}
	if err := f.listen(); err != nil {
		return err
	}
	x, err := f.log.freshExtent(ctx)
	if err != nil {
		f.deafen()
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reached, f.safe, f.begun = x.last, x.last, true
	return nil
}

// Add subscribes to what the selectors may select, and returns the position after which all of it will be handed out.
//
// Usually that is what the fence says. When the fence is not answered, or the follower is suspect already, it
// is `safe`, at once or after addPatience: the follower is, or is made, suspect, and then reads the log
// from safe on and hands out all of it, whatever it is subscribed to, until its subscriptions stand. So
// the promise holds without a quorum, although it is kept later. Some of what comes after safe may have been
// handed out before Add returned, to others; the hub takes the greater of this position and of what it was
// handed last for the end of what a new subscriber reads from the log, and so reads that there.
func (f *interestFollower) Add(ctx context.Context, selectors ...topic.Selector) (transport.Position, error) {
	if f.log.isClosed() {
		return 0, fmt.Errorf("jetstream: add interest: %w", transport.ErrClosed)
	}
	waits, from := f.register(selectors)
	if len(waits) == 0 {
		return from, nil
	}
	timer := time.NewTimer(addPatience)
	defer timer.Stop()
	for _, r := range waits {
		select {
		case <-r.done:
			if !r.ok {
				return f.promise(waits), nil
			}
			from = max(from, r.from)
		case <-timer.C:
			return f.promise(waits), nil
		case <-ctx.Done():
			f.Remove(selectors...)
			return 0, fmt.Errorf("jetstream: add interest: %w", context.Cause(ctx))
		case <-f.log.closed:
			f.Remove(selectors...)
			return 0, fmt.Errorf("jetstream: add interest: %w", transport.ErrClosed)
		}
	}
	return from, nil
}

// register counts the selectors and returns the rounds that will confirm their filters; none if the position is
// known now.
func (f *interestFollower) register(selectors []topic.Selector) (waits []*round, from transport.Position) {
	compiled := f.compile(selectors)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fallen {
		return nil, transport.Position(f.log.follower.reached.Load())
	}
	defer f.nudge() // for what is fresh
	var used []*watch
	for _, s := range selectors {
		w := f.watched[s]
		if w == nil {
			filters, ok := compiled[s]
			if !ok { // removed a moment ago
				filters = f.log.subjects.filters(s)
			}
			w = &watch{filters: filters}
			f.watched[s] = w
		}
		w.count++
		for _, name := range w.filters {
			f.use(name)
		}
		used = append(used, w)
	}
	f.widen(f.log.opts.MaxFilters)
	if f.suspected.IsZero() {
		f.collect()
	}
	from = f.reached // in the log, as all positions here are: no promise about what is before it is needed
	for _, w := range used {
		for _, name := range w.filters {
			switch flt := f.filter(name); {
			case flt.confirmed:
				from = max(from, flt.since)
			case !f.suspected.IsZero():
				return nil, f.promised()
			case !slices.Contains(waits, flt.round):
				waits = append(waits, flt.round)
			}
		}
	}
	return waits, from
}

// compile returns the filters of the selectors that nobody follows yet: not under the lock, for which a storm of
// subscribers waits.
func (f *interestFollower) compile(selectors []topic.Selector) map[topic.Selector][]string {
	filters := map[topic.Selector][]string{}
	f.mu.Lock()
	for _, s := range selectors {
		if f.watched[s] == nil && !f.fallen {
			filters[s] = nil
		}
	}
	f.mu.Unlock()
	for s := range filters {
		filters[s] = f.log.subjects.filters(s)
	}
	return filters
}

// promise returns the position after which everything will be read from the log, and sees to it that it is. A
// round that ended without an answer has made the follower suspect, and it may have read the log since.
func (f *interestFollower) promise(waits []*round) transport.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.suspected.IsZero() {
		return f.promised()
	}
	from := transport.Position(0)
	for _, r := range waits {
		switch {
		case r.pending():
			f.suspectLocked(reasonProbe)
			f.nudge()
			return f.promised()
		case !r.ok:
			return f.promised()
		}
		from = max(from, r.from)
	}
	return from // answered at the last moment
}

// promised returns the position after which everything will be read from the log. In one that was restored that is
// not before the end of what came from the backup. Called with mu held.
func (f *interestFollower) promised() transport.Position {
	if f.lost != nil {
		return max(f.safe, f.lost.to)
	}
	return f.safe
}

// Remove undoes one Add. Filters that nobody uses any more are left a while later: subscribers come back.
func (f *interestFollower) Remove(selectors ...topic.Selector) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range selectors {
		w := f.watched[s]
		if w == nil { // never added, or before everything was followed
			continue
		}
		w.count--
		if w.count == 0 {
			delete(f.watched, s)
		}
		for _, name := range w.filters {
			f.disuse(name, time.Now().Add(minLeave+rand.N(spreadLeave))) //nolint:gosec // spreads load, keeps no secret
		}
	}
}

// nudge wakes run.
func (f *interestFollower) nudge() {
	select {
	case f.wake <- struct{}{}:
	default: // it is about to look
	}
}

// interesting returns the position that the follower of what is of interest has come to, and since when it has
// been suspect, zero if it is not; false when everything is followed.
func (l *Log) interesting() (pos transport.Position, suspected time.Time, ok bool) {
	f := l.interest
	if f == nil {
		return 0, time.Time{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.reached, f.safe), f.suspected, !f.fallen
}

// stalled is an error while the follower does not keep up. The follower of what is of interest does not while it
// is suspect and cannot read the log: what it cannot read, its subscribers do not get. One that reads it to its end
// again and again, as a storm of new filters makes it do, keeps up.
func (l *Log) stalled() error {
	_, since, ok := l.interesting()
	if !ok {
		return l.follower.stalled()
	}
	if whole := l.interest.lastWhole(); !since.IsZero() && whole.After(since) {
		since = whole
	}
	if quiet := time.Since(since); !since.IsZero() && quiet > silentPatience {
		return fmt.Errorf("%w: the follower has not been sure of the log for %v", transport.ErrUnavailable, quiet.Round(time.Second))
	}
	return nil
}

func (f *interestFollower) lastWhole() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.whole
}

// lose tells the follower that the log ends at pos now: what comes after it will be other entries.
func (f *interestFollower) lose(pos transport.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.begun || f.fallen {
		return
	}
	f.lost = &shortened{to: pos}
	f.suspectLocked(reasonRegress)
	f.nudge()
}

// addFollower fills in what is known of the follower.
func (l *Log) addFollower(s *transport.Stats) {
	if !l.follower.begun() {
		return
	}
	s.Follower = string(FollowAll)
	f := l.interest
	if f == nil {
		return
	}
	c := &f.seen
	s.BusMessages, s.BusBytes = c.messages.Load(), c.bytes.Load()
	s.Reread, s.Late, s.Lost = c.reread.Load(), c.late.Load(), c.lost.Load()
	s.Suspected = make(map[string]uint64, reasons)
	for r := range reason(reasons) {
		s.Suspected[r.String()] = c.suspected[r].Load()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.fallen {
		s.Follower, s.Filters = string(FollowInterest), len(f.filters)
	}
}
