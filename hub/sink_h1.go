package hub

import (
	"bytes"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// sendBuffer bounds what the kernel holds for one client (bytes; Linux doubles it), so that one that
// never reads is noticed after tens of KB.
const sendBuffer = 64 << 10

// BoundSendBuffer makes the kernel hold little for a connection whose client does not read. A server calls it
// for each connection it accepts; the streams that the hub takes over are bounded anyway.
func BoundSendBuffer(c net.Conn) {
	if b, ok := plainConn(c).(interface{ SetWriteBuffer(int) error }); ok {
		_ = b.SetWriteBuffer(sendBuffer)
	}
}

// h1Sink writes to a hijacked HTTP/1.x connection. Its methods block and belong to a consumer with a
// goroutine; while a shard has the stream, the shard writes to raw without waiting.
type h1Sink struct {
	conn    net.Conn
	raw     syscall.RawConn // nil if the connection has no descriptor; then no shard can have it
	timeout time.Duration
	// patience is the subscriber's: until when a write may take, and whether that is final.
	patience func(time.Time) (time.Time, bool)
	chunk    bool           // HTTP/1.1; an HTTP/1.0 body ends with the connection
	reuse    func(net.Conn) // what becomes of the connection after a planned end; nil = it is closed
}

func newH1Sink(conn net.Conn, s *subscriber, chunk bool, reuse func(net.Conn)) *h1Sink {
	k := &h1Sink{conn: conn, timeout: s.hub.o.WriteTimeout, patience: s.patience, chunk: chunk, reuse: reuse}
	BoundSendBuffer(conn)
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			k.raw = raw
		}
	}
	return k
}

func (k *h1Sink) chunked() bool { return k.chunk }

func (k *h1Sink) batch() int { return batchBytes }

func (k *h1Sink) send(b []byte, largest int) error {
	began, before := time.Now(), k.unacked() // of the period in which there has to be progress
	for {
		limit, over := k.patience(time.Now())
		if err := k.conn.SetWriteDeadline(earlier(limit, began.Add(k.timeout))); err != nil {
			return err
		}
		n, err := k.conn.Write(b)
		if err == nil {
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		now, held := time.Now(), k.unacked()
		switch {
		case over && !now.Before(limit):
			return errCut
		// A full socket takes more only in big steps; what was acknowledged is the finer measure.
		case madeProgress(b, n), before >= 0 && held >= 0 && before+n-held >= min(progressBytes, largest):
			began, before = now, held
		case !now.Before(began.Add(k.timeout)):
			return errStalled
		default: // woken because the stream's time is over
			before += n
		}
		b = b[n:]
	}
}

// madeProgress reports whether writing the first n bytes of b counts as progress. An event ends with
// an empty line and has none inside.
func madeProgress(b []byte, n int) bool {
	return n >= progressBytes || bytes.Contains(b[:n], eventEnd)
}

var eventEnd = []byte("\n\n")

// lastChunk ends a chunked body.
const lastChunk = "0\r\n\r\n"

func (k *h1Sink) close(last []byte) {
	if b := k.ending(last); len(b) > 0 && k.send(b, len(b)) != nil {
		k.abort()
		return
	}
	k.release()
}

// release lets go of the connection after the whole body has been written.
func (k *h1Sink) release() {
	if k.reuse == nil {
		_ = k.conn.Close()
		return
	}
	k.reuse(k.conn)
}

// ending is what a planned end writes: last, and the terminator of a chunked body.
func (k *h1Sink) ending(last []byte) []byte {
	var b []byte
	if len(last) > 0 {
		b = appendRaw(b, last, k.chunk)
	}
	if k.chunk {
		b = append(b, lastChunk...)
	}
	return b
}

func (k *h1Sink) abort() { _ = k.conn.Close() }
