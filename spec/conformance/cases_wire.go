package conformance

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

func wireCases() []Case {
	return []Case{
		{"wire/exact-bytes", []string{"SSE-W2", "SSE-W5", "SSE-W6"}, "Fields come in one order, in one spelling.", wireExact, OfEach},
		{"wire/line-splitting", []string{"SSE-W3", "SSE-W9"}, "Data is split at CRLF, CR and LF and at nothing else; the stream itself knows only LF.", wireSplitting, OfEach},
		{"wire/empty-data", []string{"SSE-W4"}, "An update without data still has a data line.", wireEmpty, OfEach},
		{"wire/untouched-data", []string{"SSE-W5", "SEC-01", "SSE-W10"}, "Data that looks like fields or comments, or begins with blanks, comes through.", wireUntouched, OfEach},
		{"wire/utf8", []string{"SSE-W1"}, "Text of every plane arrives as it was sent.", wireUTF8, OfEach},
		{"wire/long-lines", []string{"SSE-W8"}, "Lines of any length pass.", wireLong, OfEach},
		{"wire/atomic-and-ordered", []string{"SSE-W8", "SSE-W6", "REC-06"}, "Under concurrent publishers each event is whole and each publisher's order is kept, the same for everyone.", wireAtomic, OfEach},
	}
}

func wireExact(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for _, c := range []struct {
		kv   []string
		want string
	}{
		{[]string{"data", "x"}, "id: %s\ndata: x\n\n"},
		{[]string{"data", "x", "type", "t"}, "event: t\nid: %s\ndata: x\n\n"},
		{[]string{"data", "x", "retry", "5"}, "retry: 5\nid: %s\ndata: x\n\n"},
		{[]string{"retry", "5", "data", "x\ny", "type", "t"}, "event: t\nretry: 5\nid: %s\ndata: x\ndata: y\n\n"},
		{[]string{"data", " x"}, "id: %s\ndata:  x\n\n"},
		{nil, "id: %s\ndata: \n\n"},
	} {
		id := p.publish(ctx, append([]string{"topic", topic}, c.kv...)...)
		if e := s.next(); e.raw != fmt.Sprintf(c.want, id) {
			p.Errorf("%q made %q, want %q", c.kv, e.raw, fmt.Sprintf(c.want, id))
		}
	}
}

func wireSplitting(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for in, want := range map[string]string{
		"a\nb": "a\nb", "a\r\nb": "a\nb", "a\rb": "a\nb", "a\n\rb": "a\n\nb", "a\n\nb": "a\n\nb", "a\n": "a\n", "\na": "\na", "a\r\n\r\nb\r\r": "a\n\nb\n\n",
		"\n": "\n", "\r\n": "\n", "a\vb\fc": "a\vb\fc", "a\u0085b\u2028c\u2029d": "a\u0085b\u2028c\u2029d", "a\x00b": "a\x00b", "a\x1eb": "a\x1eb",
	} {
		p.publish(ctx, "topic", topic, "data", in)
		if e := s.next(); e.data != want {
			p.Errorf("data %q arrived as %q, want %q", in, e.data, want)
		}
	}
}

func wireEmpty(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	p.publish(ctx, "topic", topic, "type", "signal")
	p.publish(ctx, "topic", topic, "data", "")
	for range 2 {
		if e := s.next(); !strings.HasSuffix(e.raw, "\ndata: \n\n") {
			p.Errorf("got %q, want one empty data line", e.raw)
		}
	}
}

func wireUntouched(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for _, data := range []string{
		"id: evil\nevent: evil\nretry: 1\n: comment\ndata: x", "\n\nid: evil\n\n", ":", ": x", " one", "  two", "\ttab", "trailing ", "data", "data:", "id", " \n ", "0\r\n\r\n",
	} {
		id := p.publish(ctx, "topic", topic, "data", data)
		want := strings.NewReplacer("\r\n", "\n").Replace(data)
		if e := s.next(); e.data != want || e.id != id || e.typ != "" || e.retry != "" {
			p.Errorf("data %q arrived as %q", data, e.raw)
		}
	}
}

func wireUTF8(ctx context.Context, p *Probe) {
	topic := p.topic("livre/é/日本/🚀")
	s := p.listen(ctx, topic)
	text := "\ufeffna\u00efve 日本語 🚀 \u202e \U0010fffd" + strings.Repeat("🚀é", 5000)
	p.publish(ctx, "topic", topic, "data", text, "type", "évt", "id", p.nonce+"-é")
	if e := s.next(); e.data != text || e.typ != "évt" || e.id != p.nonce+"-é" {
		p.Errorf("id %q, type %q, %d bytes of data, want them as sent (%d bytes)", e.id, e.typ, len(e.data), len(text))
	}
}

func wireLong(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for _, n := range []int{1, 4095, 4096, 4097, 65535, 65536, 65537, 300_000} {
		p.publish(ctx, "topic", topic, "data", strings.Repeat("x", n), "type", strconv.Itoa(n))
		if e := s.next(); len(e.data) != n || e.typ != strconv.Itoa(n) {
			p.Errorf("%d bytes arrived as %d", n, len(e.data))
		}
	}
}

func wireAtomic(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	streams := []*stream{p.listen(ctx, topic), p.listen(ctx, p.anyBelow(p.topic(""))), p.listen(ctx, topic, p.topic("b"))}
	const publishers, each = 6, 25
	h := bearer(p.publisher("*"))
	var all sync.WaitGroup
	for w := range publishers {
		all.Go(func() {
			for i := range each {
				body := form("topic", topic, "data", fmt.Sprintf("%d %d\n%s\nend", w, i, strings.Repeat("line\n", i*40)))
				headers := head("Content-Type", "application/x-www-form-urlencoded", "Authorization", h.Get("Authorization"))
				if a, err := p.try(ctx, http.MethodPost, "", headers, strings.NewReader(body)); err != nil || a.status != http.StatusOK {
					p.Errorf("publisher %d, update %d: status %d, %v", w, i, a.status, err)
					return
				}
			}
		})
	}
	all.Wait()
	var order []string
	for n, s := range streams {
		next := [publishers]int{}
		for k := range publishers * each {
			e := s.next()
			first, _, _ := strings.Cut(e.data, "\n")
			var w, i int
			if _, err := fmt.Sscanf(first, "%d %d", &w, &i); err != nil || !strings.HasSuffix(e.data, "\nend") || strings.Count(e.data, "line\n") != i*40 {
				p.Fatalf("stream %d, event %d is torn: %.80q", n, k, e.data)
			}
			if i != next[w] {
				p.Fatalf("stream %d: update %d of publisher %d came where %d was due", n, i, w, next[w])
			}
			next[w]++
			if n == 0 {
				order = append(order, e.id)
			} else if order[k] != e.id {
				p.Fatalf("stream %d has %q at place %d, the first stream %q: two orders", n, e.id, k, order[k])
			}
		}
	}
}
