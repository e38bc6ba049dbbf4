package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// ErrStop ends Run without an error when the function given to it returns it.
var ErrStop = errors.New("client: stop")

// Reconnection times. The hub's retry field replaces the first.
const (
	defaultRetry = 3 * time.Second
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
)

// Subscriber keeps one subscription alive: it reconnects with its cursor, waits as the hub asks and a
// random time more, and tells when something was lost. URL and a selector are required: Topics are the classic
// protocol's, the next two draft-08's; a hub may take both in one request. Those of draft-08 alone are sent with QUERY
// when they are too long for a URL.
type Subscriber struct {
	URL         string   // of the hub
	Token       string   // empty = none is sent
	Topics      []string // each a topic, a URI template or *
	Match       []string // each a topic or *
	URLPatterns []string
	LastEventID string       // where to begin; empty = with what comes next
	HTTP        *http.Client // nil = one of its own; must have no Timeout, it would end streams
	MaxEvent    int          // bytes of an event, 0 = sse.DefaultMaxEvent
	RetryFirst  bool         // keep trying when not even the first attempt gets through

	OnOpen  func(Open)                            // called when a stream has begun; may be nil
	OnRetry func(cause error, wait time.Duration) // called before each wait; cause is io.EOF for a planned end; may be nil
}

// Open tells how a stream began.
type Open struct {
	Sent string // the cursor that was sent, empty for none
	Got  string // the reconciliation header, empty if the hub sent none
	Lost bool   // the hub says that events after Sent are missing, or that it does not know Sent
}

// Run hands each event to fn, in order, until ctx ends (its cause is returned), fn returns an error (it is
// returned, ErrStop as nil), the hub says not to come back (204: nil), or it refuses for good (*Error).
// The cursor moves on once fn has returned nil; it is the ID of events that come without one. Run once at a time.
// Source: WHATWG HTML §9.2.3; REQUIREMENTS REC-01, REC-12, REC-15, SSE-W11.
func (s *Subscriber) Run(ctx context.Context, fn func(sse.Event) error) error {
	r := &run{s: s, http: s.HTTP, cursor: s.LastEventID, retry: defaultRetry}
	if r.http == nil {
		r.http = defaultHTTP()
		defer r.http.CloseIdleConnections()
	}
	for failures := 0; ; {
		opened, err := r.stream(ctx, fn)
		var done *final
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &done):
			return done.err
		case opened:
			failures = 0
		case !r.everOpened && !s.RetryFirst:
			return err
		default:
			failures++
		}
		r.everOpened = r.everOpened || opened
		wait := r.wait(failures, err)
		if s.OnRetry != nil {
			s.OnRetry(err, wait)
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// final ends Run with err, which may be nil.
type final struct{ err error }

func (f *final) Error() string { return fmt.Sprint(f.err) }

// run is the state of one Run.
type run struct {
	s          *Subscriber
	http       *http.Client
	cursor     string        // as a browser keeps it: ids count at the blank line, with or without data, and an empty one clears it
	retry      time.Duration // as the hub last asked
	everOpened bool
}

// stream connects once and reads until the stream ends. The error is never nil: io.EOF for an end of
// the hub's making, *final when Run must end.
func (r *run) stream(ctx context.Context, fn func(sse.Event) error) (opened bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // frees the connection of a stream that is left before its end
	resp, err := r.connect(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	if r.s.OnOpen != nil {
		r.s.OnOpen(r.reconcile(resp.Header))
	}
	d := sse.NewDecoder(resp.Body, r.s.MaxEvent)
	d.SetLastEventID(r.cursor)
	for {
		e, err := d.Next()
		if ms, ok := d.Retry(); ok {
			r.retry = time.Duration(min(ms, uint64(time.Hour/time.Millisecond))) * time.Millisecond
		}
		if err != nil {
			r.cursor = d.LastEventID() // blocks without data may have moved it
		}
		switch {
		case errors.Is(err, sse.ErrTooLong): // it would come again after every reconnection
			return true, &final{fmt.Errorf("subscribe: after event %q: %w", r.cursor, err)}
		case err != nil:
			return true, err
		}
		if err := fn(e); err != nil {
			if errors.Is(err, ErrStop) {
				err = nil
			}
			return true, &final{err}
		}
		r.cursor = e.ID
	}
}

// connect sends the request and returns the answer if it is a stream.
func (r *run) connect(ctx context.Context) (*http.Response, error) {
	req, err := r.request(ctx)
	if err != nil {
		return nil, &final{fmt.Errorf("subscribe: %w", err)}
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
			return resp, nil
		}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusNoContent {
		return nil, &final{nil}
	}
	answer := readError(resp)
	if resp.StatusCode == http.StatusOK {
		answer.Detail = "not an event stream: " + resp.Header.Get("Content-Type")
	}
	err = fmt.Errorf("subscribe: %w", answer)
	if !answer.Temporary() {
		return nil, &final{err}
	}
	return nil, err
}

// reconcile compares the cursor with the hub's answer. An answer without the header says nothing, as
// that of a hub that asks to come back later does.
func (r *run) reconcile(h http.Header) Open {
	got := h.Get(spec.HeaderLastEventID)
	if got == "" {
		got = h.Get(spec.HeaderMercureLastEventID)
	}
	return Open{Sent: r.cursor, Got: got, Lost: r.cursor != "" && got != "" && got != r.cursor}
}

// wait is what the hub asked for and a random part of the time that grows with each failure, so that
// clients that lost the same hub do not come back together.
func (r *run) wait(failures int, err error) time.Duration {
	asked := r.retry
	if answer, ok := errors.AsType[*Error](err); ok {
		asked = max(asked, answer.RetryAfter)
	}
	ceiling := min(maxBackoff, firstBackoff<<min(failures, 10))
	return asked + rand.N(ceiling) //nolint:gosec // it only has to differ from client to client
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Ended reports whether cause, as OnRetry gets it, is an end of the stream of the hub's making.
func Ended(cause error) bool {
	_, request := errors.AsType[*url.Error](cause) // hung up on before it answered
	return !request && errors.Is(cause, io.EOF)
}
