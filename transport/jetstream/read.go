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
	maxReads  = 64      // reads of the store under way at a time
)

// readStore reads up to n entries of (after, upto] from the store, in order, stepping over what is missing.
// next is how far it came: everything up to there was read. It says nothing of what was discarded.
func (l *Log) readStore(ctx context.Context, after, upto transport.Position, n int) (batch []transport.Entry, next transport.Position, err error) {
	select {
	case l.reads <- struct{}{}:
		defer func() { <-l.reads }()
	case <-ctx.Done():
		return nil, after, context.Cause(ctx)
	case <-l.closed:
		return nil, after, transport.ErrClosed
	}
	ask := fmt.Appendf(nil, `{"seq":%d,"batch":%d,"max_bytes":%d}`, after+1, n, readBytes)
	msgs, err := l.inbox.request(ctx, directGetSubject+l.opts.Prefix, ask, true)
	if err != nil {
		return nil, after, err
	}
	next = after
	for _, m := range msgs {
		switch status := m.Header.Get(headerStatus); {
		case len(m.Data) > 0 || status == "":
		case status == statusNone, status == statusEnd && len(batch) == 0 && next == after:
			return nil, upto, nil
		case status == statusEnd:
			return batch, next, nil
		default:
			return nil, after, fmt.Errorf("%w: read history: %s %s", transport.ErrUnavailable, status, m.Header.Get("Description"))
		}
		pos, err := position(m)
		if err != nil {
			return nil, after, err
		}
		if pos > upto {
			return batch, upto, nil
		}
		next = pos
		e, err := decode(l.identity.codec, pos, m.Header, m.Data)
		if err != nil { // something else wrote into the stream
			l.opts.Logger.Error("entry skipped", "error", err)
			continue
		}
		batch = append(batch, e)
	}
	return batch, next, nil
}

// at reads the entry at pos, and reports whether it is there.
func (l *Log) at(ctx context.Context, pos transport.Position) (transport.Entry, bool, error) {
	msgs, err := l.inbox.request(ctx, directGetSubject+l.opts.Prefix, fmt.Appendf(nil, `{"seq":%d}`, pos), false)
	if err != nil {
		return transport.Entry{}, false, err
	}
	m := msgs[0]
	switch status := m.Header.Get(headerStatus); status {
	case "":
	case statusNone:
		return transport.Entry{}, false, nil
	default:
		return transport.Entry{}, false, fmt.Errorf("%w: read position %d: %s", transport.ErrUnavailable, pos, status)
	}
	e, err := decode(l.identity.codec, pos, m.Header, m.Data)
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

// checkRetained returns ErrTrimmed if something after `after` has been discarded, by the server's word of now.
func (l *Log) checkRetained(ctx context.Context, after transport.Position) error {
	x, err := l.freshExtent(ctx)
	if err != nil {
		return err
	}
	if after+1 < x.first {
		return transport.ErrTrimmed
	}
	return nil
}
