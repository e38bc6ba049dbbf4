package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

func claimCases() []Case {
	return []Case{
		{"claim/publish", []string{"CLA-01"}, "mercure.publish lists selectors; missing or empty grants nothing.", claimPublish, OfClassic},
		{"claim/subscribe", []string{"CLA-02", "SUB-22"}, "A private update passes when one selector matches one of its topics.", claimSubscribe, OfClassic},
		{"claim/private-alternate", []string{"CLA-03", "MAT-04"}, "The grant may rest on another topic of the update than the subscription.", claimAlternate, OfClassic},
		{"claim/namespaced", []string{"CLA-04"}, "The claim under https://mercure.rocks/ replaces the short one.", claimNamespaced, OfClassic},
		{"claim/shape", []string{"CLA-06", "CLA-14"}, "A claim of the wrong JSON type refuses the token.", claimShape, OfClassic},
		{"claim/payload", []string{"CLA-05"}, "mercure.payload may be any JSON.", claimPayload, OfClassic},
		{"claim/selectors", []string{"CLA-07", "LIM-08"}, "A token may have 1000 selectors, not more.", claimSelectors, OfClassic},
		{"claim/isolation", []string{"SEC-11", "CLA-02"}, "Two subscribers of the same selector get what each one's own token grants.", claimIsolation, OfClassic},
	}
}

func claimPublish(ctx context.Context, p *Probe) {
	topic := p.topic("books/1")
	for what, c := range map[string]struct {
		payload string
		status  int
	}{
		"wildcard":       {`{"mercure":{"publish":["*"]}}`, 200},
		"exact":          {fmt.Sprintf(`{"mercure":{"publish":[%q]}}`, topic), 200},
		"template":       {fmt.Sprintf(`{"mercure":{"publish":["x",%q]}}`, p.topic("books/{id}")), 200},
		"other":          {fmt.Sprintf(`{"mercure":{"publish":[%q]}}`, p.topic("authors/{id}")), 403},
		"empty":          {`{"mercure":{"publish":[]}}`, 403},
		"subscribe only": {`{"mercure":{"subscribe":["*"]}}`, 403},
		"empty claim":    {`{"mercure":{}}`, 403},
		"no claim":       {`{"sub":"x"}`, 403},
		"null claim":     {`{"mercure":null}`, 403},
		"top level":      {`{"publish":["*"]}`, 403},
	} {
		a := p.post(ctx, bearer(compact(p.PublisherKey, `{"alg":"HS256","typ":"JWT"}`, c.payload)), "topic", topic)
		p.wantStatus(a, c.status, "%s", what)
	}
}

func claimSubscribe(ctx context.Context, p *Probe) {
	a, b := p.topic("books/1"), p.topic("books/2")
	all := p.topics(p.topic("books/{x}"))
	for what, c := range map[string]struct {
		selectors []string
		want      []string
	}{
		"wildcard": {[]string{"*"}, []string{"1", "2", "both", "public"}},
		"template": {[]string{"nothing", p.topic("books/{id}")}, []string{"1", "2", "both", "public"}},
		"one":      {[]string{a}, []string{"1", "both", "public"}},
		"another":  {[]string{b}, []string{"2", "both", "public"}},
		"none":     {nil, []string{"public"}},
	} {
		s := p.subscribe(ctx, all, bearer(p.subscriber(c.selectors...)))
		p.publish(ctx, "topic", a, "data", "1", "private", "on")
		p.publish(ctx, "topic", b, "data", "2", "private", "on")
		p.publish(ctx, "topic", a, "topic", b, "data", "both", "private", "on")
		p.publish(ctx, "topic", a, "data", "public")
		for _, want := range c.want {
			if e := s.next(); e.data != want {
				p.Errorf("%s: got %q, want %q", what, e.data, want)
				break
			}
		}
		s.Close()
	}
}

func claimAlternate(ctx context.Context, p *Probe) {
	book := p.topic("books/1")
	user := p.topic("users/foo/")
	alternate := user + "?topic=" + url.QueryEscape(book)
	s := p.subscribe(ctx, p.topics(p.topic("books/{id}")), bearer(p.subscriber(user+"{?topic}")))
	p.publish(ctx, "topic", p.topic("books/2"), "data", "not granted", "private", "on")
	p.publish(ctx, "topic", alternate, "data", "not subscribed", "private", "on")
	p.publish(ctx, "topic", p.topic("books/3"), "topic", user+"?other=x", "data", "another name", "private", "on")
	p.publish(ctx, "topic", book, "topic", alternate, "data", "both", "private", "on")
	p.publish(ctx, "topic", alternate, "topic", book, "data", "the other way round", "private", "on")
	s.want("both", "the other way round")
}

func claimNamespaced(ctx context.Context, p *Probe) {
	full, none := map[string]any{"publish": []string{"*"}, "subscribe": []string{"*"}}, map[string]any{"publish": []string{}, "subscribe": []string{}}
	for what, c := range map[string]struct {
		claims claims
		status int
	}{
		"alone":             {claims{"https://mercure.rocks/": full}, 200},
		"over an empty one": {claims{"https://mercure.rocks/": full, "mercure": none}, 200},
		"empty over full":   {claims{"https://mercure.rocks/": none, "mercure": full}, 403},
		"another spelling":  {claims{"https://mercure.rocks": full}, 403},
	} {
		tok := p.sign(tokenSpec{key: p.PublisherKey, claims: c.claims})
		p.wantStatus(p.post(ctx, bearer(tok), "topic", p.topic("a")), c.status, "%s", what)
	}
}

func claimShape(ctx context.Context, p *Probe) {
	for _, payload := range []string{
		`{"mercure":{"publish":"*","subscribe":"*"}}`,
		`{"mercure":{"publish":{"0":"*"},"subscribe":{"0":"*"}}}`,
		`{"mercure":{"publish":["*",1],"subscribe":["*",1]}}`,
		`{"mercure":{"publish":[["*"]],"subscribe":[["*"]]}}`,
		`{"mercure":{"publish":[null,"*"],"subscribe":[null,"*"]}}`,
		`{"mercure":{"publish":true,"subscribe":true}}`,
		`{"mercure":{"publish":1,"subscribe":1}}`,
		`{"mercure":["*"]}`, `{"mercure":"*"}`, `{"mercure":true}`,
		`{"https://mercure.rocks/":"x","mercure":{"publish":["*"],"subscribe":["*"]}}`,
		`{"mercure":{"publish":[{"match":"*"}],"subscribe":[{"match":"*","match_type":"exact"}]}}`,
		`["mercure"]`, `"x"`, `1`, ``, `{"mercure":{"publish":["*"],"subscribe":["*"]}} x`,
	} {
		p.bothRoles(ctx, http.StatusUnauthorized, payload, func(s tokenSpec) string { return compact(s.key, `{"alg":"HS256"}`, payload) })
	}
}

func claimPayload(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	for _, payload := range []any{map[string]any{"user": map[string]any{"id": 7}}, []any{1, "a"}, "text", 1.5, true, nil} {
		tok := p.sign(tokenSpec{key: p.SubscriberKey, claims: claims{"mercure": map[string]any{"subscribe": []string{topic}, "payload": payload}}})
		s := p.subscribe(ctx, p.topics(topic), bearer(tok))
		p.publish(ctx, "topic", topic, "data", "x", "private", "on")
		s.want("x")
		s.Close()
	}
}

func claimSelectors(ctx context.Context, p *Probe) {
	list := make([]string, 1001)
	for i := range list {
		list[i] = fmt.Sprintf("t%d", i)
	}
	list[0] = p.topic("a")
	p.wantStatus(p.post(ctx, bearer(p.publisher(list[:1000]...)), "topic", p.topic("a")), http.StatusOK, "1000 selectors")
	p.wantStatus(p.get(ctx, p.topics(p.topic("a")), bearer(p.subscriber(list[:1000]...))), http.StatusOK, "1000 selectors")
	p.wantStatus(p.post(ctx, bearer(p.publisher(list...)), "topic", p.topic("a")), http.StatusUnauthorized, "1001 selectors")
	p.wantStatus(p.get(ctx, p.topics(p.topic("a")), bearer(p.subscriber(list...))), http.StatusUnauthorized, "1001 selectors")
}

func claimIsolation(ctx context.Context, p *Probe) {
	one, two, shared := p.topic("t/1"), p.topic("t/2"), p.topics(p.topic("t/{x}"))
	for range 3 { // the second and third time every cache is warm
		a, b := p.subscribe(ctx, shared, bearer(p.subscriber(one))), p.subscribe(ctx, shared, bearer(p.subscriber(two)))
		c := p.subscribe(ctx, shared, bearer(p.subscriber()))
		p.publish(ctx, "topic", one, "data", "1", "private", "on")
		p.publish(ctx, "topic", two, "data", "2", "private", "on")
		p.publish(ctx, "topic", one, "data", "end")
		a.want("1", "end")
		b.want("2", "end")
		c.want("end")
		for _, s := range []*stream{a, b, c} {
			s.Close()
		}
	}
}
