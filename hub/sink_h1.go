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

// h1Sink writes to a hijacked HTTP/1.x connection. Its methods block and belong to a consumer with a
// goroutine; while a shard has the stream, the shard writes to raw without waiting.
type h1Sink struct {
	conn    net.Conn
	raw     syscall.RawConn // nil if the connection has no descriptor; then no shard can have it
	timeout time.Duration
	chunk   bool // HTTP/1.1; an HTTP/1.0 body ends with the connection
}

func newH1Sink(conn net.Conn, chunk bool, timeout time.Duration) *h1Sink {
	k := &h1Sink{conn: conn, timeout: timeout, chunk: chunk}
	if b, ok := conn.(interface{ SetWriteBuffer(int) error }); ok {
		_ = b.SetWriteBuffer(sendBuffer)
	}
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			k.raw = raw
		}
	}
	return k
}

func (k *h1Sink) chunked() bool { return k.chunk }

func (k *h1Sink) batch() int { return batchBytes }

func (k *h1Sink) send(b []byte) error {
	for {
		if err := k.conn.SetWriteDeadline(time.Now().Add(k.timeout)); err != nil {
			return err
		}
		before := k.unacked()
		n, err := k.conn.Write(b)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case madeProgress(b, n):
		case before < 0:
			return errStalled
		default: // a full socket takes more only in big steps; what was acknowledged is the finer measure
			if held := k.unacked(); held < 0 || before+n-held < min(progressBytes, len(b)) {
				return errStalled
			}
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
	b := k.ending(last)
	if len(b) > 0 {
		_ = k.send(b)
	}
	_ = k.conn.Close()
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
