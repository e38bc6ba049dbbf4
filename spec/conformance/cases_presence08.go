package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
)

func presence08Cases() []Case {
	return []Case{
		{"subscription/events", []string{"ACT-02", "ACT-04", "ACT-05", "ACT-07", "ACT-08", "ACT-10", "SSE-W13", "SUB-20"}, "A private event of the type mercure tells of each subscription at its beginning and at its end.", subscriptionEvents, OfDraft08},
		{"subscription/documents", []string{"ACT-13", "ACT-16", "ACT-18", "ACT-21", "ACT-22"}, "Collections and single subscriptions are plain JSON.", subscriptionDocuments, OfDraft08},
		{"subscription/link", []string{"ACT-20", "ACT-25"}, "The cursor of a list is in its Link field, which scripts may read, and resumes without a gap.", subscriptionLink, OfDraft08},
		{"subscription/payload", []string{"ACT-30", "D08-19", "D08-11"}, "The payload is that of the first detail whose topics match the matcher itself.", subscriptionPayload, OfDraft08},
		{"subscription/authorization", []string{"ACT-14", "ERR-01", "ERR-03"}, "A list needs a grant for the path as it was sent, without the query.", subscriptionAuthorization, OfDraft08},
		{"subscription/paths", []string{"ACT-26", "ACT-27"}, "An unknown matcher type is 404, a bad escape 400.", subscriptionPaths, OfDraft08},
		{"subscription/validators", []string{"ACT-24"}, "A list that has not changed is 304.", subscriptionValidators, OfDraft08},
		{"subscription/own-form", []string{"G-15", "ACT-08", "ACT-09"}, "Each subscription is told of once, in the form of its own generation.", subscriptionOwnForm, OfBoth},
		{"subscription/one-path-two-forms", []string{"G-16", "G-17"}, "The path decides between the forms, then the token; each lists its own generation.", subscriptionForms, OfBoth},
	}
}

// subscription08 is a member of a list of draft-08, or an event.
type subscription08 struct {
	Context    any             `json:"@context"`
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	MatchType  string          `json:"match_type"`
	Match      string          `json:"match"`
	Subscriber string          `json:"subscriber"`
	Active     *bool           `json:"active"`
	Payload    json.RawMessage `json:"payload"`
}

type collection08 struct {
	Context       any              `json:"@context"`
	ID            string           `json:"id"`
	Type          string           `json:"type"`
	LastEventID   any              `json:"lastEventID"`
	Subscriptions []subscription08 `json:"subscriptions"`
}

// eventsOf is a pattern of the topics of a matcher's subscription events.
func (p *Probe) eventsOf(matchType, match string) string {
	return p.hubPath() + "/subscriptions/" + matchType + "/" + upperEscaped(match) + "/" + draft08.any
}

// watch08 subscribes to the events of a matcher's subscriptions.
func (p *Probe) watch08(ctx context.Context, matchType, match string) *stream {
	pattern := p.eventsOf(matchType, match)
	return p.subscribe(ctx, p.topics(pattern), bearer(p.subscriber(pattern)))
}

// told08 returns the next event as the subscription that it tells of.
func (s *stream) told08(active bool) subscription08 {
	e := s.next()
	if e.typ != spec.TypeMercure {
		s.p.Errorf("ACT-08: the event has the type %q, want mercure", e.typ)
	}
	var doc subscription08
	if err := json.Unmarshal([]byte(e.data), &doc); err != nil {
		s.p.Fatalf("%v in %.200q", err, e.data)
	}
	if doc.Active == nil || *doc.Active != active || doc.Context != nil || doc.Type != "subscription" || strings.Contains(e.data, "lastEventID") {
		s.p.Errorf("the event is %s, want one with active %v", e.data, active)
	}
	return doc
}

func subscriptionEvents(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	for matchType, match := range map[string]string{"exact": p.topic("a b/é/{x}?y=1&z#100%"), "urlpattern": p.topic("rooms/:id(\\d+)")} {
		name := map[string]string{"exact": "match", "urlpattern": "match_urlpattern"}[matchType]
		w := p.watch08(ctx, matchType, match)
		one := p.subscribe(ctx, form(name, match, name, match, "match", p.topic("other")), bearer(p.subscriber()))
		begin := w.told08(true)
		two := p.subscribe(ctx, form(name, match), bearer(p.subscriber()))
		again := w.told08(true) // and not a second event of the repeated matcher
		one.Close()
		end := w.told08(false)
		two.Close()
		w.told08(false)
		if begin.MatchType != matchType || begin.Match != match || !uuid4.MatchString(begin.Subscriber) || again.Subscriber == begin.Subscriber {
			p.Errorf("ACT-07: the events are %+v and %+v", begin, again)
		}
		if want := p.hubPath() + "/subscriptions/" + matchType + "/" + upperEscaped(match) + "/" + upperEscaped(begin.Subscriber); begin.ID != want {
			p.Errorf("ACT-04, ACT-05: the id is %q, want %q", begin.ID, want)
		}
		if end.ID != begin.ID || end.Subscriber != begin.Subscriber || end.Match != match {
			p.Errorf("ACT-02: %s began, %s ended", begin.ID, end.ID)
		}
		w.Close()
	}
	w := p.watch08(ctx, "exact", p.topic("c"))
	p.subscribe(ctx, form("match_exact", p.topic("c")), bearer(p.subscriber()))
	if doc := w.told08(true); doc.MatchType != "exact" {
		p.Errorf("match_exact is told of as %+v", doc)
	}
}

func subscriptionDocuments(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	pattern := p.topic("a b/:x")
	w := p.watch08(ctx, "urlpattern", pattern)
	s := p.subscribe(ctx, form("match_urlpattern", pattern), bearer(p.subscriber()))
	doc := w.told08(true)
	token := bearer(p.subscriber("*"))
	for what, segments := range map[string][]string{"all": nil, "of a matcher": {"urlpattern", pattern}, "one": {"urlpattern", pattern, doc.Subscriber}} {
		a := p.do(ctx, http.MethodGet, p.listURL(segments...), token, "")
		if !p.wantStatus(a, http.StatusOK, "%s", what) {
			continue
		}
		if ct := a.header.Get("Content-Type"); ct != "application/json" {
			p.Errorf("ACT-16: %s: Content-Type %q", what, ct)
		}
		if len(segments) == 3 {
			var one subscription08
			if err := json.Unmarshal([]byte(a.body), &one); err != nil || one.ID != doc.ID || one.Context != nil || one.Type != "subscription" || one.Payload != nil {
				p.Errorf("ACT-18: %s: %v in %.300q", what, err, a.body)
			}
			continue
		}
		var c collection08
		want := p.hubPath() + listPath(segments...)
		if err := json.Unmarshal([]byte(a.body), &c); err != nil || c.Context != nil || c.LastEventID != nil || c.Type != "subscriptions" || c.ID != want {
			p.Errorf("ACT-18: %s: %v, want the id %q in %.300q", what, err, want, a.body)
		}
		i := slices.IndexFunc(c.Subscriptions, func(s subscription08) bool { return s.ID == doc.ID })
		if i < 0 || c.Subscriptions[i].Match != pattern || c.Subscriptions[i].Active == nil || len(segments) == 2 && len(c.Subscriptions) != 1 {
			p.Errorf("ACT-18: %s: %s is not there as it should: %.300q", what, doc.ID, a.body)
		}
	}
	nobody := p.do(ctx, http.MethodGet, p.listURL("exact", p.topic("nobody")), token, "")
	var c collection08
	if err := json.Unmarshal([]byte(nobody.body), &c); err != nil || c.Subscriptions == nil || len(c.Subscriptions) > 0 {
		p.Errorf("ACT-18: the list of nobody is %.200q, want an empty array", nobody.body)
	}
	p.wantStatus(p.do(ctx, http.MethodGet, p.listURL("exact", pattern, doc.Subscriber), token, ""), http.StatusNotFound, "the other matcher type")
	s.Close()
	w.told08(false)
	p.wantStatus(p.do(ctx, http.MethodGet, p.listURL("urlpattern", pattern, doc.Subscriber), token, ""), http.StatusNotFound, "one that has ended")
}

// linked takes the cursor out of the Link field that leads to the hub.
func (p *Probe) linked(a answer) (cursor string) {
	for _, link := range a.header.Values("Link") {
		target, params, ok := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		if !ok || !strings.Contains(params, `rel="mercure"`) {
			continue
		}
		if u, err := url.Parse(target); err != nil || u.Path != p.hubPath() {
			p.Errorf("ACT-20: Link leads to %q, want the hub", target)
		}
		for _, want := range []string{`type="mercure"`, `content-type="application/json"`} {
			if !strings.Contains(params, want) {
				p.Errorf("ACT-20: Link %q lacks %s", link, want)
			}
		}
		_, value, ok := strings.Cut(params, `last-event-id="`)
		if !ok {
			p.Fatalf("ACT-20: Link %q has no last-event-id", link)
		}
		var b strings.Builder
		for i := 0; i < len(value) && value[i] != '"'; i++ {
			if value[i] == '\\' && i+1 < len(value) {
				i++
			}
			b.WriteByte(value[i])
		}
		return b.String()
	}
	p.Fatalf("ACT-20: no Link to the hub: %q", a.header.Values("Link"))
	return ""
}

func subscriptionLink(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	match := p.topic("a")
	w := p.watch08(ctx, "exact", match)
	stays := p.subscribe(ctx, form("match", match), bearer(p.subscriber()))
	first := w.told08(true)
	h := bearer(p.subscriber("*"))
	if p.AllowOrigin != "" {
		h.Set("Origin", p.AllowOrigin)
	}
	a := p.do(ctx, http.MethodGet, p.listURL("exact", match), h, "")
	if exposed := strings.ToLower(strings.Join(a.header.Values("Access-Control-Expose-Headers"), ",")); p.AllowOrigin != "" && !containsToken(exposed, "link") {
		p.Errorf("ACT-25: Access-Control-Expose-Headers %q lacks Link", exposed)
	}
	cursor := p.linked(a)
	p.subscribe(ctx, form("match", match), bearer(p.subscriber()))
	second := w.told08(true)
	stays.Close()
	w.told08(false)
	pattern := p.eventsOf("exact", match)
	s := p.subscribe(ctx, p.topics(pattern)+"&"+form("last_event_id", cursor), bearer(p.subscriber(pattern)))
	s.wantCursor(cursor, "the cursor of the list")
	if doc := s.told08(true); doc.ID != second.ID {
		p.Errorf("the first event after the list tells of %s, want %s", doc.ID, second.ID)
	}
	if doc := s.told08(false); doc.ID != first.ID {
		p.Errorf("the second event after the list tells of %s, want %s", doc.ID, first.ID)
	}

	odd := p.nonce + ` "quoted" \ , ; <>`
	for end := p.within(); ; { // until nothing else was dispatched in between
		p.publish(ctx, "topic", p.topic("odd"), "id", odd)
		if got := p.linked(p.do(ctx, http.MethodGet, p.listURL("exact", match), bearer(p.subscriber("*")), "")); got == odd {
			return
		}
		if time.Now().After(end) {
			p.Fatalf("ACT-20: an id with quotes is not in Link")
		}
	}
}

func subscriptionPayload(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	a, b, c := p.topic("a"), p.topic("b/1"), p.topic("b/:x")
	entry := func(payload any, matchers ...any) any { return detail("subscribe", payload, matchers...)[0] }
	m := func(match string) any { return map[string]any{"match": match} }
	token := p.sign(p.issuedSpec(p.issued(
		detail("publish", map[string]any{"n": "publish"}, m("*"))[0],
		entry(map[string]any{"n": "first"}, m(p.topic("x")), m(a)),
		entry(nil, m(p.topic("none"))),
		entry(map[string]any{"n": "pattern"}, map[string]any{"match": c, "match_type": "urlpattern"}),
		entry(map[string]any{"n": "all"}, m("*")),
	)))
	for match, want := range map[string]string{
		form("match", a): "first", form("match", b): "pattern", form("match_urlpattern", c): "pattern",
		form("match", p.topic("z")): "all", form("match", p.topic("none")): "", form("match_urlpattern", p.topic("z/:y")): "all",
	} {
		name, value, _ := strings.Cut(match, "=")
		pattern, _ := url.QueryUnescape(value)
		matchType := map[string]string{"match": "exact", "match_urlpattern": "urlpattern"}[name]
		w := p.watch08(ctx, matchType, pattern)
		s := p.subscribe(ctx, match, bearer(token))
		doc := w.told08(true)
		var payload struct{ N string }
		if doc.Payload != nil {
			if err := json.Unmarshal(doc.Payload, &payload); err != nil {
				p.Errorf("%s: payload %s: %v", match, doc.Payload, err)
			}
		}
		if payload.N != want || (want == "") != (doc.Payload == nil) {
			p.Errorf("%s: payload %s, want %q", match, doc.Payload, want)
		}
		s.Close()
		w.Close()
	}
}

func subscriptionAuthorization(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	match := p.topic("a b")
	base := p.hubPath() + "/subscriptions"
	own := base + "/exact/" + upperEscaped(match)
	for _, c := range []struct {
		matchType, grant, url string
		status                int
	}{
		{"exact", "*", p.listURL(), 200},
		{"exact", base, p.listURL(), 200},
		{"exact", base, p.listURL() + "?x=1", 200},
		{"exact", base, p.listURL("exact", match), 403},
		{"exact", own, p.listURL("exact", match), 200},
		{"exact", own, p.listURL(), 403},
		{"exact", match, p.listURL("exact", match), 403},
		{"urlpattern", base + "{/*}?", p.listURL(), 200},
		{"urlpattern", base + "{/*}?", p.listURL("exact", match), 200},
		{"urlpattern", base + "/*", p.listURL(), 403},
		{"urlpattern", base + "/exact/:match", p.listURL("exact", match), 200},
		{"urlpattern", base + "/exact/:match", p.listURL("urlpattern", match), 403},
	} {
		token := p.sign(p.issuedSpec(p.issued(detail("subscribe", nil, map[string]any{"match": c.grant, "match_type": c.matchType})...)))
		a := p.do(ctx, http.MethodGet, c.url, bearer(token), "")
		if p.wantStatus(a, c.status, "grant %s %q for %q", c.matchType, c.grant, c.url) && c.status == http.StatusForbidden {
			p.wantChallenge(a, "insufficient_scope", c.grant)
		}
	}
	a := p.do(ctx, http.MethodGet, p.listURL("exact", match), nil, "")
	if p.wantStatus(a, http.StatusUnauthorized, "without a token") {
		p.wantChallenge(a, "", "without a token")
	}
	p.wantStatus(p.do(ctx, http.MethodGet, p.listURL()+"?"+form("access_token", p.subscriber("*")), nil, ""), http.StatusUnauthorized, "access_token")
	p.wantStatus(p.do(ctx, http.MethodGet, p.listURL(), p.cookie(p.subscriber("*")), ""), http.StatusOK, "by cookie")
}

func subscriptionPaths(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	for path, status := range map[string]int{
		"/exact/a": 200, "/urlpattern/a": 200, "/Exact/a/b": 404, "/regexp/a/b": 404, "/exact/a/b": 404, "/exact/a/b/c": 404,
		"/exact/%zz": 400, "/exact/a/%4": 400, "/%/a/b": 400,
	} {
		c := p.dial(ctx)
		c.send("GET " + c.path + "/subscriptions" + path + " HTTP/1.1\r\nHost: " + c.host + "\r\nAuthorization: Bearer " + p.subscriber("*") + "\r\nConnection: close\r\n\r\n")
		if h := c.readHead(); h.status != status {
			p.Errorf("%q: status %d, want %d", path, h.status, status)
		}
		_ = c.Close()
	}
}

func subscriptionValidators(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	match := p.topic("a")
	for end := p.within(); ; {
		h := bearer(p.subscriber("*"))
		first := p.do(ctx, http.MethodGet, p.listURL("exact", match), h, "")
		tag := first.header.Get("ETag")
		if !strings.Contains(first.header.Get("Cache-Control"), "must-revalidate") || len(tag) < 3 {
			p.Fatalf("ETag %q, Cache-Control %q", tag, first.header.Get("Cache-Control"))
		}
		h.Set("If-None-Match", tag)
		a := p.do(ctx, http.MethodGet, p.listURL("exact", match), h, "")
		if a.status == http.StatusNotModified {
			return
		}
		if a.header.Get("ETag") == tag || time.Now().After(end) {
			p.Fatalf("status %d for the validator %q of an answer that has it", a.status, tag)
		}
	}
}

func subscriptionOwnForm(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	topic := p.topic("a")
	old := p.hubPath() + "/subscriptions/" + escaped(topic) + "{/subscriber}"
	query := form("topic", old, "match_urlpattern", p.eventsOf("exact", topic), "match", p.topic("sentinel"))
	w := p.subscribe(ctx, query, bearer(p.subscriber("*")))
	for _, c := range []struct {
		param string
		told  func(bool) string
	}{
		{"topic", func(active bool) string { return w.told(active).ID }},
		{"match", func(active bool) string { return w.told08(active).ID }},
	} {
		s := p.subscribe(ctx, form(c.param, topic), bearer(p.subscriber()))
		id := c.told(true)
		s.Close()
		if end := c.told(false); end != id {
			p.Errorf("%s: %s began, %s ended", c.param, id, end)
		}
		p.publish(ctx, "topic", p.topic("sentinel"), "data", "no other event of "+c.param)
		w.want("no other event of " + c.param)
	}
	s := p.subscribe(ctx, form("topic", topic, "match", topic), bearer(p.subscriber())) // two subscriptions, one of each
	defer s.Close()
	var kinds []string
	for range 2 {
		kinds = append(kinds, w.next().typ)
	}
	if slices.Sort(kinds); !slices.Equal(kinds, []string{"", spec.TypeMercure}) {
		p.Errorf("a connection with topic and match is told of with the types %q", kinds)
	}
}

func subscriptionForms(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	topic := p.topic("a")
	old := p.hubPath() + "/subscriptions/" + escaped(topic) + "{/subscriber}"
	w := p.subscribe(ctx, form("topic", old), bearer(p.subscriber("*")))
	w08 := p.watch08(ctx, "exact", topic)
	tokens := map[string]http.Header{}
	p.each(func(g *generation) { tokens[g.name] = bearer(p.subscriber("*")) })
	p.subscribe(ctx, form("topic", topic), bearer(p.subscriber()))
	p.subscribe(ctx, form("match", topic), bearer(p.subscriber()))
	classicID, draft08ID := w.told(true).ID, w08.told08(true).ID

	for _, c := range []struct {
		url, token, form string
	}{
		{p.listURL(), Classic, Classic},
		{p.listURL(), Draft08, Draft08},
		{p.listURL(topic), Classic, Classic},
		{p.listURL(topic), Draft08, Classic},
		{p.listURL("exact", topic), Classic, Draft08},
		{p.listURL("exact", topic), Draft08, Draft08},
	} {
		what := fmt.Sprintf("%s with a token of %s", c.url, c.token)
		a := p.do(ctx, http.MethodGet, c.url, tokens[c.token], "")
		if !p.wantStatus(a, http.StatusOK, "%s", what) {
			continue
		}
		want, mine, other := "application/json", draft08ID, classicID
		if c.form == Classic {
			want, mine, other = "application/ld+json", classicID, draft08ID
		}
		if ct := a.header.Get("Content-Type"); ct != want {
			p.Errorf("%s: Content-Type %q, want %q", what, ct, want)
		}
		if !strings.Contains(a.body, `"`+mine+`"`) || strings.Contains(a.body, `"`+other+`"`) {
			p.Errorf("%s: %.300q, want %s and not %s", what, a.body, mine, other)
		}
		if vary := strings.ToLower(strings.Join(a.header.Values("Vary"), ",")); c.url == p.listURL() {
			for _, name := range []string{"accept", "authorization", "cookie"} {
				if !containsToken(vary, name) {
					p.Errorf("%s: Vary %q lacks %s", what, vary, name)
				}
			}
		}
	}
	single := p.do(ctx, http.MethodGet, p.listURL("other", "urn:uuid:1"), tokens[Draft08], "")
	p.wantStatus(single, http.StatusNotFound, "two segments that name no matcher type")
}
