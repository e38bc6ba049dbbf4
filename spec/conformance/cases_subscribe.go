package conformance

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
)

func subscribeCases() []Case {
	return []Case{
		{"subscribe/opens", []string{"SUB-01"}, "GET with a topic opens an event stream.", subscribeOpens, OfEach},
		{"subscribe/head", []string{"SUB-05"}, "HEAD answers the head of the stream, ends at once and leaves the connection free.", subscribeHead, OfEach},
		{"subscribe/other-methods", []string{"SUB-06", "ERR-11"}, "Other methods get 405 and the list of those that work.", subscribeMethods, OfEach},
		{"subscribe/several-topics", []string{"SUB-07"}, "Each topic parameter is a subscription of its own.", subscribeSeveral, OfEach},
		{"subscribe/needs-a-topic", []string{"SUB-11"}, "A request that selects nothing is refused and told which parameter is missing.", subscribeNothing, OfEach},
		{"subscribe/selector-characters", []string{"SUB-16"}, "A selector with control or format characters, or that is not UTF-8, is refused.", subscribeCharacters, OfEach},
		{"subscribe/query-is-whatwg", []string{"X-05", "SUB-13", "MAT-05"}, "The query is read with the WHATWG parser: a semicolon and a stray percent sign are ordinary.", subscribeQuery, OfEach},
		{"subscribe/once-per-connection", []string{"SUB-21", "MAT-21"}, "An update that several selectors match arrives once.", subscribeOnce, OfEach},
		{"subscribe/private-needs-a-grant", []string{"SUB-22"}, "A private update is silence for those who may not have it.", subscribePrivate, OfEach},
		{"subscribe/accept-does-not-matter", []string{"SUB-40"}, "The stream opens whatever the Accept field says.", subscribeAccept, OfEach},
		{"subscribe/match-is-reserved", []string{"G-09", "SUB-10", "SUB-14"}, "Parameters that begin with match are refused, not ignored.", subscribeMatchPrefix, OfEach},
		{"subscribe/http2", []string{"SUB-23"}, "Streams and publications work over HTTP/2.", subscribeHTTP2, OfEach},
		{"subscribe/unknown-path", []string{"ERR-11"}, "A path that is not the hub's is 404.", subscribeUnknownPath, OfEach},
	}
}

func subscribeOpens(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	p.publish(ctx, "topic", topic, "data", "x")
	s.want("x")
}

func subscribeHead(ctx context.Context, p *Probe) {
	c := p.dial(ctx)
	request := "HEAD " + c.target("?"+p.topics(p.topic("a"))) + " HTTP/1.1\r\nHost: " + c.host +
		"\r\nAuthorization: Bearer " + p.subscriber() + "\r\n\r\n"
	for i := range 2 { // the second one shows that the connection is free
		c.send(request)
		start := time.Now()
		h := c.readHead()
		if h.status != http.StatusOK || !strings.HasPrefix(h.header.Get("Content-Type"), "text/event-stream") {
			p.Fatalf("HEAD %d: status %d, Content-Type %q, want 200 text/event-stream", i+1, h.status, h.header.Get("Content-Type"))
		}
		if took, most := time.Since(start), max(time.Second, p.Wait/5); took > most {
			p.Errorf("HEAD %d took %v, want less than %v", i+1, took, most)
		}
	}
}

func subscribeMethods(ctx context.Context, p *Probe) {
	query := "?" + p.topics(p.topic("a"))
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, "WHATEVER"} {
		a := p.do(ctx, method, query, bearer(p.subscriber()), "")
		allow := map[string]bool{}
		for m := range strings.SplitSeq(a.header.Get("Allow"), ",") {
			allow[strings.TrimSpace(m)] = true
		}
		p.wantStatus(a, http.StatusMethodNotAllowed, "%s", method)
		for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, spec.MethodQuery, http.MethodOptions} {
			if m == spec.MethodQuery && p.gen == classic {
				continue // a hub of the classic generation alone has none
			}
			if !allow[m] {
				p.Errorf("%s: Allow %q lacks %s", method, a.header.Get("Allow"), m)
			}
		}
	}
}

func subscribeSeveral(ctx context.Context, p *Probe) {
	a, b, c := p.topic("a"), p.topic("b"), p.topic("c")
	s := p.listen(ctx, a, b)
	p.publish(ctx, "topic", a, "data", "to a")
	p.publish(ctx, "topic", c, "data", "to c")
	p.publish(ctx, "topic", b, "data", "to b")
	s.want("to a", "to b")
}

func subscribeNothing(ctx context.Context, p *Probe) {
	for _, query := range []string{"", "other=1", p.gen.cursor + "=earliest"} {
		a := p.get(ctx, query, bearer(p.subscriber()))
		if p.wantStatus(a, http.StatusBadRequest, "query %q", query) && !strings.Contains(a.body, p.gen.selector) {
			p.Errorf("query %q: the answer %.200q does not name the missing parameter", query, a.body)
		}
	}
}

// badText are percent-encoded characters that no topic, selector, id or type may contain.
var badText = []string{
	"%00", "%09", "%0A", "%0D", "%0D%0A", "%1B", "%1F", "%7F", // C0 and DEL
	"%C2%80", "%C2%85", "%C2%9F", // C1
	"%E2%80%8B", "%E2%80%AE", "%EF%BB%BF", "%C2%AD", "%F3%A0%81%81", // Cf
	"%FF", "%C3%28", "%ED%A0%80", "%C0%80", "%E2%82", // not UTF-8
}

func subscribeCharacters(ctx context.Context, p *Probe) {
	for _, bad := range badText {
		query := p.topics(p.topic("a")) + "&" + p.gen.selector + "=" + url.QueryEscape(p.topic("b")) + bad + "c"
		p.wantStatus(p.get(ctx, query, bearer(p.subscriber())), http.StatusBadRequest, "a selector with %s", bad)
	}
}

func subscribeQuery(ctx context.Context, p *Probe) {
	base := p.topic("q")
	for raw, topic := range map[string]string{
		";b": ";b", "%3Bb": ";b", "%": "%", "%zz": "%zz", "%4": "%4", "+a": " a", "%2Ba": "+a", "=c": "=c", "%25": "%",
		"%C3%A9": "é", "é": "é", "%20;%;": " ;%;",
	} {
		s := p.subscribe(ctx, "&&"+p.topics(p.topic("other"))+"&"+p.gen.selector+"="+url.QueryEscape(base)+raw+"&x;y", bearer(p.subscriber()))
		p.publish(ctx, "topic", base+topic, "data", raw)
		if e, err := s.tryNext(p.Wait); err != nil || e.data != raw {
			p.Errorf("a selector …%s does not select %q: %v", raw, topic, err)
		}
		s.Close()
	}
}

func subscribeOnce(ctx context.Context, p *Probe) {
	a, b := p.topic("a"), p.topic("b")
	s := p.listen(ctx, a, b, a, p.anyBelow(p.topic("")))
	p.publish(ctx, "topic", a, "topic", b, "topic", p.topic("c"), "data", "one")
	p.publish(ctx, "topic", a, "data", "two")
	s.want("one", "two")
}

func subscribePrivate(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	query := p.topics(topic)
	granted := p.subscribe(ctx, query, bearer(p.subscriber(topic)))
	denied := map[string]*stream{
		"no selectors":   p.subscribe(ctx, query, bearer(p.subscriber())),
		"another topic":  p.subscribe(ctx, query, bearer(p.subscriber(p.topic("b"), topic+"/more"))),
		"publisher only": p.subscribe(ctx, query, bearer(p.sign(p.signedBy(p.SubscriberKey, p.grants("publish", "*"))))),
	}
	if p.Anonymous {
		denied["no token"] = p.subscribe(ctx, query, nil)
	}
	p.publish(ctx, "topic", topic, "data", "secret", "private", "on")
	p.publish(ctx, "topic", topic, "data", "open")
	granted.want("secret", "open")
	for who, s := range denied {
		if e := s.next(); e.data != "open" {
			p.Errorf("%s: got %q", who, e.data)
		}
	}
}

func subscribeAccept(ctx context.Context, p *Probe) {
	for _, accept := range []string{"", "*/*", "text/event-stream", "application/json", "text/html;q=0.9"} {
		h := bearer(p.subscriber())
		if accept != "" {
			h.Set("Accept", accept)
		}
		s := p.subscribe(ctx, p.topics(p.topic("a")), h)
		s.opened()
		s.Close()
	}
}

func subscribeMatchPrefix(ctx context.Context, p *Probe) {
	topic := p.topics(p.topic("a"))
	for _, extra := range []string{
		"matchId=3", "MATCHES=1", "Match=b", "match_regexp=x", "match_Exact=b", "match_=b", "matcher", "%6DatchId=b", "m%41tch=b", "match%00=b", "matchtopic=b",
	} {
		p.wantStatus(p.get(ctx, topic+"&"+extra, bearer(p.subscriber())), http.StatusBadRequest, "with %s", extra)
	}
	s := p.subscribe(ctx, topic+"&rematch=b&mat=c", bearer(p.subscriber()))
	s.Close()
}

func subscribeHTTP2(ctx context.Context, p *Probe) {
	if p.NoHTTP2 {
		p.Skipf("the hub is said not to speak HTTP/2")
	}
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &protocols, DisableCompression: true}
	if own, ok := p.HTTP.Transport.(*http.Transport); ok && own.TLSClientConfig != nil {
		tr.TLSClientConfig = own.TLSClientConfig.Clone()
		tr.TLSClientConfig.NextProtos = nil
	}
	p.closers = append(p.closers, tr.CloseIdleConnections)
	client := &http.Client{Transport: tr}

	topic := p.topic("a")
	s, err := p.tryOpen(ctx, client, p.topics(topic), bearer(p.subscriber()))
	if err != nil {
		p.Fatalf("subscribe over HTTP/2: %v", err)
	}
	if s.status != http.StatusOK || s.proto != "HTTP/2.0" {
		p.Fatalf("subscribe over HTTP/2: status %d, %s", s.status, s.proto)
	}
	for _, name := range []string{"Connection", "Transfer-Encoding", "Keep-Alive"} {
		if v := s.header.Get(name); v != "" {
			p.Errorf("%s: %s in an HTTP/2 answer", name, v)
		}
	}
	if got := s.opened(); !strings.HasPrefix(got, ":\n") {
		p.Errorf("the stream begins %q, want a comment", got)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, strings.NewReader(form("topic", topic, "data", "over two")))
	if err != nil {
		p.Fatalf("%v", err)
	}
	req.Header = head("Content-Type", "application/x-www-form-urlencoded", "Authorization", "Bearer "+p.publisher("*"))
	res, err := client.Do(req)
	if err != nil {
		p.Fatalf("publish over HTTP/2: %v", err)
	}
	id, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		p.Fatalf("publish over HTTP/2: status %d", res.StatusCode)
	}
	p.publish(ctx, "topic", topic, "data", "over one")
	if got := s.want("over two", "over one"); got[0].id != string(id) {
		p.Errorf("id %q, the publisher was told %q", got[0].id, id)
	}
}

func subscribeUnknownPath(ctx context.Context, p *Probe) {
	u, _ := url.Parse(p.URL)
	p.listen(ctx, p.topic("a")).Close()
	for _, path := range []string{"/" + p.nonce, u.Path + "x", u.Path + "/" + p.nonce, "/%2e/" + strconv.Itoa(len(p.nonce))} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			a := p.do(ctx, method, u.Scheme+"://"+u.Host+path+"?"+p.topics(p.topic("a")), bearer(p.subscriber()), "")
			p.wantStatus(a, http.StatusNotFound, "%s %s", method, path)
		}
	}
}
