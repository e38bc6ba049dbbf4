package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

func matchCases() []Case {
	return []Case{
		{"match/templates", []string{"MAT-01", "MAT-04"}, "A selector is an equal string or an RFC 6570 template that can expand to the topic; names and prefixes count.", matchTemplates, OfClassic},
		{"match/wildcard", []string{"MAT-01"}, "The selector * selects every topic.", matchWildcard, OfEach},
		{"match/invalid-template", []string{"MAT-02", "MAT-03"}, "What is no template is a string, and a template is equal to itself.", matchInvalid, OfClassic},
		{"match/no-base", []string{"MAT-05"}, "Selectors are not resolved against the hub's URL nor normalized.", matchNoBase, OfClassic},
		{"match/bounded", []string{"MAT-06", "LIM-07", "SEC-07", "X-01"}, "A template with too many variables is refused and hurts nobody.", matchBounded, OfClassic},
	}
}

// matching publishes to a topic and reports whether a stream of the selector gets it.
func (p *Probe) matching(ctx context.Context, selector, topic string) bool {
	end := p.topic("end")
	s := p.listen(ctx, selector, end)
	defer s.Close()
	p.publish(ctx, "topic", topic, "data", "probe")
	p.publish(ctx, "topic", end, "data", "end")
	return s.next().data == "probe"
}

func matchTemplates(ctx context.Context, p *Probe) {
	for _, c := range []struct {
		selector, topic string
		want            bool
	}{
		{"a", "a", true},
		{"a", "A", false},
		{"a", "a/", false},
		{"é", "é", true},
		{"a.c", "abc", false},
		{".*", "x", false},
		{"*", "x", false},
		{"{id}", "1", true},
		{"{id}", "1/2", false},
		{"{id}", "a%2Fb", true},
		{"{id}", "é", false}, // an expansion is percent-encoded
		{"{id}", "%C3%A9", true},
		{"{id}x", "1x", true},
		{"{id}x", "1y", false},
		{"{id}/rev/{rev}", "1/rev/2", true},
		{"{id}/rev/{rev}", "1/rav/2", false},
		{"{+path}", "a/b?c", true},
		{"r{#frag}", "r#x/y", true},
		{"r{#frag}", "rx", false},
		{"r{.ext}", "r.json", true},
		{"r{/seg}", "r/x", true},
		{"r{/seg}", "r/x/y", false},
		{"r{/seg*}", "r/x/y", true},
		{"r{?q}", "r?q=x", true},
		{"r{?q}", "r", true},
		{"r{?q}", "r?z=x", false}, // MAT-04: the variable's name is part of the expansion
		{"r{;k}", "r;k=1", true},
		{"r{;k}", "r;z=1", false},
		{"r?a=1{&b}", "r?a=1&b=2", true},
		{"r?a=1{&b}", "r?a=1&c=2", false},
		{"{v:3}", "val", true},
		{"{v:3}", "value", false},       // MAT-04: a prefix of at most three characters
		{"é-{id}", "é-1", true},         // a non-ASCII literal, raw
		{"é-{id}", "%C3%A9-1", true},    // and as a template would expand it
		{"{x}-{y}-{x}", "1-2-1", true},  // a repeated variable has one value
		{"{x}-{y}-{x}", "1-2-3", false}, //
	} {
		if got := p.matching(ctx, p.topic(c.selector), p.topic(c.topic)); got != c.want {
			p.Errorf("selector …/%s, topic …/%s: match %v, want %v", c.selector, c.topic, got, c.want)
		}
	}
}

func matchWildcard(ctx context.Context, p *Probe) {
	s := p.subscribe(ctx, p.topics("*"), bearer(p.subscriber()))
	for _, topic := range []string{p.topic("a"), "urn:x:" + p.nonce, p.nonce, "{" + p.nonce} {
		data := p.nonce + " " + topic
		p.publish(ctx, "topic", topic, "data", data)
		for s.next().data != data { // others' traffic
			continue
		}
	}
}

func matchInvalid(ctx context.Context, p *Probe) {
	for _, selector := range []string{"{", "}", "a{b", "{}", "{a b}", "{=x}", "{x:0}", "{x:99999}", "{x}}", "{{x}}"} {
		if !p.matching(ctx, p.topic(selector), p.topic(selector)) {
			p.Errorf("the selector %q does not select itself", selector)
		}
		if p.matching(ctx, p.topic(selector), p.topic("1")) {
			p.Errorf("the selector %q selects 1", selector)
		}
	}
	if !p.matching(ctx, p.topic("books/{id}{?q,r}"), p.topic("books/{id}{?q,r}")) {
		p.Errorf("a template does not select itself")
	}
}

func matchNoBase(ctx context.Context, p *Probe) {
	u, _ := url.Parse(p.URL)
	root := u.Scheme + "://" + u.Host
	for _, c := range [][2]string{
		{"/" + p.nonce + "/{id}", root + "/" + p.nonce + "/1"},
		{"/" + p.nonce + "/a", root + "/" + p.nonce + "/a"},
		{root + "/" + p.nonce + "/{id}", "/" + p.nonce + "/1"},
		{p.topic("%7Ea"), p.topic("~a")},
		{p.topic("a/../b"), p.topic("b")},
		{p.topic("e\u0301"), p.topic("\u00e9")},
		{strings.ToUpper(p.topic("x")), p.topic("x")},
	} {
		if p.matching(ctx, c[0], c[1]) {
			p.Errorf("the selector %q selects %q", c[0], c[1])
		}
	}
	if !p.matching(ctx, "/"+p.nonce+"/{id}", "/"+p.nonce+"/1") {
		p.Errorf("a relative template does not select a relative topic")
	}
}

// variables makes a template of n variables.
func variables(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("v", i)
	}
	return "{" + strings.Join(names, ",") + "}"
}

func matchBounded(ctx context.Context, p *Probe) {
	var many strings.Builder
	for i := range 400 {
		fmt.Fprintf(&many, "{a%d}", i)
	}
	for _, template := range []string{variables(33), variables(700), many.String()} {
		if len(template) > 4096 {
			p.Fatalf("the template is longer than the length limit")
		}
		p.wantStatus(p.get(ctx, p.topics(p.topic(template)), bearer(p.subscriber())), http.StatusBadRequest, "%.30s…", template)
		p.wantStatus(p.get(ctx, p.topics(p.topic("a")), bearer(p.subscriber(template))), http.StatusUnauthorized, "%.30s… in a token", template)
		p.wantStatus(p.post(ctx, bearer(p.publisher(template)), "topic", p.topic("a")), http.StatusUnauthorized, "%.30s… in a publisher's token", template)
	}
	p.wantStatus(p.get(ctx, p.topics(variables(1200)), bearer(p.subscriber())), http.StatusBadRequest, "1200 variables")
	if !p.matching(ctx, p.topic(variables(32)), p.topic("a,b,c")) {
		p.Errorf("a template of 32 variables selects nothing")
	}
}
