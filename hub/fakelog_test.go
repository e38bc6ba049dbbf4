package hub

import (
	"context"
	"sync/atomic"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// faultyLog is a log that fails where a test says so. A hook that is nil, or returns nil, lets the call
// through. The hooks are set before the log is used.
type faultyLog struct {
	transport.Transport
	onAppend func(ctx context.Context) error
	onLocate func() error
	onAdd    func(s topic.Selector) error
	slowAdd  bool         // Add waits for the end of its context
	interest atomic.Int64 // selectors added and not removed
}

func (l *faultyLog) Append(ctx context.Context, u *spec.Update) (transport.Entry, error) {
	if l.onAppend != nil {
		if err := l.onAppend(ctx); err != nil {
			return transport.Entry{}, err
		}
	}
	return l.Transport.Append(ctx, u)
}

func (l *faultyLog) Locate(ctx context.Context, id string) (transport.Position, error) {
	if l.onLocate != nil {
		if err := l.onLocate(); err != nil {
			return 0, err
		}
	}
	return l.Transport.Locate(ctx, id)
}

func (l *faultyLog) Follow(ctx context.Context, fn func(transport.Entry)) (transport.Interest, error) {
	in, err := l.Transport.Follow(ctx, fn)
	if err != nil {
		return nil, err
	}
	return faultyInterest{in, l}, nil
}

type faultyInterest struct {
	transport.Interest
	log *faultyLog
}

func (i faultyInterest) Add(ctx context.Context, selectors ...topic.Selector) (transport.Position, error) {
	for _, s := range selectors {
		if i.log.onAdd != nil {
			if err := i.log.onAdd(s); err != nil {
				return 0, err
			}
		}
	}
	if i.log.slowAdd {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	from, err := i.Interest.Add(ctx, selectors...)
	if err == nil {
		i.log.interest.Add(int64(len(selectors)))
	}
	return from, err
}

func (i faultyInterest) Remove(selectors ...topic.Selector) {
	i.log.interest.Add(-int64(len(selectors)))
	i.Interest.Remove(selectors...)
}
