package hub

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// How a shard writes: what is queued for a stream as one piece, without waiting; what the socket did not take stays
// with the stream, and so does the watch over its progress.

// join writes frames as one piece.
func (sh *shard) join(s *subscriber, frames []*frame, now time.Time) {
	k := s.sink.(*h1Sink)
	var (
		b               []byte
		joined, largest int
	)
	for _, f := range frames {
		wire := s.wire(f, k.chunk)
		if wire == nil {
			continue
		}
		largest = max(largest, len(wire))
		switch joined++; joined {
		case 1:
			b = wire // alone it needs no copy
		case 2:
			sh.scratch = append(append(sh.scratch[:0], b...), wire...)
			b = sh.scratch
		default:
			sh.scratch = append(sh.scratch, wire...)
			b = sh.scratch
		}
	}
	if joined == 0 {
		return
	}
	sh.hub.metrics.Delivered.Add(float64(joined))
	sh.put(s, b, now, joined > 1, largest)
	if cap(sh.scratch) > 4*batchBytes {
		sh.scratch = nil
	}
}

// put writes b, whose largest event has `largest` bytes, as far as the socket takes it and keeps the rest;
// shared says that b must be copied to be kept. s.rest must be empty.
func (sh *shard) put(s *subscriber, b []byte, now time.Time, shared bool, largest int) {
	n := sh.tryWrite(s, b)
	s.lastSent = now
	if n == len(b) {
		if s.awaitAck(s.lastSent) && s.place != absent {
			sh.due.schedule(s, sh.nextLook(s, s.lastSent))
		}
		return
	}
	if s.rest = b[n:]; shared {
		s.rest = append([]byte(nil), b[n:]...)
	}
	s.need = min(progressBytes, largest)
	s.madeProgress(s.lastSent)
	sh.due.schedule(s, sh.nextLook(s, s.lastSent))
}

// writeRest reports whether the socket has taken everything that was left.
func (sh *shard) writeRest(s *subscriber) bool {
	n := sh.tryWrite(s, s.rest)
	if n == 0 {
		return false
	}
	now := time.Now()
	s.taken += n
	if s.taken >= progressBytes || madeProgress(s.rest, n) {
		s.madeProgress(now)
	}
	s.lastSent = now
	if s.rest = s.rest[n:]; len(s.rest) > 0 {
		return false
	}
	s.rest = nil
	sh.due.schedule(s, sh.nextLook(s, now))
	return true
}

// madeProgress starts a new period in which the client has to make progress.
func (s *subscriber) madeProgress(now time.Time) {
	s.progress, s.taken, s.unacked = now, 0, s.sink.(*h1Sink).unacked()
}

// stalled reports whether a whole write time-out has passed without progress. A full socket reports room
// only in big steps; what the client has acknowledged meanwhile is the finer measure.
func (sh *shard) stalled(s *subscriber, now time.Time) bool {
	if now.Sub(s.progress) < sh.hub.o.WriteTimeout {
		return false
	}
	if held := s.sink.(*h1Sink).unacked(); held >= 0 && s.unacked+s.taken-held >= s.need {
		s.madeProgress(now)
		return false
	}
	return true
}

// tryWrite writes without waiting. A broken connection shows as a full one; the poller reports it.
//
// The descriptor is the stream's as long as the shard has the stream: nobody else closes it. So it is used as it is,
// without net.Conn's locks and checks, which cost a tenth of a short write.
func (sh *shard) tryWrite(s *subscriber, b []byte) int {
	n, err := unix.Write(s.fd, b)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Write(s.fd, b)
	}
	n = max(n, 0)
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		s.events.Or(unix.EPOLLERR)
		s.notify()
	}
	sh.hub.metrics.DeliveredBytes.Add(float64(n))
	return n
}
