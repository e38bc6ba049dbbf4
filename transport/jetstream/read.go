package jetstream

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/transport"
)

const (
	readBatch = 500     // entries asked for at a time
	readBytes = 1 << 20 // bytes after which the server ends a batch early
	maxReads  = 16      // reads of the store under way at a time; the server's MaxPending has room for them
)

// beginRead waits for a place among the reads under way: together their answers must not be more than the
// connection may hold, or the server would cut it.
func (l *Log) beginRead(ctx context.Context) error {
	select {
	case l.reads <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.closed:
		return transport.ErrClosed
	}
}

func (l *Log) endRead() { <-l.reads }

// readStore reads up to n entries of (after, upto] from the store, in order, stepping over what is missing.
// next is how far it came, and gap the first position up to there that did not come, 0 for none. Why it did
// not come is another question: the server says "not found" of what it cannot read, too, and a connection
// that breaks in the middle of an answer loses the middle.
func (l *Log) readStore(ctx context.Context, after, upto transport.Position, n int) (batch []transport.Entry, next, gap transport.Position, err error) {
	if err := l.beginRead(ctx); err != nil {
		return nil, after, 0, err
	}
	defer l.endRead()
	ask := fmt.Appendf(nil, `{"seq":%d,"batch":%d,"max_bytes":%d}`, after+1, n, readBytes)
	msgs, err := l.inbox.request(ctx, directGetSubject+l.opts.Prefix, ask, true)
	if err != nil {
		return nil, after, 0, err
	}
	next = after
	miss := func(to transport.Position) transport.Position { // next … to is read, or missing
		if gap == 0 && next < to {
			return next + 1
		}
		return gap
	}
	for _, m := range msgs {
		switch status := m.Header.Get(headerStatus); {
		case len(m.Data) > 0 || status == "":
		case status == statusNone, status == statusEnd && len(batch) == 0 && next == after:
			return nil, upto, miss(upto), nil
		case status == statusEnd:
			return batch, next, gap, nil
		default:
			return nil, after, 0, fmt.Errorf("%w: read history: %s %s", transport.ErrUnavailable, status, m.Header.Get("Description"))
		}
		pos, err := position(m)
		if err != nil {
			return nil, after, 0, err
		}
		if pos > upto {
			return batch, upto, miss(upto), nil
		}
		gap = miss(pos - 1)
		next = pos
		e, err := decode(l.identity.Load().codec, pos, m.Header, m.Data)
		if err != nil { // something else wrote into the stream
			l.opts.Logger.Error("entry skipped", "error", err)
			continue
		}
		batch = append(batch, e)
	}
	return batch, next, gap, nil
}

// at reads the entry at pos, and reports whether it is there.
func (l *Log) at(ctx context.Context, pos transport.Position) (transport.Entry, bool, error) {
	if err := l.beginRead(ctx); err != nil {
		return transport.Entry{}, false, err
	}
	defer l.endRead()
	ask := fmt.Appendf(nil, `{"seq":%d}`, pos)
	msgs, err := l.inbox.request(ctx, directGetSubject+l.opts.Prefix, ask, false)
	if err != nil {
		return transport.Entry{}, false, err
	}
	m := msgs[0]
	switch status := m.Header.Get(headerStatus); status {
	case "":
	case statusNone:
		return l.atLeader(ctx, ask)
	default:
		return transport.Entry{}, false, fmt.Errorf("%w: read position %d: %s", transport.ErrUnavailable, pos, status)
	}
	e, err := decode(l.identity.Load().codec, pos, m.Header, m.Data)
	return e, err == nil, err
}

// atLeader reads what a replica does not have. Without a leader it is not there.
func (l *Log) atLeader(ctx context.Context, ask []byte) (transport.Entry, bool, error) {
	if !l.opts.clustered() || l.extents.left() {
		return transport.Entry{}, false, nil
	}
	m, found, err := l.leaderGet(ctx, l.opts.Prefix, ask, leaderPatience)
	if err != nil || !found {
		return transport.Entry{}, false, nil //nolint:nilerr // see above
	}
	e, err := l.entry(m)
	return e, err == nil, err
}

// position is the sequence of a message that was read directly.
func position(m *nats.Msg) (transport.Position, error) {
	n, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: message without a sequence: %w", transport.ErrUnavailable, err)
	}
	return transport.Position(n), nil
}

// gap says why a position was not read, in an extent asked for afterwards: ErrTrimmed if retention has
// discarded it, ErrUnavailable if it is there, for nothing is missing between the first entry and the last;
// nil if entries are missing: nothing here deletes one singly, an operator may have.
func (x extent) gap(pos transport.Position) error {
	switch {
	case pos < x.first:
		return transport.ErrTrimmed
	case pos <= x.last && uint64(x.last-x.first)+1 == x.messages:
		return fmt.Errorf("position %d: %w", pos, errNotRead)
	default:
		return nil
	}
}
