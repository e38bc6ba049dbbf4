package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/eventid"
)

const (
	ackPatience   = 2 * time.Second        // for an acknowledgement, before the update is sent again
	firstPatience = 500 * time.Millisecond // … the first time where a leader may have gone with it; doubled each time
	indexPatience = 2 * time.Second        // for a publisher's id to be noted
	retryPause    = 50 * time.Millisecond  // when nobody takes the update
	fullGrace     = 100 * time.Millisecond // for acknowledgements on their way when the disk becomes full
	codeWrongLast = 10071                  // wrong last sequence of the subject
	codeNoRoom    = 10002                  // the account may store no more

	statusUnavailable = 503 // in a refusal
)

// Append stores u; see transport.Transport. Any number of appends may be under way, each is answered by
// its own acknowledgement. An update whose acknowledgement does not come is sent again with the same
// nonce, so that it is stored once, until PublishTimeout.
func (l *Log) Append(ctx context.Context, u *spec.Update) (transport.Entry, error) {
	return l.appendOnce(ctx, u, newNonce())
}

// appendOnce is Append for an update that somebody else may append, too, with the same nonce: it is stored once, as
// long as the log remembers nonces.
func (l *Log) appendOnce(ctx context.Context, u *spec.Update, nonce string) (transport.Entry, error) {
	if !l.appends.enter() {
		return transport.Entry{}, fmt.Errorf("jetstream: append: %w", transport.ErrClosed)
	}
	defer l.appends.leave()
	began := time.Now()
	e, err := l.append(ctx, u, nonce)
	if err != nil {
		l.counters.appendErrors.Add(1)
		if errors.Is(err, transport.ErrFull) {
			l.refusals.refused(int64(len(u.Data)), err)
		}
		return transport.Entry{}, fmt.Errorf("jetstream: append: %w", err)
	}
	if l.opts.clustered() { // where nobody looks at the disk
		l.refusals.taken(int64(len(u.Data)))
	}
	l.counters.appends.Add(1)
	l.counters.appendNanos.Add(int64(time.Since(began)))
	return e, nil
}

func (l *Log) append(ctx context.Context, u *spec.Update, nonce string) (transport.Entry, error) {
	if ctx.Err() != nil {
		return transport.Entry{}, context.Cause(ctx)
	}
	m, err := encode(l.subjects.of(u.Topics), nonce, u)
	if err != nil {
		return transport.Entry{}, err
	}
	n := int64(m.Size())
	if l.opts.MaxBytes > 0 && n > l.opts.MaxBytes {
		return transport.Entry{}, fmt.Errorf("%w: %d bytes, at most %d are retained", transport.ErrTooLarge, n, l.opts.MaxBytes)
	}
	if !l.opts.clustered() { // elsewhere the local disk is one of several
		if err := l.space.take(n); err != nil {
			return transport.Entry{}, err
		}
	}
	p, err := l.tail.begin(ctx, l.opts.PublishTimeout)
	if err != nil {
		return transport.Entry{}, err
	}
	ack, err := l.publish(ctx, m)
	if err != nil {
		l.tail.end(p, transport.Entry{})
		return transport.Entry{}, err
	}
	e := transport.Entry{Pos: transport.Position(ack.Sequence), Update: u}
	if u.ID == "" {
		named := *u
		named.ID = l.identity.Load().codec.Encode(ack.Sequence, eventid.Check(nonce))
		e.Update = &named
	}
	l.newest.raise(e)
	l.tail.end(p, e)
	if u.ID != "" && !l.opts.NoIDIndex {
		l.index(ctx, u.ID, e.Pos)
	}
	return e, nil
}

// ack is the server's answer to a publication.
type ack struct {
	Sequence uint64        `json:"seq"`
	Error    *refusalError `json:"error"`
}

type refusalError struct {
	Status      int    `json:"code"`
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (f *refusalError) Error() string { return f.Description }

// publish sends m until it is acknowledged, refused, or out of time.
func (l *Log) publish(ctx context.Context, m *nats.Msg) (ack, error) {
	deadline := time.Now().Add(l.opts.PublishTimeout)
	var last error
	for attempt := 0; ; attempt++ {
		state, changed := l.health.get()
		if l.opts.clustered() && !errors.Is(state, errEnded) {
			state = nil // the others may take it, and what is known of them is old
		}
		if errors.Is(state, transport.ErrFull) || errors.Is(state, errEnded) {
			return ack{}, state
		}
		if attempt > 0 {
			l.counters.appendRetries.Add(1)
		}
		pause := retryPause
		if state != nil { // being mended; the state will change
			last, pause = state, ackPatience
		} else {
			trouble := changed
			if l.opts.clustered() {
				trouble = nil
			}
			a, err := l.publishOnce(ctx, m, min(l.attemptPatience(attempt), time.Until(deadline)), trouble)
			if !errors.Is(err, errAgain) {
				return a, err
			}
			last = err
			l.nudge()
		}
		left := time.Until(deadline)
		if left <= 0 {
			return ack{}, fmt.Errorf("%w: not acknowledged within %v: %w", transport.ErrUnavailable, l.opts.PublishTimeout, last)
		}
		select {
		case <-time.After(min(pause, left)):
		case <-changed:
		case <-ctx.Done():
			return ack{}, context.Cause(ctx)
		case <-l.closed:
			return ack{}, transport.ErrClosed
		}
	}
}

// errAgain marks what is worth another attempt.
var errAgain = errors.New("temporary")

// attemptPatience is how long an acknowledgement is waited for. What a leader that left politely had not stored is
// lost without a word, and its successor is there in a moment; the nonce makes sending again harmless.
func (l *Log) attemptPatience(attempt int) time.Duration {
	if !l.opts.clustered() {
		return ackPatience
	}
	return min(firstPatience<<min(attempt, 8), ackPatience)
}

// publishOnce sends m and waits for its acknowledgement, for wait at most.
func (l *Log) publishOnce(ctx context.Context, m *nats.Msg, wait time.Duration, changed <-chan struct{}) (ack, error) {
	c, err := l.inbox.send(m, false)
	if errors.Is(err, nats.ErrMaxPayload) {
		return ack{}, fmt.Errorf("%w: %d bytes, the server takes %d", transport.ErrTooLarge, m.Size(), l.nc.MaxPayload())
	}
	if err != nil {
		return ack{}, fmt.Errorf("%w: %w", errAgain, err)
	}
	defer l.inbox.drop(c)
	patience := time.NewTimer(wait)
	deadline := time.Now().Add(wait)
	defer patience.Stop()
	for {
		select {
		case <-c.done:
			if c.cut {
				return ack{}, fmt.Errorf("%w: %w", errAgain, nats.ErrDisconnected)
			}
			return l.readAck(c.msgs[0])
		case <-changed:
			changed = nil
			patience.Reset(min(fullGrace, time.Until(deadline)))
		case <-patience.C:
			return ack{}, fmt.Errorf("%w: %w", errAgain, nats.ErrTimeout)
		case <-ctx.Done():
			return ack{}, context.Cause(ctx)
		case <-l.closed:
			return ack{}, transport.ErrClosed
		}
	}
}

// readAck tells an acknowledgement from a refusal.
func (l *Log) readAck(m *nats.Msg) (ack, error) {
	if m.Header.Get(headerStatus) == statusNoServer {
		return ack{}, fmt.Errorf("%w: %w", errAgain, nats.ErrNoResponders)
	}
	if seq, ok := plainAck(m.Data); ok {
		return ack{Sequence: seq}, nil
	}
	var a ack
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return ack{}, fmt.Errorf("%w: acknowledgement: %w", transport.ErrUnavailable, err)
	}
	if a.Error == nil && a.Sequence > 0 {
		return a, nil
	}
	if a.Error == nil {
		return ack{}, fmt.Errorf("%w: empty acknowledgement", transport.ErrUnavailable)
	}
	if a.Error.Status == statusUnavailable && l.opts.clustered() { // no leader, or one that has trouble: another takes over
		return ack{}, fmt.Errorf("%w: %w", errAgain, a.Error)
	}
	switch a.Error.Code {
	case codeNotLeader, codeOffline, codeOfflineWhy:
		return ack{}, fmt.Errorf("%w: %w", errAgain, a.Error)
	case 10054, 10097: // message or header larger than the stream takes
		return ack{}, fmt.Errorf("%w: %w", transport.ErrTooLarge, a.Error)
	case codeNoRoom, 10023, 10028, 10047: // resources of the account, or of the server: memory or storage
		return ack{}, fmt.Errorf("%w: %w", transport.ErrFull, a.Error)
	case codeWrongLast:
		return ack{}, a.Error
	case 10158: // a duplicate whose first is still being stored
		return ack{}, fmt.Errorf("%w: %w", errAgain, a.Error)
	default:
		return ack{}, fmt.Errorf("%w: %w", transport.ErrUnavailable, a.Error)
	}
}

// index notes a publisher's id. The update is stored already: if its id cannot be noted, recent history
// still knows it, and the next start notes it. It is not a reason to have the update published again.
func (l *Log) index(ctx context.Context, id string, pos transport.Position) {
	// nor is it one to keep the publisher waiting, or to leave off when the publisher has gone
	patience := indexPatience
	if l.opts.clustered() { // over an election: another node is to find it
		patience = l.opts.PublishTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := l.putID(ctx, id, pos); err != nil {
		l.opts.Logger.Warn("event id not indexed", slog.String("event_id", id), slog.Uint64("position", uint64(pos)), slog.Any("error", err))
	}
}

// plainAck reads the usual acknowledgement, {"stream":"…","seq":N}, without the cost of a general parser.
func plainAck(b []byte) (uint64, bool) {
	_, rest, ok := bytes.Cut(b, []byte(`,"seq":`))
	if !ok || !bytes.HasPrefix(b, []byte(`{"stream":"`)) {
		return 0, false
	}
	var n uint64
	for i, c := range rest {
		switch {
		case c >= '0' && c <= '9':
			n = n*10 + uint64(c-'0')
		default:
			return n, n > 0 && i > 0 && (c == '}' || c == ',')
		}
	}
	return 0, false
}
