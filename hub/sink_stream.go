package hub

import (
	"net/http"
	"time"
)

// streamSink writes through net/http in the handler's goroutine: HTTP/2, TLS, and systems without
// shards. net/http does not say how much of a write that timed out was taken, so nothing longer than
// progressBytes is written under one deadline, and a client that was slow gets one event at a time:
// then a missed deadline means no progress.
type streamSink struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	slow    bool // the last write took long
}

func newStreamSink(w http.ResponseWriter, timeout time.Duration) *streamSink {
	return &streamSink{w: w, rc: http.NewResponseController(w), timeout: timeout}
}

func (k *streamSink) chunked() bool { return false }

func (k *streamSink) batch() int {
	if k.slow {
		return 1
	}
	return progressBytes
}

func (k *streamSink) send(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), progressBytes)
		start := time.Now()
		if err := k.piece(b[:n]); err != nil {
			if time.Since(start) >= k.timeout {
				return errStalled
			}
			return err
		}
		k.slow = time.Since(start) > k.timeout/8
		b = b[n:]
	}
	return nil
}

func (k *streamSink) piece(b []byte) error {
	if err := k.rc.SetWriteDeadline(time.Now().Add(k.timeout)); err != nil {
		return err
	}
	if _, err := k.w.Write(b); err != nil {
		return err
	}
	if err := k.rc.Flush(); err != nil {
		return err
	}
	// HTTP/2 resets a stream whose deadline passes, even an idle one.
	return k.rc.SetWriteDeadline(time.Time{})
}

func (k *streamSink) close(last []byte) { _ = k.send(last) }

// abort makes net/http cut the connection, or reset the stream, when the handler returns: the body
// must not look complete to a client that did not get all of it.
func (k *streamSink) abort() { _ = k.rc.SetWriteDeadline(time.Unix(1, 0)) }
