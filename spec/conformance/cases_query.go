package conformance

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

func queryCases() []Case {
	return []Case{
		{"query/opens", []string{"SUB-02"}, "QUERY with a form opens a stream.", queryOpens, OfDraft08},
		{"query/union", []string{"SUB-03"}, "Matchers of the query component and of the body are united.", queryUnion, OfDraft08},
		{"query/cursor", []string{"SUB-04", "REC-03", "REC-05"}, "The header's cursor comes before the query component's, and that before the body's.", queryCursor, OfDraft08},
		{"query/media-type", []string{"SUB-02", "ERR-12"}, "A body of another media type is refused.", queryMediaType, OfDraft08},
		{"query/invalid", []string{"SUB-10", "SUB-11", "SUB-15", "SUB-17"}, "What is refused in the query component is refused in the body.", queryInvalid, OfDraft08},
		{"query/limits", []string{"LIM-12", "LIM-05", "SUB-18", "LIM-13"}, "A body has a limit, and the matchers of both components have one together; the body takes what a URL cannot.", queryLimits, OfDraft08},
		{"query/token", []string{"CORS-08", "CORS-09", "D08-17", "D08-18", "G-05"}, "QUERY is safe: a cookie needs no origin. A token in the URL or the body is none.", queryToken, OfDraft08},
		{"query/preflight", []string{"CORS-03", "CORS-09"}, "Scripts of a listed origin may use QUERY.", queryPreflight, OfDraft08},
		{"query/both-kinds", []string{"G-20", "SUB-12", "G-10"}, "Parameters of both generations may come in either component.", queryBothKinds, OfBoth},
	}
}

// query opens a stream with QUERY and requires that it opens.
func (p *Probe) query(ctx context.Context, component, body string, h http.Header) *stream {
	s := p.ask(ctx, component, body, merged(h, head("Content-Type", spec.MediaTypeForm)))
	if ct := s.header.Get("Content-Type"); s.status != http.StatusOK || !strings.HasPrefix(ct, "text/event-stream") {
		p.Fatalf("QUERY ?%.100s with %.100q: status %d, Content-Type %q (%.200q), want 200 text/event-stream",
			component, body, s.status, ct, s.rest(p.Wait))
	}
	return s
}

// ask sends a QUERY and returns whatever answer came.
func (p *Probe) ask(ctx context.Context, component, body string, h http.Header) *stream {
	s, err := p.tryAsk(ctx, p.streams, spec.MethodQuery, component, strings.NewReader(body), h)
	if err != nil {
		p.Fatalf("QUERY ?%.100s: %v", component, err)
	}
	return s
}

// asked is the answer to a QUERY that is expected to be refused.
func (p *Probe) asked(ctx context.Context, component, body string, h http.Header) answer {
	all := head("Content-Type", spec.MediaTypeForm)
	maps.Copy(all, h)
	s := p.ask(ctx, component, body, all)
	if s.status == http.StatusOK {
		s.Close()
	}
	return answer{status: s.status, header: s.header, body: s.rest(p.Wait)}
}

func queryOpens(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	for _, ct := range []string{spec.MediaTypeForm, "application/x-www-form-urlencoded; charset=utf-8", "Application/X-WWW-Form-URLEncoded"} {
		s := p.ask(ctx, "", form("match", topic), merged(bearer(p.subscriber(topic)), head("Content-Type", ct)))
		if s.status != http.StatusOK {
			p.Errorf("Content-Type %s: status %d", ct, s.status)
			continue
		}
		s.opened()
		p.publish(ctx, "topic", topic, "data", ct, "private", "on")
		s.want(ct)
		s.Close()
	}
	s := p.query(ctx, "", "%6Datch="+url.QueryEscape(p.nonce)+";b&&x;y&%zz", bearer(p.subscriber())) // the WHATWG parser
	p.publish(ctx, "topic", p.nonce+";b", "data", "semicolon")
	s.want("semicolon")
}

func queryUnion(ctx context.Context, p *Probe) {
	a, b, c := p.topic("a"), p.topic("b"), p.topic("c")
	s := p.query(ctx, form("match", a), form("match_urlpattern", b, "match", p.topic("d")), bearer(p.subscriber()))
	for topic, data := range map[string]string{a: "to a", b: "to b"} {
		p.publish(ctx, "topic", c, "data", "to c")
		p.publish(ctx, "topic", topic, "data", data)
		s.want(data)
	}
	p.publish(ctx, "topic", a, "topic", b, "data", "both")
	p.publish(ctx, "topic", b, "data", "end")
	s.want("both", "end")

	s = p.query(ctx, form("match", a), "", bearer(p.subscriber()))
	p.publish(ctx, "topic", a, "data", "an empty body")
	s.want("an empty body")
}

func queryCursor(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	ids := make([]string, 3)
	for i := range ids {
		ids[i] = p.publish(ctx, "topic", topic, "data", fmt.Sprint(i))
	}
	p.publish(ctx, "topic", topic, "data", "end")
	for what, c := range map[string]struct {
		header, component, body string
		winner                  int
	}{
		"body alone":          {"", "", ids[2], 2},
		"component over body": {"", ids[1], ids[2], 1},
		"component alone":     {"", ids[1], "", 1},
		"header over both":    {ids[0], ids[1], ids[2], 0},
		"header over body":    {ids[0], "", ids[2], 0},
	} {
		h := bearer(p.subscriber())
		if c.header != "" {
			h.Set(spec.HeaderLastEventID, c.header)
		}
		component, body := "", form("match", topic)
		if c.component != "" {
			component = form("last_event_id", c.component)
		}
		if c.body != "" {
			body += "&" + form("last_event_id", c.body)
		}
		s := p.query(ctx, component, body, h)
		s.wantCursor(ids[c.winner], what)
		for i := c.winner + 1; i < len(ids); i++ {
			s.want(fmt.Sprint(i))
		}
		s.want("end")
		s.Close()
	}
}

func queryMediaType(ctx context.Context, p *Probe) {
	for ct, body := range map[string]string{
		"application/json": `{"match":"a"}`, "text/plain": "match=a", "multipart/form-data; boundary=b": "--b--", "application/x-www-form-urlencoded+x": "match=a",
	} {
		p.wantStatus(p.asked(ctx, form("match", p.topic("a")), body, merged(bearer(p.subscriber()), head("Content-Type", ct))),
			http.StatusUnsupportedMediaType, "Content-Type %s", ct)
	}
}

func queryInvalid(ctx context.Context, p *Probe) {
	good, h := form("match", p.topic("a")), bearer(p.subscriber())
	p.wantStatus(p.asked(ctx, "", "", h), http.StatusBadRequest, "nothing in either component")
	p.wantStatus(p.asked(ctx, "", "other=1", h), http.StatusBadRequest, "nothing that selects")
	for _, bad := range []string{"Match=b", "matchId=1", "match=%00", "match=%FF", "match_urlpattern=/(", "match_regexp=x"} {
		p.wantStatus(p.asked(ctx, good, bad, h), http.StatusBadRequest, "the body %s", bad)
		p.wantStatus(p.asked(ctx, bad, good, h), http.StatusBadRequest, "the query component %s", bad)
	}
}

func queryLimits(ctx context.Context, p *Probe) {
	h := bearer(p.subscriber())
	list := make([]string, 100)
	for i := range list {
		list[i] = p.topic(fmt.Sprint(i) + strings.Repeat("x", 1000)) // too long together for a URL
	}
	s := p.query(ctx, "", p.topics(list...), h)
	p.publish(ctx, "topic", list[99], "data", "the last one")
	s.want("the last one")
	p.wantStatus(p.asked(ctx, form("match", p.topic("one more")), p.topics(list...), h), http.StatusBadRequest, "101 matchers in two components")
	p.wantStatus(p.asked(ctx, "", form("match", p.topic("a"))+"&x="+strings.Repeat("x", 1<<20), h), http.StatusRequestEntityTooLarge, "a body of more than 1 MiB")
}

func queryToken(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	token := p.subscriber(topic)
	s := p.query(ctx, "", form("match", topic), merged(p.cookie(token), head("Origin", evilOrigin)))
	p.publish(ctx, "topic", topic, "data", "by cookie", "private", "on")
	s.want("by cookie")
	body := form("match", topic)
	for _, name := range []string{"access_token", "authorization"} {
		p.noToken(ctx, topic, name+" in the body", func() *stream {
			return p.ask(ctx, "", body+"&"+form(name, token), head("Content-Type", spec.MediaTypeForm))
		})
		p.noToken(ctx, topic, name+" in the URL", func() *stream {
			return p.ask(ctx, form(name, token), body, head("Content-Type", spec.MediaTypeForm))
		})
	}
}

// noToken requires that a request is treated as one without a token.
func (p *Probe) noToken(ctx context.Context, topic, what string, open func() *stream) {
	s := open()
	defer s.Close()
	if !p.Anonymous {
		a := answer{status: s.status, header: s.header, body: s.rest(p.Wait)}
		if p.wantStatus(a, http.StatusUnauthorized, "%s", what) {
			p.wantChallenge(a, "", what)
		}
		return
	}
	if s.status != http.StatusOK {
		p.Errorf("%s: status %d, want 200 as for an anonymous subscriber", what, s.status)
		return
	}
	p.publish(ctx, "topic", topic, "data", "private", "private", "on")
	p.publish(ctx, "topic", topic, "data", "public")
	if e := s.next(); e.data != "public" {
		p.Errorf("%s: got %q, want public updates alone", what, e.data)
	}
}

func queryPreflight(ctx context.Context, p *Probe) {
	origin := p.needOrigin()
	a := p.do(ctx, http.MethodOptions, "", head("Origin", origin, "Access-Control-Request-Method", spec.MethodQuery,
		"Access-Control-Request-Headers", "authorization,content-type,last-event-id"), "")
	p.wantStatus(a, http.StatusNoContent, "preflight")
	if got := strings.Join(a.header.Values("Access-Control-Allow-Methods"), ","); !strings.Contains(got, spec.MethodQuery) {
		p.Errorf("Allow-Methods %q lacks QUERY", got)
	}
	s := p.query(ctx, "", form("match", p.topic("a")), merged(bearer(p.subscriber()), head("Origin", origin)))
	if got := s.header.Get("Access-Control-Allow-Origin"); got != origin {
		p.Errorf("Allow-Origin %q on a stream that QUERY opened", got)
	}
}

func queryBothKinds(ctx context.Context, p *Probe) {
	a, b := p.topic("a"), p.topic("b")
	template, pattern := form("topic", p.topic("t/{x}")), form("match_urlpattern", p.topic("p/:x"))
	for what, open := range map[string]func() *stream{
		"GET": func() *stream {
			return p.subscribe(ctx, template+"&"+form("match", a)+"&"+pattern, bearer(p.subscriber()))
		},
		"QUERY, topic in the URL": func() *stream { return p.query(ctx, template, form("match", a)+"&"+pattern, bearer(p.subscriber())) },
		"QUERY, topic in the body": func() *stream {
			return p.query(ctx, form("match", a), template+"&"+pattern, bearer(p.subscriber()))
		},
	} {
		s := open()
		for _, topic := range []string{p.topic("t/1"), b, p.topic("t/{x}"), a, p.topic("p/1"), p.topic("p/{x}/1")} {
			p.publish(ctx, "topic", topic, "data", topic)
		}
		p.publish(ctx, "topic", p.topic("t/2"), "topic", a, "data", "once")
		p.publish(ctx, "topic", a, "data", "end")
		for _, want := range []string{p.topic("t/1"), p.topic("t/{x}"), a, p.topic("p/1"), "once", "end"} {
			if e := s.next(); e.data != want {
				p.Errorf("%s: got %q, want %q", what, e.data, want)
				break
			}
		}
		s.Close()
	}
	s := p.query(ctx, form("lastEventID", "earliest"), template, bearer(p.subscriber()))
	s.wantCursor("earliest", "the classic cursor of a QUERY")
}
