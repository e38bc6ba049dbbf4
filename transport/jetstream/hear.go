package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// hearing is what run owns.
type hearing struct {
	answers, elections *nats.Subscription

	dials      uint64             // of the connection that is trusted
	previous   transport.Position // of the frame before
	handed     handed
	questions  uint64
	flight     *flight // nil = none under way
	end        *end    // stored at endAt, and to become safe; nil = has become so
	endAt      time.Time
	leader     string
	unsure     []*filter          // subscribed, and the fence was not answered
	dropped    transport.Position // the highest of the frames that were not handled while the log was read
	short      shortness          // of the log, compared with what it was
	unreadable bool               // the answers to fences: this follower cannot be
	complained time.Time          // of a malformed frame
}

// listen subscribes to answers and elections.
func (f *interestFollower) listen() (err error) {
	if f.answers, err = f.log.nc.ChanSubscribe(f.inbox+"*", f.heard); err != nil {
		return err
	}
	f.elections, err = f.log.nc.ChanSubscribe(electedSubject+f.log.opts.Prefix, f.heard)
	return err
}

// mayHear makes sure that the servers let this hub subscribe to live frames: whom they do not, they tell beside
// the subscription, which then stays silent.
func (f *interestFollower) mayHear() error {
	live := f.log.opts.Prefix + ".live.>"
	sub, err := f.log.nc.SubscribeSync(live)
	if err != nil {
		return err
	}
	err = f.log.nc.FlushTimeout(fencePatience * 4)
	leave([]*nats.Subscription{sub})
	if err != nil {
		return fmt.Errorf("%w: subscribe to %q: %w", transport.ErrUnavailable, live, err)
	}
	if err := f.log.nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), live) {
		return fmt.Errorf("the servers do not let this hub hear what they send again (give it the permission, or follow all): %w", err)
	}
	return nil
}

// deafen ends all subscriptions. What is in the channel stays there.
func (f *interestFollower) deafen() {
	f.mu.Lock()
	subs := []*nats.Subscription{f.answers, f.elections}
	for sub := range f.subs {
		subs = append(subs, sub)
	}
	clear(f.subs)
	f.mu.Unlock()
	leave(subs)
}

// leave ends subscriptions. An error means that the connection has ended, and they with it.
func leave(subs []*nats.Subscription) {
	for _, sub := range subs {
		if sub != nil {
			_ = sub.Unsubscribe()
		}
	}
}

// subscribe makes the subscriptions of filters that have none.
func (f *interestFollower) subscribe(filters []*filter) error {
	for _, flt := range filters {
		if flt.sub != nil {
			continue
		}
		sub, err := f.log.nc.ChanSubscribe(f.log.opts.Prefix+liveInfix+flt.name, f.heard)
		if err != nil {
			return err
		}
		f.mu.Lock()
		flt.sub = sub
		f.subs[sub] = flt
		f.mu.Unlock()
	}
	return nil
}

// run follows until ctx ends, or until it turns out that this follower cannot be.
func (f *interestFollower) run(ctx context.Context) {
	defer f.deafen()
	ticker := time.NewTicker(fenceEvery)
	defer ticker.Stop()
	// the leader's name is not known yet, nor anything suspicious
	f.dials = f.log.conn.dialed()
	f.mu.Lock()
	f.suspected = time.Now()
	f.mu.Unlock()
	for ctx.Err() == nil && !f.unreadable {
		if f.suspicious() {
			f.recover(ctx)
			continue
		}
		select {
		case <-ctx.Done():
		case m := <-f.heard:
			f.take(m)
		case <-f.wake:
			f.wakened()
		case <-ticker.C:
			f.tick()
		}
	}
}

func (f *interestFollower) suspicious() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.suspected.IsZero()
}

// wakened looks whether filters wait for a fence.
func (f *interestFollower) wakened() {
	f.mu.Lock()
	waiting := f.next != nil
	f.mu.Unlock()
	if waiting {
		f.begin()
	}
}

// tick sends the fence that is due, gives up the one that is overdue, and leaves filters.
func (f *interestFollower) tick() {
	now := time.Now()
	if f.flight != nil && now.Sub(f.flight.sent) > fencePatience {
		f.suspect(reasonProbe, errNotAnswered)
		return
	}
	f.begin()
	f.mu.Lock()
	subs := f.due(now, false)
	f.mu.Unlock()
	leave(subs)
}

// take handles what has come through the channel.
func (f *interestFollower) take(m *nats.Msg) {
	if why, ok := f.disturbed(m); ok {
		f.suspect(why, nil) // m, if it is a frame, is read from the log
		return
	}
	switch m.Sub {
	case f.answers:
		if f.flight != nil && strings.TrimPrefix(m.Subject, f.inbox) == f.flight.token {
			f.answered(m)
		}
	default:
		f.frame(m)
	}
}

// disturbed reports whether something may have been lost before m. The library drops what does not fit into
// the channel, and its callback for that comes at some time later; but then the channel was full, and only the
// caller takes from it: it still is, but for m. Likewise the number of dials changes before a new connection is
// made, and so before its first frame.
func (f *interestFollower) disturbed(m *nats.Msg) (reason, bool) {
	switch {
	case len(f.heard) >= cap(f.heard)-1:
		return reasonSlow, true
	case f.redialed():
		return reasonReconnect, true
	case m.Sub == f.elections:
		return reasonLeader, true
	default:
		return 0, false
	}
}

// redialed reports, once, that the connection is not the one that was trusted.
func (f *interestFollower) redialed() bool {
	before := f.dials
	f.dials = f.log.conn.dialed()
	return f.dials != before
}

// frame handles an update that was sent once more.
func (f *interestFollower) frame(m *nats.Msg) {
	f.seen.messages.Add(1)
	f.seen.bytes.Add(uint64(m.Size())) //nolint:gosec // not negative
	seq, prev, ok := f.positions(m)
	if !ok {
		f.malformed(m)
		return
	}
	if seq == f.previous { // brought by another filter, too
		return
	}
	f.previous = seq
	f.mu.Lock()
	reached, safe := f.reached, f.safe
	flt := f.subs[m.Sub]
	gap := flt != nil && flt.fenced && prev > max(safe, flt.fence) && !f.handed.has(prev)
	f.mu.Unlock()
	switch {
	case seq <= reached && (seq <= safe || f.handed.has(seq)):
	case gap:
		f.suspect(reasonGap, nil)
	case f.handed.full():
		f.suspect(reasonSlow, nil)
	default:
		f.handed.add(seq)
		e, err := decode(f.log.identity.Load().codec, seq, m.Header, m.Data)
		if err != nil { // something else wrote into the stream
			f.log.opts.Logger.Error("entry skipped", slog.Any("error", err))
			return
		}
		f.hand(e)
	}
}

// hand gives an entry, which has not been handed out, to fn.
func (f *interestFollower) hand(e transport.Entry) {
	f.mu.Lock()
	e.Late = e.Pos <= f.reached
	f.reached = max(f.reached, e.Pos)
	f.mu.Unlock()
	if e.Late {
		f.seen.late.Add(1)
	}
	f.log.newest.raise(e) // a scan up to this entry must not take the log to end before it
	f.log.counters.followed.Add(1)
	f.fn(e)
}

const (
	liveInfix       = ".live." // between the prefix and what is the same in the update's subject
	headerStream    = "Nats-Stream"
	headerSequence  = "Nats-Sequence"
	headerPrevious  = "Nats-Last-Sequence" // on the same subject, 0 = none is retained
	complainSeldom  = time.Minute
	handedPositions = 1 << 17
)

// positions reads what the server has added to a frame.
func (f *interestFollower) positions(m *nats.Msg) (seq, prev transport.Position, ok bool) {
	if m.Header.Get(headerStream) != f.log.opts.Prefix {
		return 0, 0, false
	}
	s, err1 := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	p, err2 := strconv.ParseUint(m.Header.Get(headerPrevious), 10, 64)
	return transport.Position(s), transport.Position(p), err1 == nil && err2 == nil && s > 0 && p < s
}

// malformed notes a message that no stream has sent.
func (f *interestFollower) malformed(m *nats.Msg) {
	f.seen.malformed.Add(1)
	if now := time.Now(); now.Sub(f.complained) > complainSeldom {
		f.complained = now
		f.log.opts.Logger.Error("somebody else publishes among the live updates", slog.String("subject", m.Subject),
			slog.Uint64("messages", f.seen.malformed.Load()))
	}
}

// handed is the set of positions after `safe` that were handed out.
type handed struct {
	order []transport.Position // as they came: those that were late are not in order, and stay a little longer
	set   map[transport.Position]struct{}
}

func (h *handed) has(pos transport.Position) bool { _, ok := h.set[pos]; return ok }

func (h *handed) full() bool { return len(h.order) >= handedPositions }

func (h *handed) add(pos transport.Position) {
	if h.set == nil {
		h.set = map[transport.Position]struct{}{}
	}
	h.set[pos] = struct{}{}
	h.order = append(h.order, pos)
}

// prune forgets what is at or below safe.
func (h *handed) prune(safe transport.Position) {
	for len(h.order) > 0 && h.order[0] <= safe {
		delete(h.set, h.order[0])
		h.order = h.order[1:]
	}
	if len(h.order) == 0 {
		h.order = nil
	}
}
