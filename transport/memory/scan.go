package memory

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// scanBatch is how many entries a scan takes from the log at a time.
const scanBatch = 128

// Scan reads history; see transport.Transport. Hints are not used. Up to 128 entries are taken at a time;
// those already taken are yielded even if they leave the log meanwhile.
func (l *Log) Scan(ctx context.Context, after, upto transport.Position, _ []topic.Selector) iter.Seq2[transport.Entry, error] {
	return func(yield func(transport.Entry, error) bool) {
		var batch []transport.Entry
		for after < upto {
			var err error
			if batch, err = l.read(ctx, batch[:0], after, upto); err != nil {
				yield(transport.Entry{}, fmt.Errorf("memory: scan (%d, %d]: %w", after, upto, err))
				return
			}
			if len(batch) == 0 {
				return
			}
			for _, e := range batch {
				after = e.Pos
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// read appends the next entries of (after, upto] to batch.
func (l *Log) read(ctx context.Context, batch []transport.Entry, after, upto transport.Position) ([]transport.Entry, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.isClosed {
		return nil, transport.ErrClosed
	}
	first := l.first()
	if after+1 < first {
		return nil, transport.ErrTrimmed
	}
	rest := l.retained[min(after+1-first, transport.Position(len(l.retained))):]
	if len(rest) > 0 && l.tooOld(rest[0], time.Now()) {
		return nil, transport.ErrTrimmed
	}
	for _, n := range rest[:min(len(rest), scanBatch)] {
		if n.entry.Pos > upto {
			break
		}
		batch = append(batch, n.entry)
	}
	return batch, nil
}
