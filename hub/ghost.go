package hub

import (
	"net"
	"syscall"
	"time"
)

// A client that vanishes without a word (a closed laptop, a dead network) leaves a socket that goes on taking
// heartbeats for many minutes before TCP gives up, and a subscription that is still listed. So something of what is
// written has to be acknowledged within one write time-out: whoever is gone is noticed within a heartbeat and a write
// time-out, on Linux, over TCP. Elsewhere the wait is TCP's own.

// ackWatch looks after what was written to a client but not acknowledged. Owned by the consumer.
type ackWatch struct {
	peer  syscall.RawConn // nil where it cannot be known
	at    time.Time       // when to look, zero = nothing is awaited
	acked uint64          // bytes acknowledged when the wait began
}

// watchAcks lets the acknowledgements of c be watched.
func (s *subscriber) watchAcks(c net.Conn) {
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			s.ack.peer = raw
		}
	}
}

// awaitAck begins to wait for an acknowledgement, after something was written; true means that there is a new time
// to look at.
func (s *subscriber) awaitAck(now time.Time) bool {
	if s.ack.peer == nil || !s.ack.at.IsZero() {
		return false
	}
	_, acked, ok := delivery(s.ack.peer)
	if !ok {
		s.ack.peer = nil // not TCP, or closed
		return false
	}
	s.ack.at, s.ack.acked = now.Add(s.hub.o.WriteTimeout), acked
	return true
}

// vanished reports whether nothing was acknowledged for a write time-out although something is to be.
func (s *subscriber) vanished(now time.Time) bool {
	if s.ack.at.IsZero() || now.Before(s.ack.at) {
		return false
	}
	pending, acked, ok := delivery(s.ack.peer)
	switch {
	case !ok:
		s.ack = ackWatch{}
	case !pending:
		s.ack.at = time.Time{}
	case acked == s.ack.acked:
		return true
	default:
		s.ack.at, s.ack.acked = now.Add(s.hub.o.WriteTimeout), acked
	}
	return false
}
