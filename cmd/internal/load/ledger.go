package load

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// ledger balances deliveries that are due against those that have arrived. It keeps publishers from running ahead
// of the hub, and tells when everything has arrived. Safe for concurrent use; one caller waits at a time, in turn.
type ledger struct {
	arrived  atomic.Int64
	due      atomic.Int64
	forgiven atomic.Int64 // given up after a stall
	stalls   atomic.Int64

	turn   chan struct{} // holds a token while nobody waits
	wakeAt atomic.Int64
	wake   chan struct{}
}

func newLedger() *ledger {
	l := &ledger{turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	l.wakeAt.Store(math.MaxInt64)
	return l
}

// arrive notes one delivery.
func (l *ledger) arrive() {
	if l.arrived.Add(1) < l.wakeAt.Load() {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default: // one is there already
	}
}

// admit makes n more deliveries due once fewer than limit are outstanding, 0 for no limit. When nothing arrives for
// patience, what is outstanding is given up, so that a loss slows the run down but does not stop it. It reports
// whether ctx lasted; nothing was made due if not.
func (l *ledger) admit(ctx context.Context, n, limit int64, patience time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	if limit <= 0 {
		l.due.Add(n)
		return true
	}
	select {
	case <-l.turn:
		defer func() { l.turn <- struct{}{} }()
	case <-ctx.Done():
		return false
	}
	owed := l.due.Load() - l.forgiven.Load()
	if !l.reach(ctx, owed-limit+1, patience) {
		if ctx.Err() != nil {
			return false
		}
		l.stalls.Add(1)
		l.forgiven.Store(l.due.Load() - l.arrived.Load())
	}
	l.due.Add(n)
	return true
}

// withdraw takes back what admit made due: the publication failed.
func (l *ledger) withdraw(n int64) { l.due.Add(-n) }

// settle waits until all that is due has arrived, or nothing has for patience.
func (l *ledger) settle(ctx context.Context, patience time.Duration) bool {
	return l.reach(ctx, l.due.Load(), patience)
}

// reach waits until want deliveries have arrived. It gives up when ctx ends, or when none arrives for patience.
func (l *ledger) reach(ctx context.Context, want int64, patience time.Duration) bool {
	seen := l.arrived.Load()
	if seen >= want {
		return true
	}
	l.wakeAt.Store(want)
	defer l.wakeAt.Store(math.MaxInt64)
	quiet := time.NewTimer(patience)
	defer quiet.Stop()
	for l.arrived.Load() < want {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return false
		case <-quiet.C:
			now := l.arrived.Load()
			if now == seen {
				return false
			}
			seen = now
			quiet.Reset(patience)
		}
	}
	return true
}
