package conformance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// event is one block as it stood on the wire.
type event struct {
	raw    string // with its final blank line, without comments
	id     string
	typ    string
	data   string
	retry  string
	fields []string // names, in order
}

// stream is one subscription. Its methods belong to the case's goroutine.
type stream struct {
	p        *Probe
	status   int
	header   http.Header
	proto    string
	events   chan event
	comments chan struct{} // one for each comment line after the opening one; lossy

	cancel context.CancelFunc
	done   chan struct{} // closed when the body has ended; the fields below may be read then
	err    error         // nil = a clean end
	ended  time.Time
	body   []byte // of an answer that is not a stream

	begun   chan struct{} // closed when the opening is complete; opening may be read then
	opening string        // the bytes before the first event
}

// open asks for a stream and returns whatever answer came; no answer at all ends the case.
func (p *Probe) open(ctx context.Context, query string, h http.Header) *stream {
	s, err := p.tryOpen(ctx, p.streams, query, h)
	if err != nil {
		p.Fatalf("subscribe %.100q: %v", query, err)
	}
	return s
}

func (p *Probe) tryOpen(ctx context.Context, client *http.Client, query string, h http.Header) (*stream, error) {
	return p.tryAsk(ctx, client, http.MethodGet, query, http.NoBody, h)
}

// tryAsk opens a stream with any method.
func (p *Probe) tryAsk(ctx context.Context, client *http.Client, method, query string, body io.Reader, h http.Header) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(p.Wait, cancel)
	defer late.Stop()
	if query != "" {
		query = "?" + query
	}
	req, err := http.NewRequestWithContext(ctx, method, p.URL+query, body)
	if err != nil {
		cancel()
		return nil, err
	}
	maps.Copy(req.Header, h)
	res, err := client.Do(req)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("no response head within %v: %w", p.Wait, err)
	}
	s := &stream{
		p: p, status: res.StatusCode, header: res.Header, proto: res.Proto, cancel: cancel,
		events: make(chan event, 1<<14), comments: make(chan struct{}, 1), done: make(chan struct{}), begun: make(chan struct{}),
	}
	p.closers = append(p.closers, s.Close)
	go func() {
		defer close(s.done)
		defer close(s.events)
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			s.body, s.err = io.ReadAll(io.LimitReader(res.Body, 1<<20))
		} else {
			s.err = s.read(res.Body)
		}
		s.ended = time.Now()
	}()
	return s, nil
}

// subscribe opens a stream and requires that it opens.
func (p *Probe) subscribe(ctx context.Context, query string, h http.Header) *stream {
	s := p.open(ctx, query, h)
	if ct := s.header.Get("Content-Type"); s.status != http.StatusOK || !strings.HasPrefix(ct, "text/event-stream") {
		p.Fatalf("subscribe %.100q: status %d, Content-Type %q (%.200q), want 200 text/event-stream",
			query, s.status, ct, s.rest(p.Wait))
	}
	return s
}

// listen subscribes with a token that receives private updates of every topic.
func (p *Probe) listen(ctx context.Context, selectors ...string) *stream {
	return p.subscribe(ctx, p.topics(selectors...), bearer(p.subscriber("*")))
}

// Close leaves, and waits until nothing of the stream runs any more.
func (s *stream) Close() {
	s.cancel()
	<-s.done
}

// rest is the body of an answer that is not a stream.
func (s *stream) rest(wait time.Duration) string {
	if s.status == http.StatusOK {
		return ""
	}
	select {
	case <-s.done:
	case <-time.After(wait):
		s.cancel()
		<-s.done
	}
	return string(s.body)
}

// waitEnd waits until the hub ends the stream; ok is false if it does not in time.
func (s *stream) waitEnd(wait time.Duration) (at time.Time, clean, ok bool) {
	select {
	case <-s.done:
		return s.ended, s.err == nil, true
	case <-time.After(wait):
		return time.Time{}, false, false
	}
}

// next returns the next event, or ends the case.
func (s *stream) next() event {
	e, err := s.tryNext(s.p.Wait)
	if err != nil {
		s.p.Fatalf("next event: %v", err)
	}
	return e
}

func (s *stream) tryNext(wait time.Duration) (event, error) {
	select {
	case e, ok := <-s.events:
		if !ok {
			return event{}, fmt.Errorf("the stream ended: %w", cmpErr(s.err))
		}
		return e, nil
	case <-time.After(wait):
		return event{}, fmt.Errorf("nothing within %v", wait)
	}
}

func cmpErr(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

// want requires that the next events have exactly these data, in order.
func (s *stream) want(data ...string) []event {
	got := make([]event, 0, len(data))
	for i, d := range data {
		e, err := s.tryNext(s.p.Wait)
		if err != nil {
			s.p.Fatalf("event %d of %d (data %.80q): %v", i+1, len(data), d, err)
		}
		if e.data != d {
			s.p.Fatalf("event %d of %d: data %.120q, want %.120q", i+1, len(data), e.data, d)
		}
		got = append(got, e)
	}
	return got
}

// opened waits for the opening, the bytes that come before any event, and returns what there is of it.
func (s *stream) opened() string {
	select {
	case <-s.begun:
		return s.opening
	case <-s.done:
		return s.opening
	case <-time.After(s.p.Wait):
		s.p.Fatalf("the stream's opening is not there after %v", s.p.Wait)
		return ""
	}
}

// read takes the stream apart. It is not a client's lenient parser but the rules for what a hub may
// write, so that a hub and its tests cannot share a mistake: LF alone ends a line, a field is
// "name: value", comments stand between events only, an event has an id and at least one data line.
func (s *stream) read(body io.Reader) error {
	br := bufio.NewReaderSize(body, 64<<10)
	var block []byte
	for opening := true; ; {
		line, err := readLine(br)
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0 && farewell(block):
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the stream ended within an event, after %.120q", slices.Concat(block, line))
		case err != nil:
			return err
		case bytes.IndexByte(line, '\r') >= 0:
			return fmt.Errorf("SSE-W9: a CR on the wire: %.120q", line)
		}
		if opening {
			if opening = s.opens(line); opening || bytes.HasPrefix(line, []byte("retry: ")) {
				continue
			}
		}
		if len(block) == 0 && line[0] == ':' {
			select {
			case s.comments <- struct{}{}:
			default:
			}
			continue
		}
		if block = append(block, line...); string(line) != "\n" {
			continue
		}
		e, err := parseBlock(string(block))
		if err != nil {
			return err
		}
		s.events <- e
		block = block[:0]
	}
}

// farewell reports whether a stream may end after block: after a whole event, and possibly one more
// retry field, which takes effect when read, so that a planned close can spread the
// reconnections.
func farewell(block []byte) bool {
	return len(block) == 0 || bytes.HasPrefix(block, []byte("retry: ")) && bytes.Count(block, []byte("\n")) == 1
}

// opens takes a line of the opening and reports whether more of it may follow: one comment, then a
// retry field, then no blank line (SUB-28, SSE-W12).
func (s *stream) opens(line []byte) bool {
	switch {
	case s.opening == "" && line[0] == ':':
		s.opening = string(line)
		if !s.p.NoRetry {
			return true
		}
	case bytes.HasPrefix(line, []byte("retry: ")):
		s.opening += string(line)
	}
	close(s.begun)
	return false
}

// readLine returns the next line with its LF, however long. The slice is good until the next call.
func readLine(br *bufio.Reader) ([]byte, error) {
	line, err := br.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	long := slices.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = br.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, err
}

// parseBlock takes one event apart.
func parseBlock(raw string) (event, error) {
	e := event{raw: raw}
	var data []string
	for line := range strings.SplitSeq(strings.TrimSuffix(raw, "\n\n"), "\n") {
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			return e, fmt.Errorf("SSE-W2: the line %.80q of %.200q is not a field, a colon and a space", line, raw)
		}
		e.fields = append(e.fields, name)
		switch name {
		case "event":
			e.typ = value
		case "retry":
			e.retry = value
		case "id":
			e.id = value
		case "data":
			data = append(data, value)
		default:
			return e, fmt.Errorf("SSE-W2: unknown field %.40q in %.200q", name, raw)
		}
	}
	if !slices.Contains(e.fields, "id") {
		return e, fmt.Errorf("SSE-W6: an event without id: %.200q", raw)
	}
	if data == nil {
		return e, fmt.Errorf("SSE-W4: an event without a data line: %.200q", raw)
	}
	e.data = strings.Join(data, "\n")
	return e, nil
}
