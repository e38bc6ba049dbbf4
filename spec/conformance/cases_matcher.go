package conformance

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

func matcherCases() []Case {
	return []Case{
		{"matcher/types", []string{"SUB-08", "SUB-21"}, "match and match_exact select one topic, match_urlpattern a pattern of topics, in any mix.", matcherTypes, OfDraft08},
		{"matcher/exact", []string{"MAT-07", "SUB-08"}, "An exact matcher compares bytes: no template, no base, no normalization.", matcherExact, OfDraft08},
		{"matcher/urlpattern", []string{"MAT-08", "SUB-08"}, "A URL pattern matches as its standard says, case-sensitively.", matcherPattern, OfDraft08},
		{"matcher/relative", []string{"MAT-09"}, "Relative patterns and topics are resolved against the hub's URL.", matcherRelative, OfDraft08},
		{"matcher/absolute", []string{"MAT-10", "X-04"}, "An absolute pattern needs no base: urn:* selects every URN.", matcherAbsolute, OfDraft08},
		{"matcher/no-url", []string{"MAT-11"}, "A topic that is no URL matches no pattern.", matcherNoURL, OfDraft08},
		{"matcher/wildcard", []string{"MAT-16"}, "The matcher * selects every topic, whatever its type.", matcherWildcard, OfDraft08},
		{"matcher/names", []string{"SUB-09", "SUB-10", "SUB-14", "X-05"}, "Names are compared decoded and case-sensitively, and no pair of the query vanishes.", matcherNames, OfDraft08},
		{"matcher/characters", []string{"SUB-15"}, "A pattern with control or format characters, or that is not UTF-8, is refused.", matcherCharacters, OfDraft08},
		{"matcher/invalid", []string{"SUB-17", "MAT-14", "MAT-15", "X-02", "SEC-12"}, "An invalid pattern is refused, in a token too, without its compiler's words.", matcherInvalid, OfDraft08},
		{"matcher/bounded", []string{"MAT-12", "MAT-13", "LIM-07", "X-03", "SEC-07"}, "A pattern with too many groups is refused, and none delays a publication.", matcherBounded, OfDraft08},
	}
}

// selects publishes to a topic and reports whether a stream of the matchers gets it.
func (p *Probe) selects(ctx context.Context, matchers, topic string) bool {
	end := p.topic("end")
	s := p.subscribe(ctx, matchers+"&"+form("match", end), bearer(p.subscriber("*")))
	defer s.Close()
	p.publish(ctx, "topic", topic, "data", "probe")
	p.publish(ctx, "topic", end, "data", "end")
	return s.next().data == "probe"
}

func matcherTypes(ctx context.Context, p *Probe) {
	a, b := p.topic("a"), p.topic("b")
	s := p.subscribe(ctx, form("match", a, "match_exact", b, "match_urlpattern", p.topic("c/:id"), "match", p.topic("d")), bearer(p.subscriber("*")))
	for _, t := range []string{"a", "b", "c", "c/1", "d", "e", "c/1/2", "A"} {
		p.publish(ctx, "topic", p.topic(t), "data", t)
	}
	p.publish(ctx, "topic", b, "topic", a, "topic", p.topic("c/2"), "data", "all")
	p.publish(ctx, "topic", a, "data", "end")
	s.want("a", "b", "c/1", "d", "all", "end")
}

func matcherExact(ctx context.Context, p *Probe) {
	root, _ := url.Parse(p.URL)
	for _, c := range []struct {
		matcher, topic string
		want           bool
	}{
		{p.topic("a"), p.topic("a"), true},
		{p.topic("{id}"), p.topic("{id}"), true},
		{p.topic("{id}"), p.topic("1"), false},
		{p.topic(":id"), p.topic("1"), false},
		{p.topic("a*"), p.topic("ab"), false},
		{p.topic("a"), p.topic("A"), false},
		{p.topic("a"), p.topic("a/"), false},
		{p.topic("e\u0301"), p.topic("\u00e9"), false},
		{p.topic("\u00e9"), p.topic("\u00e9"), true},
		{p.topic("%C3%A9"), p.topic("é"), false},
		{p.topic("%7Ea"), p.topic("~a"), false},
		{p.topic("a/../b"), p.topic("b"), false},
		{"/" + p.nonce, root.Scheme + "://" + root.Host + "/" + p.nonce, false},
		{"/" + p.nonce, "/" + p.nonce, true},
		{p.nonce + ";x%", p.nonce + ";x%", true},
	} {
		for _, name := range []string{"match", "match_exact"} {
			if got := p.selects(ctx, form(name, c.matcher), c.topic); got != c.want {
				p.Errorf("%s=%s, topic %s: match %v, want %v", name, c.matcher, c.topic, got, c.want)
			}
		}
	}
}

func matcherPattern(ctx context.Context, p *Probe) {
	for _, c := range []struct {
		pattern, topic string
		want           bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a", "A", false},
		{":id", "1", true},
		{":id", "1/2", false},
		{"books/:id", "books/1", true},
		{"books/:id", "books/", false},
		{"books/:id", "authors/1", false},
		{"books/*", "books/1/2/3", true},
		{"books/:id(\\d+)", "books/12", true},
		{"books/:id(\\d+)", "books/x", false},
		{"books/:id.json", "books/1.json", true},
		{"books/:id.json", "books/1.xml", false},
		{"books{/:id}?", "books", true},
		{"books{/:id}?", "books/1", true},
		{"books/:path+", "books/1/2", true},
		{"books/:path+", "books/", false},
		{"{id}", "1", false}, // a group without a name is a literal, not a variable
		{"a/../b", "b", true},
		{"é", "%C3%A9", true}, // both are the same URL
		{"%7Bx", "{x", true},
	} {
		if got := p.selects(ctx, form("match_urlpattern", p.topic(c.pattern)), p.topic(c.topic)); got != c.want {
			p.Errorf("match_urlpattern=…/%s, topic …/%s: match %v, want %v", c.pattern, c.topic, got, c.want)
		}
	}
	host := "https://*.conformance.example/" + p.nonce
	for topic, want := range map[string]bool{"https://a.conformance.example/" + p.nonce: true, "https://a.other.example/" + p.nonce: false, "http://a.conformance.example/" + p.nonce: false} {
		if got := p.selects(ctx, form("match_urlpattern", host), topic); got != want {
			p.Errorf("match_urlpattern=%s, topic %s: match %v, want %v", host, topic, got, want)
		}
	}
}

func matcherRelative(ctx context.Context, p *Probe) {
	pattern := form("match_urlpattern", "/"+p.nonce+"/:id")
	for topic, want := range map[string]bool{
		"/" + p.nonce + "/1": true, "/" + p.nonce + "/1/2": false, "/x/../" + p.nonce + "/1": true, "https://conformance.example/" + p.nonce + "/1": false,
	} {
		if got := p.selects(ctx, pattern, topic); got != want {
			p.Errorf("the pattern /%s/:id, topic %s: match %v, want %v", p.nonce, topic, got, want)
		}
	}
	if p.PublicURL == "" {
		return
	}
	u, err := url.Parse(p.PublicURL)
	if err != nil {
		p.Fatalf("%v", err)
	}
	root := u.Scheme + "://" + u.Host
	if !p.selects(ctx, pattern, root+"/"+p.nonce+"/1") {
		p.Errorf("a relative pattern does not select a topic below %s", root)
	}
	if !p.selects(ctx, form("match_urlpattern", root+"/"+p.nonce+"/:id"), "/"+p.nonce+"/1") {
		p.Errorf("a pattern below %s does not select a relative topic", root)
	}
}

func matcherAbsolute(ctx context.Context, p *Probe) {
	for pattern, topic := range map[string]string{
		"urn:*": "urn:book:" + p.nonce, `urn\:` + p.nonce + `\:*`: "urn:" + p.nonce + ":978", "tag:*": "tag:" + p.nonce, `data\:*`: "data:text/plain," + p.nonce,
	} {
		s := p.subscribe(ctx, form("match_urlpattern", pattern), bearer(p.subscriber()))
		data := p.nonce + topic
		p.publish(ctx, "topic", topic, "data", data)
		for e := s.next(); e.data != data; { // others' traffic
			e = s.next()
		}
		s.Close()
	}
	if p.selects(ctx, form("match_urlpattern", `urn\:`+p.nonce+`\:a*`), "urn:"+p.nonce+":b") {
		p.Errorf("urn:…:a* selects urn:…:b")
	}
}

func matcherNoURL(ctx context.Context, p *Probe) {
	for _, topic := range []string{"http://[::1/" + p.nonce, "http://a:b:c/" + p.nonce, "https://:99999/" + p.nonce} {
		for _, pattern := range []string{"http://*", "*://*/*", "/*", "/" + p.nonce} {
			end := p.topic("end")
			s := p.subscribe(ctx, form("match_urlpattern", pattern, "match", end), bearer(p.subscriber()))
			p.publish(ctx, "topic", topic, "data", "probe"+p.nonce)
			p.publish(ctx, "topic", end, "data", "end"+p.nonce)
			e := s.next()
			for !strings.HasSuffix(e.data, p.nonce) { // others' traffic
				e = s.next()
			}
			if e.data != "end"+p.nonce {
				p.Errorf("the pattern %s selects the topic %s", pattern, topic)
			}
			s.Close()
		}
		if !p.selects(ctx, form("match", topic), topic) {
			p.Errorf("the topic %s cannot be selected exactly", topic)
		}
	}
}

func matcherWildcard(ctx context.Context, p *Probe) {
	for _, name := range []string{"match", "match_exact", "match_urlpattern"} {
		s := p.subscribe(ctx, form(name, "*"), bearer(p.subscriber()))
		for _, topic := range []string{p.topic("a"), "urn:x:" + p.nonce, p.nonce, "http://[" + p.nonce} {
			data := name + p.nonce + topic
			p.publish(ctx, "topic", topic, "data", data)
			for e := s.next(); e.data != data; { // others' traffic
				e = s.next()
			}
		}
		s.Close()
	}
}

func matcherNames(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	value := url.QueryEscape(topic)
	for _, query := range []string{
		"%6Datch=" + value, "m%61tch_exact=" + value, "match%5Fexact=" + value, "match_urlpatter%6E=" + value, "x;y=1&match=" + value + "&%zz", "&&match=" + value + "&match=b;c",
	} {
		if !p.selects(ctx, query, topic) {
			p.Errorf("the query %s does not select the topic", query)
		}
	}
	if !p.selects(ctx, "match="+url.QueryEscape(p.nonce)+";b", p.nonce+";b") {
		p.Errorf("match=…;b does not select …;b")
	}
	for _, query := range []string{
		"Match=" + value, "MATCH_EXACT=" + value, "match_Urlpattern=" + value, "match_urlpattern2=x", "match_regexp=x", "matchExact=x", "match%5F=x", "match+=x", "%4Datch=x", "match_urltemplate=x",
	} {
		p.wantStatus(p.get(ctx, form("match", topic)+"&"+query, bearer(p.subscriber())), http.StatusBadRequest, "with %s", query)
	}
}

func matcherCharacters(ctx context.Context, p *Probe) {
	for _, name := range []string{"match_exact", "match_urlpattern"} {
		for _, bad := range badText {
			query := form("match", p.topic("a"), name, p.topic("b")) + bad + "c"
			p.wantStatus(p.get(ctx, query, bearer(p.subscriber())), http.StatusBadRequest, "%s with %s", name, bad)
		}
	}
}

// badPatterns are no URL patterns, or ones that engines read differently.
var badPatterns = []string{
	"/(", "/{", "/}", "/:", "/(?)", "/:a/:a", "/(()", "/((a))", "/(é)", "https://example.com/books/\\", "https://example.com:65536/x",
	"https://example.com/:a-/..", "https://a/:a-/%2e%2e", // a compiler that panics
	"/([a[b]])", "/([a&&b])", "/([a--b])", "/(?=a)", "/((?=a)b)", "/((?!a)b)", "/((?<=a)b)", "/((?<!a)b)", "/(\\1)",
}

func matcherInvalid(ctx context.Context, p *Probe) {
	for _, bad := range badPatterns {
		a := p.get(ctx, form("match", p.topic("a"), "match_urlpattern", bad), bearer(p.subscriber()))
		p.wantStatus(a, http.StatusBadRequest, "the pattern %s", bad)
		for _, word := range []string{"regexp", "error parsing", "goroutine", "panic", ".go:", "runtime", "expected", "tokenizer"} {
			if strings.Contains(strings.ToLower(a.body), word) {
				p.Errorf("the pattern %s: the answer has its compiler's words: %.200q", bad, a.body)
			}
		}
		matcher := map[string]any{"match": bad, "match_type": "urlpattern"}
		for _, action := range []string{"publish", "subscribe"} {
			p.issuedIs(ctx, http.StatusUnauthorized, "the pattern "+bad+" in a token", p.issued(detail(action, nil, matcher)...))
		}
	}
	p.publish(ctx, "topic", p.topic("a"))
}

func matcherBounded(ctx context.Context, p *Probe) {
	for what, pattern := range map[string]string{
		"33 groups": p.topic(strings.Repeat("*a", 33)), "700 groups": p.topic(strings.Repeat("*a", 700)),
		"33 names": p.topic(names(33)), "expressions": p.topic(strings.Repeat("(a*)", 40)),
	} {
		p.wantStatus(p.get(ctx, form("match_urlpattern", pattern), bearer(p.subscriber())), http.StatusBadRequest, "%s", what)
		matcher := map[string]any{"match": pattern, "match_type": "urlpattern"}
		p.issuedIs(ctx, http.StatusUnauthorized, what+" in a token", p.issued(detail("subscribe", nil, matcher)...))
	}
	many := p.topic(strings.Repeat("*a", 31))
	s := p.subscribe(ctx, form("match_urlpattern", many, "match", p.topic("end")), bearer(p.subscriber()))
	long := p.topic("")
	long += strings.Repeat("a", 2047-len(long)) + "b" // matches as long as it can, then not at all
	start := time.Now()
	p.publish(ctx, "topic", long, "data", "long")
	p.publish(ctx, "topic", p.topic("end"), "data", "end")
	s.want("end")
	if took := time.Since(start); took > p.Wait {
		p.Errorf("a pattern of 31 groups delayed two publications by %v", took)
	}
}

// names makes a pattern of n segments that are groups.
func names(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = ":n" + strings.Repeat("x", i)
	}
	return strings.Join(all, "/")
}
