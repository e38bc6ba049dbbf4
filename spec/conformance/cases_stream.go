package conformance

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func streamHeadCases() []Case {
	return []Case{
		{"stream/head", []string{"SUB-27", "CLA-10"}, "The head forbids storing and buffering and has no length.", streamHead, OfEach},
		{"stream/first-bytes", []string{"SUB-28", "SSE-W1", "SSE-W10"}, "A comment comes at once, before any event, without a byte order mark.", streamFirstBytes, OfEach},
		{"stream/retry", []string{"SSE-W12"}, "A retry field without a blank line follows, and differs from stream to stream.", streamRetry, OfEach},
		{"stream/no-compression", []string{"SUB-29"}, "The stream is not compressed, even for those who would take it.", streamNoCompression, OfEach},
		{"stream/http-1.0", []string{"SUB-37"}, "An HTTP/1.0 client gets the bare stream, not chunks.", streamHTTP10, OfEach},
		{"stream/heartbeat", []string{"SUB-26"}, "A comment comes when nothing else was sent for a while.", streamHeartbeat, OfEach},
		{"stream/lifetime", []string{"SUB-31", "SUB-34", "SUB-37"}, "A stream ends cleanly, a random while before its maximum lifetime.", streamLifetime, OfEach},
	}
}

func streamHead(ctx context.Context, p *Probe) {
	c := p.dial(ctx)
	h := c.ask("GET "+c.target("?"+p.topics(p.topic("a")))+" HTTP/1.1", "Authorization: Bearer "+p.subscriber())
	if h.status != http.StatusOK {
		p.Fatalf("status %d", h.status)
	}
	for name, want := range map[string]string{
		"Content-Type":      "text/event-stream",
		"Cache-Control":     "private, no-cache, no-store, must-revalidate, max-age=0",
		"Pragma":            "no-cache",
		"Expires":           "0",
		"X-Accel-Buffering": "no",
		"Connection":        "keep-alive",
	} {
		if got := h.header.Values(name); len(got) != 1 || !strings.EqualFold(got[0], want) {
			p.Errorf("%s: %q, want %q once", name, got, want)
		}
	}
	if v := h.header.Get("Content-Length"); v != "" {
		p.Errorf("Content-Length: %s on a stream", v)
	}
	if v := h.header.Get("Transfer-Encoding"); !strings.EqualFold(v, "chunked") {
		p.Errorf("Transfer-Encoding: %q, want chunked, so that a planned end can be told from a cut", v)
	}
}

func streamFirstBytes(ctx context.Context, p *Probe) {
	c := p.dial(ctx)
	h := c.ask("GET "+c.target("?"+p.topics(p.topic("a")))+" HTTP/1.1", "Authorization: Bearer "+p.subscriber())
	if h.status != http.StatusOK {
		p.Fatalf("status %d", h.status)
	}
	b := make([]byte, 2)
	_ = c.SetReadDeadline(p.within())
	if _, err := io.ReadFull(httputil.NewChunkedReader(c.br), b); err != nil || string(b) != ":\n" {
		p.Errorf("the stream begins %q (%v), want %q with nothing published", b, err, ":\n")
	}
}

var openingLines = regexp.MustCompile(`^:\nretry: ([1-9][0-9]*)\n$`)

func streamRetry(ctx context.Context, p *Probe) {
	if p.NoRetry {
		p.Skipf("the hub is said to send no retry field of its own")
	}
	values := map[string]bool{}
	topic := p.topic("a")
	const connects = 12
	for range connects {
		s := p.listen(ctx, topic)
		m := openingLines.FindStringSubmatch(s.opened())
		if m == nil {
			p.Fatalf("the stream begins %q, want %q", s.opened(), ":\nretry: N\n")
		}
		if n, err := strconv.ParseInt(m[1], 10, 32); err != nil || n > 10*time.Minute.Milliseconds() {
			p.Errorf("retry: %s is no sensible number of milliseconds", m[1])
		}
		values[m[1]] = true
		s.Close()
	}
	if len(values) < 3 {
		p.Errorf("%d streams had only %d different retry values: no jitter", connects, len(values))
	}
	s := p.listen(ctx, topic) // and the field is not part of an event
	s.opened()
	p.publish(ctx, "topic", topic, "data", "x")
	if e := s.next(); e.retry != "" {
		p.Errorf("the hub's retry field is part of the event %q", e.raw)
	}
}

func streamNoCompression(ctx context.Context, p *Probe) {
	h := bearer(p.subscriber())
	h.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	s := p.subscribe(ctx, p.topics(p.topic("a")), h)
	if v := s.header.Get("Content-Encoding"); v != "" {
		p.Errorf("Content-Encoding: %s", v)
	}
	s.opened()
}

func streamHTTP10(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	c := p.dial(ctx)
	h := c.ask("GET "+c.target("?"+p.topics(topic))+" HTTP/1.0", "Authorization: Bearer "+p.subscriber())
	if h.status != http.StatusOK {
		p.Fatalf("status %d", h.status)
	}
	if v := h.header.Get("Transfer-Encoding"); v != "" {
		p.Errorf("Transfer-Encoding: %s for an HTTP/1.0 client", v)
	}
	id := p.publish(ctx, "topic", topic, "data", "x")
	_ = c.SetReadDeadline(p.within())
	var got strings.Builder
	want := "id: " + id + "\ndata: x\n\n"
	for !strings.HasSuffix(got.String(), want) {
		b, err := c.br.ReadByte()
		if err != nil {
			p.Fatalf("read %.200q, then %v; want it to end with %q", got.String(), err, want)
		}
		got.WriteByte(b)
	}
	if !regexp.MustCompile(`^:\n(retry: \d+\n)?id: `).MatchString(got.String()) {
		p.Errorf("the body begins %.60q, want the bare stream", got.String())
	}
}

func streamHeartbeat(ctx context.Context, p *Probe) {
	if p.Heartbeat <= 0 {
		p.Skipf("needs a hub with a short heartbeat")
	}
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	s.opened()
	for i := range 3 {
		select {
		case <-s.comments:
		case <-s.done:
			p.Fatalf("the stream ended: %v", cmpErr(s.err))
		case <-time.After(2*p.Heartbeat + p.Wait):
			p.Fatalf("no comment %d in a silence of %v", i+1, 2*p.Heartbeat+p.Wait)
		}
	}
	p.publish(ctx, "topic", topic, "data", "x")
	s.want("x")
}

func streamLifetime(ctx context.Context, p *Probe) {
	if p.Lifetime <= 0 {
		p.Skipf("needs a hub with a short maximum connection lifetime")
	}
	start := time.Now()
	c := p.dial(ctx)
	h := c.ask("GET "+c.target("?"+p.topics(p.topic("a")))+" HTTP/1.1", "Authorization: Bearer "+p.subscriber(), "Connection: close")
	if h.status != http.StatusOK {
		p.Fatalf("status %d", h.status)
	}
	body := c.readFor(p.Lifetime+p.Wait, 1<<20)
	took := time.Since(start)
	if took > p.Lifetime+p.Lifetime/10 || took < p.Lifetime/2 {
		p.Errorf("the stream lived %v, want at most %v and not much less", took, p.Lifetime)
	}
	if !strings.HasSuffix(body, "0\r\n\r\n") {
		p.Errorf("the body ends %q, want a terminating chunk", body[max(0, len(body)-40):])
	}
}

func lifetimeCases() []Case {
	return []Case{
		{"lifetime/exp", []string{"SUB-32", "SUB-34", "G-04"}, "A stream ends cleanly in the last second before its token does, without traffic.", lifetimeExp, OfEach},
		{"lifetime/slow-reader", []string{"SUB-36", "LIM-11", "LIM-15"}, "A reader that is too slow falls back to the log, loses nothing and delays nobody.", lifetimeSlowReader, OfEach},
		{"lifetime/huge-update", []string{"SUB-36"}, "One update close to the size limit passes whole.", lifetimeHuge, OfEach},
		{"lifetime/no-progress", []string{"SUB-35"}, "A reader that takes nothing is cut, and others are not disturbed.", lifetimeNoProgress, OfEach},
	}
}

func lifetimeExp(ctx context.Context, p *Probe) {
	slack := max(150*time.Millisecond, p.Wait/20) // for the way of the closing bytes, on a machine of this speed
	topic := p.topic("a")
	exp := time.Now().Truncate(time.Second).Add(3 * time.Second)
	tok := p.sign(p.subSpec(topic).with("exp", exp.Unix()))
	s := p.subscribe(ctx, p.topics(topic), bearer(tok))
	at, clean, ok := s.waitEnd(time.Until(exp) + 2*time.Second)
	switch {
	case !ok:
		p.Errorf("the stream is open two seconds after its token expired")
	case at.After(exp.Add(slack)):
		p.Errorf("the stream ended %v after its token", at.Sub(exp))
	case at.Before(exp.Add(-time.Second - slack)):
		p.Errorf("the stream ended %v before its token, want the last second", exp.Sub(at))
	case !clean:
		p.Errorf("the stream was cut, not ended: %v", s.err)
	}
	p.wantStatus(p.get(ctx, p.topics(topic), bearer(p.sign(p.subSpec(topic).with("exp", time.Now().Add(-time.Second).Unix())))),
		http.StatusUnauthorized, "with a token that has just expired")
}

// stall opens a stream whose reader takes nothing after the head, and with small buffers.
func (p *Probe) stall(ctx context.Context, topic string) *conn {
	c := p.dial(ctx)
	if tc, ok := c.Conn.(*net.TCPConn); ok {
		_ = tc.SetReadBuffer(16 << 10)
	}
	h := c.ask("GET "+c.target("?"+p.topics(topic))+" HTTP/1.1", "Authorization: Bearer "+p.subscriber("*"))
	if h.status != http.StatusOK {
		p.Fatalf("status %d", h.status)
	}
	return c
}

// paced reads a little at a time until it is let go: too slow for what is published, but with enough
// progress not to be cut (SUB-35).
type paced struct {
	r    io.Reader
	free chan struct{}
}

func (p *paced) Read(b []byte) (int, error) {
	select {
	case <-p.free:
		return p.r.Read(b)
	case <-time.After(50 * time.Millisecond):
		return p.r.Read(b[:min(len(b), 32<<10)])
	}
}

func lifetimeSlowReader(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	c, healthy := p.stall(ctx, topic), p.listen(ctx, topic)
	_ = c.SetReadDeadline(time.Now().Add(caseLimit * p.Wait))
	slow := &stream{p: p, events: make(chan event, 1<<10), comments: make(chan struct{}, 1), begun: make(chan struct{}), done: make(chan struct{})}
	pace := &paced{r: c.br, free: make(chan struct{})}
	go func() {
		defer close(slow.done)
		defer close(slow.events)
		slow.err = slow.read(httputil.NewChunkedReader(pace))
	}()
	defer func() {
		_ = c.Close()
		<-slow.done
	}()
	const updates, size = 12, 700 << 10
	all := func(who string, s *stream) {
		for i := range updates {
			if e := s.next(); !strings.HasPrefix(e.data, fmt.Sprint(i, " x")) || len(e.data) < size {
				p.Fatalf("the %s reader's event %d is %.20q (%d bytes)", who, i, e.data, len(e.data))
			}
		}
	}
	for i := range updates {
		p.publish(ctx, "topic", topic, "data", fmt.Sprint(i, " ")+strings.Repeat("x", size))
	}
	all("healthy", healthy)
	close(pace.free)
	all("slow", slow)
	p.publish(ctx, "topic", topic, "data", "live")
	slow.want("live")
	healthy.want("live")
}

func lifetimeHuge(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	huge := strings.Repeat("0123456789", 100_000)
	p.publish(ctx, "topic", topic, "data", huge)
	p.publish(ctx, "topic", topic, "data", "after")
	s.want(huge, "after")
}

func lifetimeNoProgress(ctx context.Context, p *Probe) {
	if p.WriteTimeout <= 0 {
		p.Skipf("needs a hub with a known write timeout")
	}
	topic := p.topic("a")
	stalled, healthy := p.stall(ctx, topic), p.listen(ctx, topic)
	const updates, size = 24, 900 << 10 // more than the kernel's buffers take
	for range updates {
		p.publish(ctx, "topic", topic, "data", strings.Repeat("x", size))
		healthy.next()
	}
	select {
	case <-time.After(3*p.WriteTimeout + time.Second):
	case <-ctx.Done():
	}
	if got := len(stalled.readFor(p.Wait, updates*size)); got >= updates*size {
		p.Errorf("a reader that took nothing for %v is still served", 3*p.WriteTimeout)
	}
	p.publish(ctx, "topic", topic, "data", "after")
	healthy.want("after")
}
