package jetstream

import (
	"context"
	"fmt"
	"iter"
	"sort"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// Scan reads history; see transport.Transport. What is recent comes from the window that all scans share,
// what is further back straight from the store, up to 500 entries at a time and at the caller's pace. In
// the window the hint is used when it consists of plain topics.
func (l *Log) Scan(ctx context.Context, after, upto transport.Position, hint []topic.Selector) iter.Seq2[transport.Entry, error] {
	return func(yield func(transport.Entry, error) bool) {
		topics, plain := plainTopics(hint)
		if !plain {
			topics = nil
		}
		begin := after
		for after < upto {
			batch, next, err := l.step(ctx, after, upto, topics)
			if err != nil {
				yield(transport.Entry{}, fmt.Errorf("jetstream: scan (%d, %d] at %d: %w", begin, upto, after, l.orClosed(err)))
				return
			}
			for _, e := range batch {
				if !yield(e, nil) {
					return
				}
			}
			if next == after {
				return
			}
			after = next
		}
	}
}

// step reads the next entries of (after, upto] and how far it came; next == after is the end of the log.
func (l *Log) step(ctx context.Context, after, upto transport.Position, topics []string) (batch []transport.Entry, next transport.Position, err error) {
	if ctx.Err() != nil {
		return nil, after, context.Cause(ctx)
	}
	x, err := l.extentFor(ctx, upto)
	if err != nil {
		return nil, after, err
	}
	if after+1 < x.first {
		return nil, after, transport.ErrTrimmed
	}
	upto = min(upto, x.last)
	if after >= upto {
		return nil, after, nil
	}
	recent, err := l.extendWindow(ctx, after, upto, x)
	if err != nil {
		return nil, after, err
	}
	if recent {
		if batch, next, ok := l.window.read(after, upto, topics); ok {
			l.counters.windowHits.Add(1)
			return batch, next, nil
		}
	}
	l.counters.windowMisses.Add(1)
	return l.readChecked(ctx, after, upto)
}

// readChecked reads from the store and makes sure that what is missing was not discarded by retention, and is not
// missing for lag.
func (l *Log) readChecked(ctx context.Context, after, upto transport.Position) (batch []transport.Entry, next transport.Position, err error) {
	err = l.patiently(ctx, func() error {
		batch, next, err = l.readOnce(ctx, after, upto)
		return err
	})
	return batch, next, err
}

func (l *Log) readOnce(ctx context.Context, after, upto transport.Position) ([]transport.Entry, transport.Position, error) {
	batch, next, gap, err := l.readStore(ctx, after, upto, readBatch)
	if err != nil {
		return nil, after, err
	}
	if gap == 0 {
		return batch, next, nil
	}
	n := sort.Search(len(batch), func(i int) bool { return batch[i].Pos >= gap })
	if err := l.missing(ctx, gap, upto, n == len(batch)); err != nil {
		if gap == after+1 {
			return nil, after, err
		}
		// what came before it is good; the next read begins at the gap
		return batch[:n], gap - 1, nil
	}
	return batch, next, nil
}

// plainTopics returns the topics that the selectors name, if each selects one topic.
func plainTopics(hint []topic.Selector) (topics []string, plain bool) {
	for _, s := range hint {
		// What has a brace is a template, as good as always: compiling it costs more than it tells.
		if s.Kind == topic.URLPattern || strings.Contains(s.Pattern, "{") {
			return nil, false
		}
		m, err := topic.Compile(s, nil, topic.Limits{})
		if err != nil {
			return nil, false
		}
		only, exact := m.Prefix()
		if !exact {
			return nil, false
		}
		topics = append(topics, only)
	}
	return topics, len(topics) > 0
}
