package memory

import (
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// first returns the position of the oldest retained entry, or the next position when there is none.
// Called with mu held.
func (l *Log) first() transport.Position {
	return l.tail.entry.Pos + 1 - transport.Position(len(l.retained))
}

// trim removes what is beyond the limits, once `entries` more entries of `size` bytes are added. Called
// with mu held for writing.
func (l *Log) trim(now time.Time, entries int, size int64) {
	gone := 0
	for _, n := range l.retained {
		tooMany := l.opts.MaxMessages > 0 && len(l.retained)-gone+entries > l.opts.MaxMessages
		if !tooMany && !l.tooOld(n, now) && l.bytes+size <= l.opts.MaxBytes {
			break
		}
		l.bytes -= n.size
		if !n.own {
			l.ids.trimmed(n.entry.Update.ID, n.entry.Pos)
		}
		l.retained[gone] = nil // append moves the slice to a new array in time; until then the node is free
		gone++
	}
	l.retained = l.retained[gone:]
}

// tooOld reports whether n is beyond MaxAge.
func (l *Log) tooOld(n *node, now time.Time) bool {
	return l.opts.MaxAge > 0 && now.Sub(n.added) >= l.opts.MaxAge
}

// armExpiry sets the timer that removes the oldest entry when nobody else does, so that an idle log
// gives its memory back. Called with mu held for writing.
func (l *Log) armExpiry() {
	if l.opts.MaxAge == 0 || l.expiry != nil || len(l.retained) == 0 {
		return
	}
	l.expiry = time.AfterFunc(time.Until(l.retained[0].added.Add(l.opts.MaxAge)), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.expiry = nil
		if l.isClosed {
			return
		}
		l.trim(time.Now(), 0, 0)
		l.armExpiry()
	})
}
