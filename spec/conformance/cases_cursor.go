package conformance

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

func cursorCases() []Case {
	return []Case{
		{"cursor/validated", []string{"REC-19", "SEC-01"}, "A cursor that no id could be is unknown, and never copied into a header.", cursorValidated, OfEach},
		{"cursor/non-ascii", []string{"PUB-12"}, "A non-ASCII id is recognised as a cursor, also in the form in which a script reads it.", cursorNonASCII, OfEach},
		{"cursor/odd-ids", []string{"REC-12", "PUB-14"}, "Every id that can be published can be resumed from.", cursorOdd, OfEach},
		{"cursor/opaque-ids", []string{"SEC-10", "REC-17", "PUB-13"}, "Ids made by the hub do not show when or after what they were made.", cursorOpaque, OfEach},
	}
}

func cursorValidated(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	p.publish(ctx, "topic", topic, "data", "old")
	for what, raw := range map[string]string{
		"CRLF":         "%0d%0aX-Injected:%20yes",
		"LF":           "a%0aX-Injected:%20yes",
		"NUL":          "a%00b",
		"not UTF-8":    "%ff%fe",
		"format":       "%E2%80%AEa",
		"too long":     strings.Repeat("x", 4<<10),
		"many escapes": strings.Repeat("%0d%0a", 200),
	} {
		s := p.open(ctx, p.topics(topic)+"&"+p.gen.cursor+"="+raw, bearer(p.subscriber()))
		if s.status != http.StatusOK {
			p.Errorf("%s: status %d, want 200", what, s.status)
			continue
		}
		s.wantCursor("earliest", what)
		if s.header.Get("X-Injected") != "" {
			p.Errorf("%s: the cursor wrote a header of its own", what)
		}
		p.publish(ctx, "topic", topic, "data", "new "+what)
		if e := s.next(); e.data != "new "+what {
			p.Errorf("%s: got %q, want the live update alone", what, e.data)
		}
		s.Close()
	}
	s := p.resume(ctx, strings.Repeat("x", 4<<10), topic)
	s.wantCursor("earliest", "too long, in the header")
}

func cursorNonASCII(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	id := p.publish(ctx, "topic", topic, "data", "1", "id", p.nonce+"-é日")
	p.publish(ctx, "topic", topic, "data", "2")
	var latin1 strings.Builder // how a script reads the header's bytes
	for i := range len(id) {
		latin1.WriteRune(rune(id[i]))
	}
	for what, s := range map[string]*stream{
		"as it is, in the header":  p.resume(ctx, id, topic),
		"as it is, in the URL":     p.subscribe(ctx, p.topics(topic)+"&"+p.gen.cursor+"="+url.QueryEscape(id), bearer(p.subscriber())),
		"as a script's, in header": p.resume(ctx, latin1.String(), topic),
		"as a script's, in URL":    p.subscribe(ctx, p.topics(topic)+"&"+p.gen.cursor+"="+url.QueryEscape(latin1.String()), bearer(p.subscriber())),
	} {
		if got := s.header.Get(p.reconciled()); got == "earliest" || got == "" {
			p.Errorf("%s: %s: %q, want the id recognised", what, p.reconciled(), got)
			continue
		}
		s.want("2")
		s.Close()
	}
}

func cursorOdd(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	for _, suffix := range []string{"", " b", "#b", ":b", "%0a", `"b"`, ", b", "; b", "=", strings.Repeat("x", 1000), "?lastEventID=1"} {
		id := p.nonce + suffix
		p.publish(ctx, "topic", topic, "data", "at "+suffix, "id", id)
		p.publish(ctx, "topic", topic, "data", "after "+suffix)
		s := p.resume(ctx, id, topic)
		s.wantCursor(id, "an odd id")
		s.want("after " + suffix)
		s.Close()
		s = p.subscribe(ctx, p.topics(topic)+"&"+form(p.gen.cursor, id), bearer(p.subscriber()))
		s.wantCursor(id, "an odd id in the URL")
		s.want("after " + suffix)
		s.Close()
	}
}

func cursorOpaque(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	const n = 6
	ids := make([]string, n)
	for i := range ids {
		if ids[i] = p.publish(ctx, "topic", topic); len(ids[i]) < 16 {
			p.Fatalf("the id %q cannot be unique", ids[i])
		}
	}
	ascending := true
	for i := 1; i < n; i++ {
		common := 0
		for common < min(len(ids[i]), len(ids[i-1])) && ids[i][common] == ids[i-1][common] {
			common++
		}
		if rest := strings.TrimPrefix(ids[i][:common], "urn:uuid:"); len(rest) >= 8 && strings.HasPrefix(ids[i], "urn:uuid:") {
			p.Errorf("%s and %s have %q in common: ids show a time or a place", ids[i-1], ids[i], rest)
		}
		ascending = ascending && ids[i] > ids[i-1]
	}
	if ascending { // by chance once in 720
		more := p.publish(ctx, "topic", topic)
		if ascending = more > ids[n-1]; ascending && p.publish(ctx, "topic", topic) > more {
			p.Errorf("ids ascend: %q", ids)
		}
	}
}
