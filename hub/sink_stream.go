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
	s       *subscriber
	guard   *connGuard // nil where the connection is not known
}

func newStreamSink(w http.ResponseWriter, r *http.Request, s *subscriber) *streamSink {
	return &streamSink{
		w: w, rc: http.NewResponseController(w), timeout: s.hub.o.WriteTimeout, s: s,
		guard: newConnGuard(r, s.hub.o.WriteTimeout),
	}
}

func (k *streamSink) chunked() bool { return false }

func (k *streamSink) batch() int {
	if k.slow {
		return 1
	}
	return progressBytes
}

func (k *streamSink) send(b []byte, _ int) error {
	for len(b) > 0 {
		n := min(len(b), progressBytes)
		start := time.Now()
		limit := k.limit(start)
		if err := k.piece(b[:n], earlier(limit, start.Add(k.timeout))); err != nil {
			now := time.Now()
			switch {
			case !limit.IsZero() && !now.Before(limit):
				return errCut
			case now.Sub(start) >= k.timeout:
				return errStalled
			}
			return err
		}
		k.slow = time.Since(start) > k.timeout/8
		b = b[n:]
	}
	return nil
}

// limit is when a write that is begun now is given up whatever the client does. A write that missed its
// deadline cannot be taken up again here, so unlike on other sinks the lifetime's end does not interrupt it.
func (k *streamSink) limit(now time.Time) time.Time {
	if until, over := k.s.patience(now); over {
		return until
	}
	return k.s.grant.Expires
}

func (k *streamSink) piece(b []byte, deadline time.Time) error {
	if err := k.rc.SetWriteDeadline(deadline); err != nil {
		return err
	}
	defer k.guard.watch()()
	if _, err := k.w.Write(b); err != nil {
		return err
	}
	if err := k.rc.Flush(); err != nil {
		return err
	}
	// HTTP/2 resets a stream whose deadline passes, even an idle one.
	return k.rc.SetWriteDeadline(time.Time{})
}

func (k *streamSink) close(last []byte) {
	_ = k.send(last, len(last))
	// net/http writes the end of the body when the handler returns.
	_ = k.rc.SetWriteDeadline(time.Now().Add(k.timeout))
}

// abort makes net/http cut the connection, or reset the stream, when the handler returns: the body
// must not look complete to a client that did not get all of it.
func (k *streamSink) abort() { _ = k.rc.SetWriteDeadline(time.Unix(1, 0)) }
