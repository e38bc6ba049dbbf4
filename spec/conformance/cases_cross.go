package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

func crossCases() []Case {
	return []Case{
		{"cross/updates", []string{"MAT-19", "G-13"}, "Subscribers of either generation get what publishers of either publish.", crossUpdates, OfBoth},
		{"cross/private", []string{"G-21", "MAT-19", "SUB-22"}, "A private update is checked against each subscriber's own token, whoever published it.", crossPrivate, OfBoth},
		{"cross/resume", []string{"G-07", "G-08", "MAT-19", "REC-11", "X-09"}, "A cursor of one generation resumes in the other.", crossResume, OfBoth},
		{"cross/reserved", []string{"G-11", "PUB-07", "PUB-08"}, "Plain words that resolve to the hub's own URL are free for classic publishers and reserved for the others.", crossReserved, OfBoth},
		{"cross/type", []string{"G-12", "PUB-17", "SEC-02"}, "Neither generation's publishers may forge the hub's own events.", crossType, OfBoth},
	}
}

// each runs f in both generations.
func (p *Probe) each(f func(g *generation)) {
	for _, g := range []*generation{classic, draft08} {
		p.speak(g)
		f(g)
	}
}

func crossUpdates(ctx context.Context, p *Probe) {
	topic := p.topic("a/1")
	var streams []*stream
	p.each(func(*generation) {
		streams = append(streams, p.subscribe(ctx, p.topics(topic), bearer(p.subscriber())), p.subscribe(ctx, p.topics(p.anyBelow(p.topic("a/"))), bearer(p.subscriber())))
	})
	p.each(func(g *generation) {
		id := p.publish(ctx, "topic", topic, "data", "from "+g.name, "type", "t", "id", p.nonce+g.name)
		for i, s := range streams {
			if e := s.want("from " + g.name)[0]; e.id != id || e.typ != "t" {
				p.Errorf("stream %d: got %q of a publisher of %s, want the id %s and the type t", i, e.raw, g.name, id)
			}
		}
	})
}

func crossPrivate(ctx context.Context, p *Probe) {
	topic := p.topic("a/1")
	granted, denied := map[string]*stream{}, map[string]*stream{}
	open := func(into map[string]*stream, what, token string) {
		into[p.gen.name+" "+what] = p.subscribe(ctx, p.topics(topic), bearer(token))
	}
	p.each(func(*generation) {
		open(granted, "exact", p.subscriber(topic))
		open(granted, "pattern", p.subscriber(p.anyBelow(p.topic("a/"))))
		open(granted, "wildcard", p.subscriber("*"))
		open(denied, "none", p.subscriber())
		open(denied, "another", p.subscriber(p.topic("b"), p.anyBelow(p.topic("a/1/"))))
	})
	p.speak(classic)
	open(denied, "with a URL pattern", p.subscriber(p.topic("a/:x")))
	p.speak(draft08)
	open(denied, "with a template", p.subscriber(p.topic("a/{x}")))
	p.each(func(g *generation) {
		p.publish(ctx, "topic", topic, "data", "private of "+g.name, "private", "on")
		p.publish(ctx, "topic", topic, "data", "public of "+g.name)
		for who, s := range granted {
			for _, want := range []string{"private of ", "public of "} {
				if e := s.next(); e.data != want+g.name {
					p.Errorf("%s: got %q, want %q", who, e.data, want+g.name)
				}
			}
		}
		for who, s := range denied {
			if e := s.next(); e.data != "public of "+g.name {
				p.Fatalf("%s: got %q, want the public update alone", who, e.data)
			}
		}
	})
}

func crossResume(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	first := p.publish(ctx, "topic", topic, "data", "0")
	p.each(func(g *generation) { p.publish(ctx, "topic", topic, "data", g.name, "private", "on") })
	p.each(func(g *generation) {
		for _, name := range []string{"", "lastEventID", "last_event_id", "Last-Event-ID"} {
			query, h := p.topics(topic), bearer(p.subscriber(topic))
			if name == "" {
				h.Set(spec.HeaderLastEventID, first)
			} else {
				query += "&" + form(name, first)
			}
			s := p.subscribe(ctx, query, h)
			s.wantCursor(first, g.name+" with "+name)
			s.want(Classic, Draft08)
			s.Close()
		}
	})
}

func crossReserved(ctx context.Context, p *Probe) {
	u, _ := url.Parse(p.URL)
	word := u.Path[strings.LastIndex(u.Path, "/")+1:]
	p.each(func(g *generation) {
		want := map[*generation]int{classic: http.StatusOK, draft08: http.StatusBadRequest}[g]
		for _, topic := range []string{"#general-" + p.nonce, "?x=" + p.nonce, word} {
			a := p.post(ctx, bearer(p.publisher("*")), "topic", topic, "data", p.nonce)
			p.wantStatus(a, want, "%s, the topic %s", g.name, topic)
		}
		for _, topic := range []string{u.Path + "/subscriptions/x", u.Path + "/subscriptions/exact/x/y", "https://any.example" + u.Path + "/x", word + "/x"} {
			a := p.post(ctx, bearer(p.publisher("*")), "topic", topic, "data", p.nonce)
			p.wantStatus(a, http.StatusBadRequest, "%s, the topic %s", g.name, topic)
		}
	})
}

func crossType(ctx context.Context, p *Probe) {
	p.each(func(g *generation) {
		p.wantStatus(p.post(ctx, bearer(p.publisher("*")), "topic", p.topic("a"), "type", spec.TypeMercure), http.StatusBadRequest, "%s", g.name)
		for _, id := range []string{"#x", spec.Earliest, "a\nb"} {
			p.wantStatus(p.post(ctx, bearer(p.publisher("*")), "topic", p.topic("a"), "id", id), http.StatusBadRequest, "%s, the id %q", g.name, id)
		}
	})
}

func discoveryCases() []Case {
	return []Case{
		{"discovery/document", []string{"DIS-03", "DIS-04", "DIS-05", "G-18"}, "The protected resource metadata tells OAuth clients what the hub is.", discoveryDocument, OfDraft08},
		{"discovery/challenge", []string{"ERR-07", "ERR-01", "ERR-02", "ERR-03", "G-18"}, "Every challenge says where the metadata is.", discoveryChallenge, OfDraft08},
		{"discovery/none", []string{"DIS-08", "G-18", "ERR-07", "G-22"}, "A hub without issuers has no metadata, names none, and takes no token of draft-08.", discoveryNone, OfClassic},
	}
}

// metadataURL is where RFC 9728 puts the document of the hub.
func (p *Probe) metadataURL() string {
	u, err := url.Parse(p.URL)
	if err != nil {
		p.Fatalf("%v", err)
	}
	return u.Scheme + "://" + u.Host + "/.well-known/oauth-protected-resource" + u.EscapedPath()
}

func discoveryDocument(ctx context.Context, p *Probe) {
	a := p.do(ctx, http.MethodGet, p.metadataURL(), head("Origin", "https://any.example"), "")
	if !p.wantStatus(a, http.StatusOK, "the document") {
		return
	}
	if ct := a.header.Get("Content-Type"); ct != "application/json" {
		p.Errorf("Content-Type %q, want application/json", ct)
	}
	var doc struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Methods  []string `json:"bearer_methods_supported"`
		Types    []string `json:"authorization_details_types_supported"`
		Cookie   string   `json:"mercure_cookie"`
		Matchers []string `json:"mercure_matcher_types_supported"`
		Presence any      `json:"mercure_subscriptions"`
	}
	if err := json.Unmarshal([]byte(a.body), &doc); err != nil {
		p.Fatalf("%v in %.200q", err, a.body)
	}
	if doc.Resource != p.Resource {
		p.Errorf("DIS-04: resource %q, want %q", doc.Resource, p.Resource)
	}
	if !slices.Equal(doc.Methods, []string{"header"}) || !slices.Equal(doc.Types, []string{spec.AuthorizationDetailType}) {
		p.Errorf("DIS-05: bearer_methods_supported %q, authorization_details_types_supported %q", doc.Methods, doc.Types)
	}
	if doc.Cookie != spec.CookieDraft08 {
		p.Errorf("DIS-05: mercure_cookie %q, want %q", doc.Cookie, spec.CookieDraft08)
	}
	for _, t := range doc.Matchers {
		if t != "exact" && t != "urlpattern" {
			p.Errorf("MAT-18: the matcher type %q is advertised, which these cases do not know", t)
		}
	}
	if on := doc.Presence != nil && doc.Presence != false; on != p.Subscriptions {
		p.Errorf("DIS-05: mercure_subscriptions %v, want it to say %v", doc.Presence, p.Subscriptions)
	}
	head := p.do(ctx, http.MethodHead, p.metadataURL(), nil, "")
	p.wantStatus(head, http.StatusOK, "HEAD")
	p.wantStatus(p.do(ctx, http.MethodPost, p.metadataURL(), nil, ""), http.StatusMethodNotAllowed, "POST")
}

func discoveryChallenge(ctx context.Context, p *Probe) {
	seen := ""
	for _, r := range p.refusals() {
		if r.code == "-" {
			continue
		}
		challenge := r.ask(ctx, p, nil).header.Get("WWW-Authenticate")
		_, rest, ok := strings.Cut(challenge, `resource_metadata="`)
		where, _, closed := strings.Cut(rest, `"`)
		u, err := url.Parse(where)
		if !ok || !closed || err != nil || !u.IsAbs() || !strings.HasPrefix(u.Path, "/.well-known/oauth-protected-resource") {
			p.Errorf("%s: WWW-Authenticate %q lacks an absolute resource_metadata", r.what, challenge)
			continue
		}
		if seen != "" && where != seen {
			p.Errorf("%s: resource_metadata %q, elsewhere %q", r.what, where, seen)
		}
		seen = where
	}
}

func discoveryNone(ctx context.Context, p *Probe) {
	if !p.NoIssuers {
		p.Skipf("needs a hub that is said to have no issuers")
	}
	p.wantStatus(p.do(ctx, http.MethodGet, p.metadataURL(), nil, ""), http.StatusNotFound, "the document")
	for _, r := range p.refusals() {
		if c := r.ask(ctx, p, nil).header.Get("WWW-Authenticate"); strings.Contains(c, "resource_metadata") {
			p.Errorf("%s: WWW-Authenticate %q names metadata that does not exist", r.what, c)
		}
	}
	for _, key := range []string{p.PublisherKey, p.SubscriberKey} {
		c := p.full()
		c["iss"] = "https://issuer.example"
		p.tokenIs(ctx, http.StatusUnauthorized, "an at+jwt token", p.sign(tokenSpec{key: key, claims: c, jose: map[string]any{"typ": spec.TokenTypeDraft08}}))
	}
	topic := p.topic("a/1")
	s := p.subscribe(ctx, form("match_urlpattern", p.topic("a/:x")), bearer(p.subscriber(topic)))
	p.publish(ctx, "topic", topic, "data", "x", "private", "on")
	s.want("x")
}

func strictCases() []Case {
	return []Case{
		{"strict/parameters", []string{"G-22", "G-10", "REC-02"}, "A hub of draft-08 alone refuses topic and ignores the older cursors.", strictParameters, OfDraft08},
		{"strict/tokens", []string{"G-22", "G-05", "G-06"}, "It takes no classic token, cookie or parameter.", strictTokens, OfDraft08},
		{"strict/subscriptions", []string{"G-22", "G-16", "G-17", "ACT-16"}, "It has the subscription API of draft-08 alone.", strictSubscriptions, OfDraft08},
	}
}

func (p *Probe) needStrict() {
	if !p.NoClassic {
		p.Skipf("needs a hub that is said to serve draft-08 alone")
	}
}

func strictParameters(ctx context.Context, p *Probe) {
	p.needStrict()
	topic := p.topic("a")
	h := bearer(p.subscriber())
	p.wantStatus(p.get(ctx, form("topic", topic), h), http.StatusBadRequest, "topic")
	p.wantStatus(p.get(ctx, form("match", topic, "topic", topic), h), http.StatusBadRequest, "match and topic")
	p.wantStatus(p.asked(ctx, form("match", topic), form("topic", topic), h), http.StatusBadRequest, "topic in the body")
	id := p.publish(ctx, "topic", topic, "data", "old")
	for i, name := range []string{"lastEventID", "Last-Event-ID", "Last-Event-Id", "last-event-id"} {
		s := p.subscribe(ctx, form("match", topic, name, id), h)
		s.wantCursor("", name)
		p.publish(ctx, "topic", topic, "data", fmt.Sprint(i))
		if e := s.next(); e.data != fmt.Sprint(i) {
			p.Errorf("%s: got %q, want the live update alone", name, e.data)
		}
		s.Close()
	}
	s := p.subscribe(ctx, form("match", topic), merged(h, head(spec.HeaderLastEventID, id)))
	if old := s.header.Values(spec.HeaderLastEventID); old != nil {
		p.Errorf("the older header is sent: %q", old)
	}
	if got := s.header.Get(spec.HeaderMercureLastEventID); got != id {
		p.Errorf("%s %q, want %q", spec.HeaderMercureLastEventID, got, id)
	}
}

func strictTokens(ctx context.Context, p *Probe) {
	p.needStrict()
	topic := p.topic("a")
	mercure := map[string]any{"publish": []string{"*"}, "subscribe": []string{"*"}}
	keys := map[string]tokenSpec{"the issuer's key": {key: p.IssuerKey, method: p.issuerMethod()}}
	if p.PublisherKey != "" {
		keys["the publisher's key"] = tokenSpec{key: p.PublisherKey}
	}
	if p.SubscriberKey != "" {
		keys["the subscriber's key"] = tokenSpec{key: p.SubscriberKey}
	}
	for what, s := range keys {
		p.tokenIs(ctx, http.StatusUnauthorized, "a classic token with "+what, p.sign(s.with(spec.ClaimMercure, mercure)))
	}
	query := form("match", topic)
	p.noToken(ctx, topic, "the classic cookie", func() *stream {
		return p.open(ctx, query, head("Cookie", spec.CookieClassic+"="+p.subscriber(topic)))
	})
	p.noToken(ctx, topic, "the classic parameter", func() *stream {
		return p.open(ctx, query+"&"+form("authorization", p.sign(keys["the issuer's key"].with(spec.ClaimMercure, mercure))), nil)
	})
}

func strictSubscriptions(ctx context.Context, p *Probe) {
	p.needStrict()
	p.needSubscriptions()
	all := p.listURL()
	a := p.do(ctx, http.MethodGet, all, merged(bearer(p.subscriber("*")), head("Accept", "application/ld+json")), "")
	if p.wantStatus(a, http.StatusOK, "the collection"); !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") || strings.Contains(a.body, "@context") {
		p.Errorf("the collection is %q: %.200q", a.header.Get("Content-Type"), a.body)
	}
	for _, u := range []string{p.listURL(p.topic("a")), p.listURL(p.topic("a"), "urn:uuid:1")} {
		p.wantStatus(p.do(ctx, http.MethodGet, u, bearer(p.subscriber("*")), ""), http.StatusNotFound, "a classic path")
	}
}
