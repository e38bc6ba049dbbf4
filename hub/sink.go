package hub

import (
	"errors"
	"sync"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/sse"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// sink is how bytes reach one client. It is used by the stream's consumer alone.
type sink interface {
	// send writes b, one or more whole events or comments in the form chunked asks for, the largest of
	// them of `largest` bytes. It returns when the client's side has taken them; errStalled when it makes no
	// progress (SUB-35), errCut when the stream's time is over, another error when the client is gone.
	send(b []byte, largest int) error
	// chunked reports whether bytes need HTTP/1.1 chunk framing of ours.
	chunked() bool
	// batch is how many bytes may be joined in one send.
	batch() int
	// close writes last, ends the body as planned (SUB-37), and lets go of the connection.
	close(last []byte)
	// abort lets go of the connection at once.
	abort()
}

// errStalled means that the client took neither a whole event nor progressBytes within one write time-out.
var errStalled = errors.New("client makes no progress")

// errCut means that the stream has to end and the client did not take what was begun in time.
var errCut = errors.New("stream is over")

// progressBytes is what counts as progress within one write time-out (SUB-35).
const progressBytes = 16 << 10

// batchBytes is how much is joined into one write.
const batchBytes = 64 << 10

// sinkReason is why a stream ends whose sink failed.
func (s *subscriber) sinkReason(err error) endReason {
	switch {
	case errors.Is(err, errStalled):
		return endStalled
	case errors.Is(err, errCut):
		s.torn = true
		if why := s.over(time.Now()); why != endNone {
			return why
		}
		return endExpired // exp is the one limit that does not wait for over
	default:
		return endClient
	}
}

// writer joins what a goroutine has for its sink into batches.
type writer struct {
	s     *subscriber
	buf   []byte
	spare *[]byte // of writerBuffers, where buf is from; nil = none is taken
	count int     // entries of the log written
	held  int     // events in buf
	large int     // bytes of the largest of them
	chunk bool
}

func newWriter(s *subscriber) *writer { return &writer{s: s, chunk: s.sink.chunked()} }

// writerBuffers spares a storm of streams that all read the log the buffers to do it with.
var writerBuffers = sync.Pool{New: func() any { return new([]byte) }}

// reserve takes a buffer, unless there is one.
func (w *writer) reserve() {
	if w.spare == nil {
		w.spare = writerBuffers.Get().(*[]byte)
		w.buf = (*w.spare)[:0]
	}
}

// release gives the buffer back; what is held has been flushed.
func (w *writer) release() {
	if w.spare == nil {
		return
	}
	if cap(w.buf) <= 2*batchBytes {
		*w.spare = w.buf[:0]
		writerBuffers.Put(w.spare)
	}
	w.spare, w.buf = nil, nil
}

func (w *writer) batch() int { return w.s.sink.batch() }

// frame adds a live frame, if the client has not had it.
func (w *writer) frame(f *frame) error {
	b := w.s.wire(f, w.chunk)
	if b == nil {
		return nil
	}
	w.reserve()
	if err := w.room(len(b)); err != nil {
		return err
	}
	w.buf = append(w.buf, b...)
	w.held++
	w.large = max(w.large, len(b))
	return nil
}

// entry adds an update read from the log.
func (w *writer) entry(e transport.Entry) error {
	w.count++
	w.reserve()
	if b := w.s.hub.replayed.wire(e, w.chunk); b != nil {
		if err := w.room(len(b)); err != nil {
			return err
		}
		w.buf = append(w.buf, b...)
		w.held++
		w.large = max(w.large, len(b))
		return nil
	}
	ev := event(e.Update)
	size := sse.EventSize(ev)
	if err := w.room(size + maxChunkHead + 2); err != nil {
		return err
	}
	if w.chunk {
		w.buf = appendChunkHead(w.buf, size)
	}
	w.buf = sse.AppendEvent(w.buf, ev)
	if w.chunk {
		w.buf = append(w.buf, '\r', '\n')
	}
	w.held++
	w.large = max(w.large, size)
	return nil
}

// comment sends a heartbeat.
func (w *writer) comment() error {
	w.reserve()
	w.buf = appendRaw(w.buf, heartbeat, w.chunk)
	w.s.hub.metrics.Heartbeats.Inc()
	return w.flush()
}

// room sends what is held if n more bytes would make the batch too long.
func (w *writer) room(n int) error {
	if len(w.buf) > 0 && len(w.buf)+n > w.batch() {
		return w.flush()
	}
	return nil
}

// flush sends what is held.
func (w *writer) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	err := w.s.sink.send(w.buf, max(w.large, 1))
	w.s.hub.metrics.DeliveredBytes.Add(float64(len(w.buf)))
	w.s.hub.metrics.Delivered.Add(float64(w.held))
	w.s.lastSent = time.Now()
	w.held, w.large = 0, 0
	if cap(w.buf) > 4*batchBytes {
		w.buf = nil
	}
	w.buf = w.buf[:0]
	return err
}
