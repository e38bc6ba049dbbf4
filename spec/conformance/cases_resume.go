package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

func resumeCases() []Case {
	return []Case{
		{"resume/header", []string{"REC-01", "REC-06", "REC-09", "REC-10", "REC-11", "G-07"}, "A cursor in the Last-Event-ID field is resumed from and echoed in both headers.", resumeHeader, OfEach},
		{"resume/parameter", []string{"REC-02", "REC-03", "REC-04", "G-08", "X-09", "X-11"}, "So is one in the URL, in each spelling.", resumeParameter, OfEach},
		{"resume/precedence", []string{"REC-05"}, "Header, last_event_id, lastEventID, older spellings; an empty header does not count.", resumePrecedence, OfEach},
		{"resume/no-gap", []string{"REC-06"}, "Replay and live updates meet without gap or duplicate while publishers go on.", resumeNoGap, OfEach},
		{"resume/current-token", []string{"REC-07", "SEC-04"}, "Replayed private updates are checked against the token that asks.", resumeToken, OfEach},
		{"resume/earliest", []string{"REC-08"}, "earliest asks for everything, and is the answer.", resumeEarliest, OfEach},
		{"resume/foreign-topics", []string{"REC-12", "REC-15"}, "The cursor is a place in the one log, whatever topic it had; nothing lost is said exactly when nothing was.", resumeForeign, OfEach},
		{"resume/unknown", []string{"REC-12", "REC-13", "REC-23"}, "An unknown id is answered earliest, replays nothing, and live updates follow.", resumeUnknown, OfEach},
		{"resume/without", []string{"REC-21"}, "Without a cursor neither header is sent.", resumeWithout, OfEach},
		{"resume/shared-id", []string{"REC-14", "PUB-15"}, "If several updates share an id the earliest counts.", resumeShared, OfEach},
		{"resume/trimmed", []string{"REC-12", "REC-16"}, "The cursor just before the oldest update kept is confirmed, an older one is not.", resumeTrimmed, OfEach},
		{"resume/long-history", []string{"REC-06", "LIM-15"}, "A long history comes whole and in order.", resumeLong, OfEach},
	}
}

// wantCursor requires both reconciliation headers to say this; empty = to be absent.
func (s *stream) wantCursor(want, what string) {
	for _, name := range []string{"Last-Event-Id", "Mercure-Last-Event-Id"} {
		want := want
		if name == "Last-Event-Id" && s.p.NoClassic {
			want = "" // G-22
		}
		if got := s.header.Values(name); (want == "" && len(got) > 0) || (want != "" && (len(got) != 1 || got[0] != want)) {
			s.p.Errorf("%s: %s: %q, want %q", what, name, got, want)
		}
	}
}

// resume subscribes to topics with a cursor in the header.
func (p *Probe) resume(ctx context.Context, cursor string, selectors ...string) *stream {
	h := bearer(p.subscriber("*"))
	h.Set("Last-Event-ID", cursor)
	return p.subscribe(ctx, p.topics(selectors...), h)
}

func resumeHeader(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	p.publish(ctx, "topic", topic, "data", "1")
	first := s.want("1")[0]
	s.Close()
	p.publish(ctx, "topic", topic, "data", "2")
	last := p.publish(ctx, "topic", topic, "data", "3")

	s = p.resume(ctx, first.id, topic)
	s.wantCursor(first.id, "resumed")
	s.want("2", "3")
	p.publish(ctx, "topic", topic, "data", "4")
	s.want("4")
	s.Close()

	s = p.resume(ctx, last, topic)
	s.wantCursor(last, "resumed at the last but one")
	s.want("4")
	p.publish(ctx, "topic", topic, "data", "5")
	s.want("5")
}

// cursorParams are the query parameters that may carry a cursor, the first in order of precedence first.
func (p *Probe) cursorParams() []string {
	if p.NoClassic {
		return []string{"last_event_id"}
	}
	return []string{"last_event_id", "lastEventID", "Last-Event-ID", "Last-Event-Id", "last-event-id"}
}

func resumeParameter(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	cursor := p.publish(ctx, "topic", topic, "data", "1")
	p.publish(ctx, "topic", topic, "data", "2")
	for _, name := range p.cursorParams() {
		s := p.subscribe(ctx, p.topics(topic)+"&"+form(name, cursor), bearer(p.subscriber()))
		s.wantCursor(cursor, name)
		s.want("2")
		s.Close()
	}
}

func resumePrecedence(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	ids := make([]string, 4)
	for i := range ids {
		ids[i] = p.publish(ctx, "topic", topic, "data", fmt.Sprint(i))
	}
	p.publish(ctx, "topic", topic, "data", "end")
	param := slices.DeleteFunc([]string{"", "last_event_id", "lastEventID", "Last-Event-ID"}, func(name string) bool {
		return name != "" && !slices.Contains(p.cursorParams(), name)
	})
	for from := range param { // the winner is the first that is there
		query, h := p.topics(topic), bearer(p.subscriber())
		for i := len(param) - 1; i >= max(from, 1); i-- {
			query += "&" + form(param[i], ids[3-i])
		}
		h.Set("Last-Event-ID", "")
		if from == 0 {
			h.Set("Last-Event-ID", ids[3])
		}
		what := fmt.Sprintf("the winner being %q", param[from])
		s := p.subscribe(ctx, query, h)
		s.wantCursor(ids[3-from], what)
		for i := 4 - from; i < 4; i++ {
			s.want(fmt.Sprint(i))
		}
		s.want("end")
		s.Close()
	}
}

func resumeNoGap(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	cursor := p.publish(ctx, "topic", topic, "data", "0")
	const before, during, readers = 100, 150, 5
	h := bearer(p.publisher("*")).Get("Authorization")
	send := func(i int) bool {
		headers := head("Content-Type", "application/x-www-form-urlencoded", "Authorization", h)
		body := form("topic", topic, "topic", p.topic(fmt.Sprint("t", i)), "data", fmt.Sprint(i))
		a, err := p.try(ctx, http.MethodPost, "", headers, strings.NewReader(body))
		if err != nil || a.status != http.StatusOK {
			p.Errorf("publish %d: status %d, %v", i, a.status, err)
			return false
		}
		return true
	}
	for i := 1; i <= before; i++ {
		if !send(i) {
			return
		}
	}
	var publisher sync.WaitGroup
	defer publisher.Wait()
	publisher.Go(func() {
		for i := before + 1; i <= before+during; i++ {
			if !send(i) {
				return
			}
		}
	})
	for r := range readers {
		s := p.resume(ctx, cursor, topic)
		at := cursor
		for i := 1; i <= before+during; i++ {
			if i%(40+r) == 0 { // leave, and come back where one was
				s.Close()
				s = p.resume(ctx, at, topic)
				s.wantCursor(at, "resumed while others publish")
			}
			e := s.next()
			if e.data != fmt.Sprint(i) {
				p.Fatalf("reader %d: got update %s where %d was due", r, e.data, i)
			}
			at = e.id
		}
		s.Close()
	}
}

func resumeToken(ctx context.Context, p *Probe) {
	a, b := p.topic("a"), p.topic("b")
	both := p.topics(a, b)
	s := p.subscribe(ctx, both, bearer(p.subscriber(a, b)))
	cursor := p.publish(ctx, "topic", a, "data", "0")
	for _, topic := range []string{a, b} {
		p.publish(ctx, "topic", topic, "data", topic, "private", "on")
	}
	p.publish(ctx, "topic", a, "data", "open")
	s.want("0", a, b, "open")
	for what, c := range map[string]struct {
		h    http.Header
		want []string
	}{
		"the same grant": {bearer(p.subscriber(a, b)), []string{a, b, "open"}},
		"a smaller one":  {bearer(p.subscriber(b)), []string{b, "open"}},
		"none":           {bearer(p.subscriber()), []string{"open"}},
	} {
		for _, from := range []string{cursor, "earliest"} {
			s := p.subscribe(ctx, both+"&"+form(p.gen.cursor, from), c.h)
			want := c.want
			if from == "earliest" {
				want = append([]string{"0"}, want...)
			}
			for _, w := range want {
				if e := s.next(); e.data != w {
					p.Errorf("%s, from %.8s: got %q, want %q", what, from, e.data, w)
					break
				}
			}
			s.Close()
		}
	}
}

func resumeEarliest(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	for i := range 5 {
		p.publish(ctx, "topic", topic, "data", fmt.Sprint(i))
	}
	s := p.resume(ctx, "earliest", topic)
	s.wantCursor("earliest", "header")
	s.want("0", "1", "2", "3", "4")
	p.publish(ctx, "topic", topic, "data", "live")
	s.want("live")
	s = p.subscribe(ctx, p.topics(topic)+"&"+p.gen.cursor+"=earliest", bearer(p.subscriber()))
	s.wantCursor("earliest", "parameter")
	s.want("0", "1", "2", "3", "4", "live")
	s = p.resume(ctx, "earliest", p.topic("nothing was ever here"))
	s.wantCursor("earliest", "an empty history")
}

func resumeForeign(ctx context.Context, p *Probe) {
	a, b := p.topic("a"), p.topic("b")
	a1 := p.publish(ctx, "topic", a, "data", "a1")
	b1 := p.publish(ctx, "topic", b, "data", "b1")
	own := p.publish(ctx, "topic", p.topic("c"), "data", "c1", "id", p.nonce+" own/é", "private", "on")
	p.publish(ctx, "topic", a, "data", "a2")
	p.publish(ctx, "topic", b, "data", "b2")
	for _, c := range []struct {
		cursor string
		topics []string
		want   []string
	}{
		{a1, []string{a, b}, []string{"b1", "a2", "b2"}},
		{b1, []string{a}, []string{"a2"}},
		{own, []string{a, b}, []string{"a2", "b2"}},
	} {
		s := p.subscribe(ctx, p.topics(c.topics...)+"&"+form(p.gen.cursor, c.cursor), bearer(p.subscriber()))
		s.wantCursor(c.cursor, "an id of any topic")
		s.want(c.want...)
		s.Close()
	}
}

func resumeUnknown(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	p.publish(ctx, "topic", topic, "data", "old")
	for _, unknown := range []string{
		"urn:uuid:" + p.nonce, "urn:uuid:00000000-0000-8000-8000-000000000000", "urn:uuid:ffffffff-ffff-8fff-bfff-ffffffffffff", p.nonce, "1", "Earliest", "#" + p.nonce, "é",
	} {
		s := p.subscribe(ctx, p.topics(topic)+"&"+p.gen.cursor+"="+url.QueryEscape(unknown), bearer(p.subscriber()))
		s.wantCursor("earliest", "unknown id "+unknown)
		p.publish(ctx, "topic", topic, "data", "new "+unknown)
		if e := s.next(); e.data != "new "+unknown {
			p.Errorf("unknown id %s: got %q, want the live update alone", unknown, e.data)
		}
		s.Close()
	}
}

func resumeWithout(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	p.publish(ctx, "topic", topic, "data", "old")
	s := p.listen(ctx, topic)
	s.wantCursor("", "no cursor")
	p.publish(ctx, "topic", topic, "data", "new")
	s.want("new")
}

func resumeShared(ctx context.Context, p *Probe) {
	topic, id := p.topic("a"), p.nonce
	p.publish(ctx, "topic", topic, "data", "0")
	for _, d := range []string{"1", "2", "3"} {
		kv := []string{"topic", topic, "data", d}
		if d != "2" {
			kv = append(kv, "id", id)
		}
		p.publish(ctx, kv...)
	}
	s := p.resume(ctx, id, topic)
	s.wantCursor(id, "a shared id")
	s.want("2", "3")
}

func resumeLong(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	const n = 300
	cursor := ""
	pad := strings.Repeat("x", 8<<10)
	for i := range n {
		id := p.publish(ctx, "topic", topic, "data", fmt.Sprint(i, " ", pad))
		if i == 0 {
			cursor = id
		}
	}
	s := p.resume(ctx, cursor, topic)
	for i := 1; i < n; i++ {
		if e := s.next(); !strings.HasPrefix(e.data, fmt.Sprint(i, " ")) {
			p.Fatalf("got %.12q where update %d was due", e.data, i)
		}
	}
}

func resumeTrimmed(ctx context.Context, p *Probe) {
	if p.History <= 0 {
		p.Skipf("needs a hub that keeps few updates")
	}
	topic := p.topic("a")
	for _, made := range []bool{true, false} { // ids made by the hub, and the publisher's own
		const gone = 4
		ids := make([]string, p.History+gone)
		for i := range ids {
			kv := []string{"topic", topic, "data", fmt.Sprint(i)}
			if !made {
				kv = append(kv, "id", fmt.Sprint(p.nonce, i))
			}
			ids[i] = p.publish(ctx, kv...)
		}
		s := p.resume(ctx, ids[gone-1], topic)
		s.wantCursor(ids[gone-1], fmt.Sprintf("nothing lost after it, made by the hub: %v", made))
		for i := gone; i < len(ids); i++ {
			s.want(fmt.Sprint(i))
		}
		p.resume(ctx, ids[gone-2], topic).wantCursor("earliest", fmt.Sprintf("one update lost after it, made by the hub: %v", made))
		p.resume(ctx, ids[0], topic).wantCursor("earliest", fmt.Sprintf("several updates lost after it, made by the hub: %v", made))
		s = p.resume(ctx, ids[len(ids)-2], topic)
		s.wantCursor(ids[len(ids)-2], "a recent one")
		s.want(fmt.Sprint(len(ids) - 1))
		s = p.resume(ctx, "earliest", topic)
		s.want(fmt.Sprint(gone))
	}
}
