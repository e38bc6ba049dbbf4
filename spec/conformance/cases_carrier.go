package conformance

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

func carrierCases() []Case {
	return []Case{
		{"carrier/precedence", []string{"AUT-01", "AUT-04", "CLA-08", "CLA-09"}, "Header, then query, then cookie; the first found is final.", carrierPrecedence, OfClassic},
		{"carrier/scheme-case", []string{"AUT-02"}, "The scheme's name may be written in any case.", carrierScheme, OfEach},
		{"carrier/malformed", []string{"AUT-03", "ERR-04"}, "A field that is no bearer token, or several, is a bad request.", carrierMalformed, OfEach},
		{"carrier/bad-token-is-not-anonymous", []string{"AUT-04"}, "A bad token is refused wherever it sits.", carrierBad, OfEach},
		{"carrier/anonymous", []string{"AUT-05", "ERR-01"}, "Without a token: public updates where that is allowed, else 401.", carrierAnonymous, OfEach},
		{"carrier/anonymous-publish", []string{"ERR-01", "AUT-05", "PUB-27"}, "Nobody publishes without a token.", carrierAnonymousPublish, OfEach},
		{"carrier/one-key-per-role", []string{"AUT-06"}, "The other role's key does not verify.", carrierRoles, OfClassic},
		{"carrier/query", []string{"CLA-09", "CLA-10", "G-05"}, "The authorization parameter works for streams and HEAD, not for publishing; access_token never.", carrierQuery, OfClassic},
		{"carrier/first-cookie", []string{"CLA-08", "G-06"}, "Of several cookies of the name the first is final.", carrierCookies, OfEach},
	}
}

// spoilt is a token whose signature is wrong.
func spoilt(token string) string {
	i := strings.LastIndexByte(token, '.')
	return token[:i+1] + strings.Repeat("A", len(token)-i-1)
}

func (p *Probe) cookie(token string) http.Header { return head("Cookie", p.gen.cookie+"="+token) }

func carrierPrecedence(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	good, bad, narrow := p.subscriber(topic), spoilt(p.subscriber(topic)), p.subscriber()
	for what, c := range map[string]struct {
		header, query, cookie string
		status                int
		private               bool
	}{
		"header over bad others":     {good, bad, bad, 200, true},
		"bad header, good others":    {bad, good, good, 401, false},
		"narrow header, good others": {narrow, good, good, 200, false},
		"query over a bad cookie":    {"", good, bad, 200, true},
		"bad query, good cookie":     {"", bad, good, 401, false},
		"narrow query, good cookie":  {"", narrow, good, 200, false},
		"cookie":                     {"", "", good, 200, true},
		"narrow cookie":              {"", "", narrow, 200, false},
	} {
		query, h := p.topics(topic), p.cookie(c.cookie)
		if c.cookie == "" {
			h = http.Header{}
		}
		if c.query != "" {
			query += "&authorization=" + c.query
		}
		if c.header != "" {
			h.Set("Authorization", "Bearer "+c.header)
		}
		s := p.open(ctx, query, h)
		if s.status != c.status {
			p.Errorf("%s: status %d, want %d", what, s.status, c.status)
		} else if c.status == http.StatusOK {
			p.publish(ctx, "topic", topic, "data", "private", "private", "on")
			p.publish(ctx, "topic", topic, "data", "public")
			if e := s.next(); (e.data == "private") != c.private {
				p.Errorf("%s: the private update delivered: %v, want %v", what, !c.private, c.private)
			}
		}
		s.Close()
	}
}

func carrierScheme(ctx context.Context, p *Probe) {
	s := p.listen(ctx, p.topic("a"))
	for _, scheme := range []string{"Bearer", "bearer", "BEARER", "bEaReR"} {
		h := head("Authorization", scheme+" "+p.publisher("*"))
		if p.wantStatus(p.post(ctx, h, "topic", p.topic("a"), "data", scheme), http.StatusOK, "%s", scheme) {
			s.want(scheme)
		}
	}
}

func carrierMalformed(ctx context.Context, p *Probe) {
	pub, sub := p.publisher("*"), p.subscriber("*")
	for what, fields := range map[string]func(token string) []string{
		"another scheme":   func(string) []string { return []string{"Basic dTpw"} },
		"no scheme":        func(t string) []string { return []string{t} },
		"no token":         func(string) []string { return []string{"Bearer"} },
		"an empty token":   func(string) []string { return []string{"Bearer "} },
		"two fields":       func(t string) []string { return []string{"Bearer " + t, "Bearer " + t} },
		"two schemes":      func(t string) []string { return []string{"Basic dTpw", "Bearer " + t} },
		"an empty field":   func(string) []string { return []string{""} },
		"an unknown third": func(t string) []string { return []string{"Mercure " + t} },
	} {
		for role, a := range map[string]answer{
			"publish":   p.post(ctx, http.Header{"Authorization": fields(pub)}, "topic", p.topic("a")),
			"subscribe": p.get(ctx, p.topics(p.topic("a")), http.Header{"Authorization": fields(sub)}),
		} {
			if p.wantStatus(a, http.StatusBadRequest, "%s, %s", role, what) {
				p.wantChallenge(a, "invalid_request", role+", "+what)
			}
		}
	}
}

func carrierBad(ctx context.Context, p *Probe) {
	bad := spoilt(p.subscriber("*"))
	query := p.topics(p.topic("a"))
	for _, token := range []string{bad, "a.b.c", "x", "eyJpdiI6IkZha2VJVg%3D%3D", "..", strings.TrimSuffix(bad, "A") + "=", "eyJhbGciOiJub25lIn0.e30."} {
		p.wantStatus(p.get(ctx, query, bearer(token)), http.StatusUnauthorized, "header %.20s", token)
		if p.gen == classic {
			p.wantStatus(p.get(ctx, query+"&authorization="+url.QueryEscape(token), nil), http.StatusUnauthorized, "query %.20s", token)
		}
		p.wantStatus(p.get(ctx, query, p.cookie(token)), http.StatusUnauthorized, "cookie %.20s", token)
		p.wantStatus(p.post(ctx, bearer(token), "topic", p.topic("a")), http.StatusUnauthorized, "publish with %.20s", token)
	}
}

func carrierAnonymous(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	if !p.Anonymous {
		a := p.get(ctx, p.topics(topic), nil)
		p.wantStatus(a, http.StatusUnauthorized, "no token")
		p.wantChallenge(a, "", "no token")
		p.wantStatus(p.do(ctx, http.MethodHead, "?"+p.topics(topic), nil, ""), http.StatusUnauthorized, "HEAD without a token")
		return
	}
	s := p.subscribe(ctx, p.topics(topic), nil)
	p.publish(ctx, "topic", topic, "data", "private", "private", "on")
	p.publish(ctx, "topic", topic, "data", "public")
	s.want("public")
}

func carrierAnonymousPublish(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	a := p.refuse(ctx, s, topic, http.StatusUnauthorized, "no token", func() answer { return p.post(ctx, nil, "topic", topic, "data", "x") })
	p.wantChallenge(a, "", "no token")
}

func carrierRoles(ctx context.Context, p *Probe) {
	if p.PublisherKey == p.SubscriberKey {
		p.Skipf("both roles have the same key")
	}
	both := claims{"mercure": map[string]any{"publish": []string{"*"}, "subscribe": []string{"*"}}}
	p.wantStatus(p.post(ctx, bearer(p.sign(tokenSpec{key: p.SubscriberKey, claims: both})), "topic", p.topic("a")),
		http.StatusUnauthorized, "publish with the subscriber's key")
	p.wantStatus(p.get(ctx, p.topics(p.topic("a")), bearer(p.sign(tokenSpec{key: p.PublisherKey, claims: both}))),
		http.StatusUnauthorized, "subscribe with the publisher's key")
}

func carrierQuery(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	tok := p.subscriber(topic)
	s := p.subscribe(ctx, p.topics(topic)+"&authorization="+tok, nil)
	if cc := s.header.Get("Cache-Control"); !strings.Contains(cc, "private") {
		p.Errorf("Cache-Control: %q for a token in the URL, want private", cc)
	}
	p.publish(ctx, "topic", topic, "data", "x", "private", "on")
	s.want("x")
	p.wantStatus(p.do(ctx, http.MethodHead, "?"+p.topics(topic)+"&authorization="+tok, nil, ""), http.StatusOK, "HEAD")
	p.wantStatus(p.do(ctx, http.MethodPost, "?authorization="+p.publisher("*"), head("Content-Type", "application/x-www-form-urlencoded"),
		form("topic", topic, "data", "y")), http.StatusUnauthorized, "publish with the token in the URL")

	if !p.Anonymous {
		p.wantStatus(p.get(ctx, p.topics(topic)+"&access_token="+tok, nil), http.StatusUnauthorized, "access_token")
		return
	}
	other := p.subscribe(ctx, p.topics(topic)+"&access_token="+tok, nil)
	p.publish(ctx, "topic", topic, "data", "private", "private", "on")
	p.publish(ctx, "topic", topic, "data", "public")
	other.want("public")
}

func carrierCookies(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	good, name := p.subscriber(topic), p.gen.cookie+"="
	for what, c := range map[string]struct {
		cookies string
		status  int
	}{
		"bad then good":   {name + spoilt(good) + "; " + name + good, http.StatusUnauthorized},
		"good then bad":   {name + good + "; " + name + spoilt(good), http.StatusOK},
		"among others":    {"a=b; " + name + good + "; c=d", http.StatusOK},
		"a similar name":  {"x" + name + spoilt(good) + "; " + name + good, http.StatusOK},
		"good and padded": {name + good + ";", http.StatusOK},
	} {
		p.wantStatus(p.get(ctx, p.topics(topic), head("Cookie", c.cookies)), c.status, "%s", what)
	}
}
