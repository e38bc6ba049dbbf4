package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
)

func presenceCases() []Case {
	return []Case{
		{"presence/events", []string{"ACT-02", "ACT-03", "ACT-06", "ACT-09", "ACT-10", "ACT-29", "CLA-05"}, "A private update tells of each subscription at its beginning and at its end.", presenceEvents, OfClassic},
		{"presence/own", []string{"ACT-11"}, "A subscriber of its own events hears of itself, once it is listed.", presenceOwn, OfClassic},
		{"presence/escaping", []string{"ACT-05", "ACT-12"}, "Selectors are percent-encoded exactly once, and found again by that path.", presenceEscaping, OfClassic},
		{"presence/order", []string{"ACT-11", "ACT-21", "ACT-22"}, "Whoever is told of is listed, and whoever has left is not.", presenceOrder, OfClassic},
		{"presence/documents", []string{"ACT-12", "ACT-15", "ACT-17", "ACT-19"}, "The three documents of the API.", presenceDocuments, OfClassic},
		{"presence/resume", []string{"ACT-19", "REC-05"}, "A list's cursor is a point from which nothing is missed.", presenceResume, OfClassic},
		{"presence/authorization", []string{"ACT-14", "ERR-01", "ERR-03", "CLA-09"}, "A list needs a grant for the path as it was sent, without the query.", presenceAuthorization, OfClassic},
		{"presence/private", []string{"ACT-02", "SEC-06"}, "Events reach only those with a grant for them.", presencePrivate, OfClassic},
		{"presence/validators", []string{"ACT-24"}, "A list that has not changed is 304, in three spellings of the validator.", presenceValidators, OfClassic},
		{"presence/bad-path", []string{"ACT-26"}, "A bad escape in a path is 400, and a path that is none is 404.", presenceBadPath, OfClassic},
		{"presence/methods", []string{"ACT-12", "CORS-05"}, "Lists are read only.", presenceMethods, OfClassic},
	}
}

// subscription is a member of a list, or an event.
type subscription struct {
	Context     string          `json:"@context"`
	ID          string          `json:"id"`
	Type        string          `json:"type"`
	Topic       string          `json:"topic"`
	Subscriber  string          `json:"subscriber"`
	Active      *bool           `json:"active"`
	Payload     json.RawMessage `json:"payload"`
	LastEventID string          `json:"lastEventID"`
}

// collection is a list.
type collection struct {
	Context       string         `json:"@context"`
	ID            string         `json:"id"`
	Type          string         `json:"type"`
	LastEventID   string         `json:"lastEventID"`
	Subscriptions []subscription `json:"subscriptions"`
}

// needSubscriptions skips the case unless the hub keeps the list.
func (p *Probe) needSubscriptions() {
	if !p.Subscriptions {
		p.Skipf("the hub is not said to have active subscriptions")
	}
}

// hubPath is the path of the hub, as it is sent.
func (p *Probe) hubPath() string {
	u, err := url.Parse(p.URL)
	if err != nil {
		p.Fatalf("%v", err)
	}
	return u.EscapedPath()
}

// escaped is the simple string expansion of a value.
func escaped(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// listURL is a URL of the subscription API.
func (p *Probe) listURL(segments ...string) string {
	return p.URL + listPath(segments...)
}

// listPath is a path of the subscription API below the hub's.
func listPath(segments ...string) string {
	path := []string{"/subscriptions"}
	for _, s := range segments {
		path = append(path, escaped(s))
	}
	return strings.Join(path, "/")
}

// list reads the list of a selector.
func (p *Probe) list(ctx context.Context, selector string) collection {
	a := p.do(ctx, http.MethodGet, p.listURL(selector), bearer(p.subscriber("*")), "")
	var c collection
	if err := json.Unmarshal([]byte(a.body), &c); a.status != http.StatusOK || err != nil {
		p.Fatalf("the list of %q: status %d, %v: %.200q", selector, a.status, err, a.body)
	}
	return c
}

// watch subscribes to the events of a selector's subscriptions.
func (p *Probe) watch(ctx context.Context, selector string) *stream {
	pattern := p.hubPath() + "/subscriptions/" + escaped(selector) + "{/subscriber}"
	return p.subscribe(ctx, p.topics(pattern), bearer(p.subscriber(pattern)))
}

// told returns the next event as the subscription that it tells of.
func (s *stream) told(active bool) subscription {
	e := s.next()
	if e.typ != "" {
		s.p.Errorf("ACT-09: the event has the type %q", e.typ)
	}
	var doc subscription
	if err := json.Unmarshal([]byte(e.data), &doc); err != nil {
		s.p.Fatalf("%v in %.200q", err, e.data)
	}
	if doc.Active == nil || *doc.Active != active || doc.Context != "https://mercure.rocks/" || doc.Type != "Subscription" {
		s.p.Errorf("the event is %s, want one with active %v", e.data, active)
	}
	return doc
}

var uuid4 = regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func presenceEvents(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	topic, other := p.topic("room/{id}"), p.topic("other")
	w, o := p.watch(ctx, topic), p.watch(ctx, other)
	token := p.sign(tokenSpec{key: p.SubscriberKey, claims: claims{spec.ClaimMercure: map[string]any{
		"subscribe": []string{}, "payload": map[string]any{"user": []any{7, "é"}},
	}}})
	one := p.subscribe(ctx, p.topics(topic, other, topic), bearer(token))
	begin, second := w.told(true), o.told(true)
	two := p.subscribe(ctx, p.topics(topic), bearer(token))
	again := w.told(true)
	one.Close()
	end := w.told(false)
	if o.told(false).ID != second.ID || end.ID != begin.ID || end.Subscriber != begin.Subscriber {
		p.Errorf("ACT-02: %s began, %s ended", begin.ID, end.ID)
	}
	if begin.Topic != topic || second.Topic != other || begin.Subscriber != second.Subscriber || !uuid4.MatchString(begin.Subscriber) {
		p.Errorf("ACT-10: the subscriptions of one connection are %+v and %+v", begin, second)
	}
	if again.Subscriber == begin.Subscriber {
		p.Errorf("ACT-10: two connections share the id %s", again.Subscriber)
	}
	if want := p.hubPath() + "/subscriptions/" + escaped(topic) + "/" + escaped(begin.Subscriber); begin.ID != want {
		p.Errorf("ACT-03: the id is %q, want %q", begin.ID, want)
	}
	for _, doc := range []subscription{begin, second, again, end} {
		var payload struct{ User []any }
		if err := json.Unmarshal(doc.Payload, &payload); err != nil || fmt.Sprint(payload.User) != "[7 é]" {
			p.Errorf("ACT-29: payload %s (%v)", doc.Payload, err)
		}
	}
	two.Close()
	if end := w.told(false); end.ID != again.ID {
		p.Errorf("ACT-02: %s began, %s ended", again.ID, end.ID)
	}
}

func presenceOwn(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	pattern := p.hubPath() + "/subscriptions/{own}/{subscriber}{?" + p.nonce + "}"
	s := p.subscribe(ctx, p.topics(pattern), bearer(p.subscriber(pattern)))
	for { // others come and go as well
		e := s.next()
		var doc subscription
		if err := json.Unmarshal([]byte(e.data), &doc); err != nil {
			p.Fatalf("%v in %.200q", err, e.data)
		}
		if doc.Topic == pattern {
			if doc.Active == nil || !*doc.Active {
				p.Errorf("the first event of its own is %s", e.data)
			}
			return
		}
	}
}

func presenceEscaping(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	usual := p.hubPath() + "/subscriptions{/topic}{/subscriber}"
	for _, suffix := range []string{"a b", "a+b", "100%", "%20", "a%2Fb", "{id}", "é", `a"b\c`, "?x=1&y#z", "~-._!*'()", "日本"} {
		topic := p.topic(suffix)
		w := p.watch(ctx, topic)
		s := p.subscribe(ctx, p.topics(topic), bearer(p.subscriber(usual)))
		doc := w.told(true)
		if want := p.hubPath() + "/subscriptions/" + upperEscaped(topic) + "/" + upperEscaped(doc.Subscriber); doc.ID != want || doc.Topic != topic {
			p.Errorf("%q: topic %q, id %q, want %q", topic, doc.Topic, doc.ID, want)
		}
		u, err := url.Parse(p.URL)
		if err != nil {
			p.Fatalf("%v", err)
		}
		a := p.do(ctx, http.MethodGet, u.Scheme+"://"+u.Host+doc.ID, bearer(p.subscriber(usual)), "")
		p.wantStatus(a, http.StatusOK, "%q: its document", topic)
		s.Close()
		w.told(false)
		w.Close()
	}
}

// upperEscaped encodes everything but what is unreserved.
func upperEscaped(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func presenceOrder(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	topic := p.topic("a")
	w := p.watch(ctx, topic)
	token := bearer(p.subscriber("*"))
	for range 10 {
		s := p.subscribe(ctx, p.topics(topic), bearer(p.subscriber()))
		doc := w.told(true)
		p.wantStatus(p.do(ctx, http.MethodGet, p.listURL(topic, doc.Subscriber), token, ""), http.StatusOK, "a subscription that was told of")
		if c := p.list(ctx, topic); !slices.ContainsFunc(c.Subscriptions, func(s subscription) bool { return s.ID == doc.ID }) {
			p.Errorf("%s was told of and is not in the list %+v", doc.ID, c)
		}
		s.Close()
		w.told(false)
		p.wantStatus(p.do(ctx, http.MethodGet, p.listURL(topic, doc.Subscriber), token, ""), http.StatusNotFound, "a subscription that has ended")
		if c := p.list(ctx, topic); len(c.Subscriptions) > 0 {
			p.Errorf("after its end: %+v", c)
		}
	}
	p.wantStatus(p.do(ctx, http.MethodGet, p.listURL(topic, "urn:uuid:bb3de268-05b0-4c65-b44e-8f9acefc29d6"), token, ""), http.StatusNotFound, "an unknown subscription")
}

func presenceDocuments(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	topic := p.topic("a b")
	w := p.watch(ctx, topic)
	p.subscribe(ctx, p.topics(topic), bearer(p.subscriber()))
	doc := w.told(true)
	token := bearer(p.subscriber("*"))
	for what, segments := range map[string][]string{"all": nil, "of a selector": {topic}, "one": {topic, doc.Subscriber}} {
		a := p.do(ctx, http.MethodGet, p.listURL(segments...), token, "")
		if !p.wantStatus(a, http.StatusOK, "%s", what) {
			continue
		}
		if ct := a.header.Get("Content-Type"); !strings.HasPrefix(ct, "application/ld+json") {
			p.Errorf("ACT-15: %s: Content-Type %q", what, ct)
		}
		if len(segments) == 2 {
			var one subscription
			if err := json.Unmarshal([]byte(a.body), &one); err != nil || one.ID != doc.ID || one.LastEventID == "" || one.Context != doc.Context || one.Payload != nil {
				p.Errorf("ACT-19: %s: %v in %.300q", what, err, a.body)
			}
			continue
		}
		var c collection
		want := p.hubPath() + listPath(segments...)
		if err := json.Unmarshal([]byte(a.body), &c); err != nil || c.Context != "https://mercure.rocks/" || c.Type != "Subscriptions" || c.ID != want {
			p.Errorf("ACT-17: %s: %v, @context %q, type %q, id %q, want id %q", what, err, c.Context, c.Type, c.ID, want)
		}
		if c.LastEventID == "" || c.LastEventID == spec.Earliest {
			p.Errorf("ACT-19: %s: lastEventID %q", what, c.LastEventID)
		}
		i := slices.IndexFunc(c.Subscriptions, func(s subscription) bool { return s.ID == doc.ID })
		if i < 0 || c.Subscriptions[i].Topic != topic || c.Subscriptions[i].Active == nil || !*c.Subscriptions[i].Active || len(segments) == 1 && len(c.Subscriptions) != 1 {
			p.Errorf("ACT-17: %s: %s is not there as it should: %.300q", what, doc.ID, a.body)
		}
		head := p.do(ctx, http.MethodHead, p.listURL(segments...), token, "")
		if p.wantStatus(head, http.StatusOK, "HEAD %s", what); head.body != "" {
			p.Errorf("HEAD %s has a body", what)
		}
	}
	if c := p.list(ctx, p.topic("nobody")); len(c.Subscriptions) > 0 || c.Subscriptions == nil {
		p.Errorf("ACT-17: the list of nobody is %+v, want an empty array", c)
	}
}

func presenceResume(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	topic := p.topic("a")
	pattern := p.hubPath() + "/subscriptions/" + escaped(topic) + "{/subscriber}"
	w := p.watch(ctx, topic)
	stays := p.subscribe(ctx, p.topics(topic), bearer(p.subscriber()))
	first := w.told(true)
	c := p.list(ctx, topic)
	if len(c.Subscriptions) != 1 || c.Subscriptions[0].ID != first.ID {
		p.Fatalf("the list is %+v, want %s alone", c, first.ID)
	}
	comes := p.subscribe(ctx, p.topics(topic), bearer(p.subscriber()))
	second := w.told(true)
	stays.Close()
	w.told(false)

	s := p.subscribe(ctx, p.topics(pattern)+"&"+p.gen.cursor+"="+url.QueryEscape(c.LastEventID), bearer(p.subscriber(pattern)))
	s.wantCursor(c.LastEventID, "the cursor of the list")
	if doc := s.told(true); doc.ID != second.ID {
		p.Errorf("the first event after the list tells of %s, want %s", doc.ID, second.ID)
	}
	if doc := s.told(false); doc.ID != first.ID {
		p.Errorf("the second event after the list tells of %s, want %s", doc.ID, first.ID)
	}
	comes.Close()
}

func presenceAuthorization(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	topic := p.topic("a b")
	base := p.hubPath() + "/subscriptions"
	all := base + "{/topic}{/subscriber}"
	for _, c := range []struct {
		grant, url string
		status     int
	}{
		{all, p.listURL(), 200},
		{all, p.listURL() + "?x=1", 200},
		{all, p.listURL(topic), 200},
		{"*", p.listURL(topic), 200},
		{base, p.listURL(), 200},
		{base, p.listURL(topic), 403},
		{base + "/" + escaped(topic), p.listURL(topic), 200},
		{base + "/" + escaped(topic), p.listURL(topic) + "?x=1", 200},
		{base + "/" + escaped(topic), p.listURL(), 403},
		{base + "/" + topic, p.listURL(topic), 403},
		{base + "/" + escaped(topic), p.listURL() + "/%68" + escaped(topic)[1:], 403}, // another spelling of the same
		{topic, p.listURL(topic), 403},
	} {
		a := p.do(ctx, http.MethodGet, c.url, bearer(p.subscriber(c.grant)), "")
		if p.wantStatus(a, c.status, "grant %q for %q", c.grant, c.url) && c.status == 403 && !strings.Contains(a.header.Get("WWW-Authenticate"), "insufficient_scope") {
			p.Errorf("ERR-03: challenge %q", a.header.Get("WWW-Authenticate"))
		}
	}
	for _, u := range []string{p.listURL(), p.listURL(topic), p.listURL(topic, "urn:uuid:1")} {
		a := p.do(ctx, http.MethodGet, u, nil, "")
		if ch := a.header.Get("WWW-Authenticate"); p.wantStatus(a, http.StatusUnauthorized, "without a token") && (!strings.HasPrefix(ch, "Bearer") || strings.Contains(ch, "error=")) {
			p.Errorf("ERR-01: challenge %q", ch)
		}
		p.wantStatus(p.do(ctx, http.MethodGet, u, bearer(p.publisher("*")+"x"), ""), http.StatusUnauthorized, "with a bad token")
		p.wantStatus(p.do(ctx, http.MethodGet, u, bearer(p.subscriber()), ""), http.StatusForbidden, "with a token that grants nothing")
	}
	a := p.do(ctx, http.MethodGet, p.listURL(topic)+"?authorization="+p.subscriber("*"), nil, "")
	if p.wantStatus(a, http.StatusOK, "with the token in the query"); !strings.Contains(a.header.Get("Cache-Control"), "private") {
		p.Errorf("CLA-09: Cache-Control %q", a.header.Get("Cache-Control"))
	}
	cookie := head("Cookie", spec.CookieClassic+"="+p.subscriber("*"))
	p.wantStatus(p.do(ctx, http.MethodGet, p.listURL(topic), cookie, ""), http.StatusOK, "with the token in the cookie")
}

func presencePrivate(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	topic := p.topic("a")
	pattern := p.hubPath() + "/subscriptions/" + escaped(topic) + "{/subscriber}"
	w := p.watch(ctx, topic)
	other := p.subscribe(ctx, p.topics(pattern, topic), bearer(p.subscriber(topic)))
	doc := w.told(true) // of the other one
	p.subscribe(ctx, p.topics(topic), bearer(p.subscriber())).Close()
	w.told(true)
	w.told(false)
	p.publish(ctx, "topic", topic, "data", "end")
	other.want("end")
	other.Close()
	if end := w.told(false); end.ID != doc.ID {
		p.Errorf("%s ended, want %s", end.ID, doc.ID)
	}
}

func presenceValidators(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	topic := p.topic("a")
	p.publish(ctx, "topic", topic, "data", "x")
	for what, spell := range map[string]func(tag string) string{
		"quoted": func(tag string) string { return tag },
		"weak":   func(tag string) string { return "W/" + tag },
		"bare":   func(tag string) string { return strings.Trim(tag, `"`) },
	} {
		p.unchanged(ctx, topic, what, spell)
	}
	a := p.do(ctx, http.MethodGet, p.listURL(topic), bearer(p.subscriber("*")), "")
	tag := a.header.Get("ETag")
	if !strings.Contains(a.header.Get("Cache-Control"), "must-revalidate") {
		p.Errorf("Cache-Control %q", a.header.Get("Cache-Control"))
	}
	p.publish(ctx, "topic", topic, "data", "y")
	h := bearer(p.subscriber("*"))
	h.Set("If-None-Match", tag)
	p.wantStatus(p.do(ctx, http.MethodGet, p.listURL(topic), h, ""), http.StatusOK, "after another update")
}

// unchanged asks for a list twice in a row, until nobody else has published in between.
func (p *Probe) unchanged(ctx context.Context, topic, what string, spell func(string) string) {
	for end := p.within(); ; {
		h := bearer(p.subscriber("*"))
		tag := p.do(ctx, http.MethodGet, p.listURL(topic), h, "").header.Get("ETag")
		if len(tag) < 3 || tag[0] != '"' || tag[len(tag)-1] != '"' {
			p.Fatalf("the ETag %q is not quoted", tag)
		}
		h.Set("If-None-Match", spell(tag))
		a := p.do(ctx, http.MethodGet, p.listURL(topic), h, "")
		if a.status == http.StatusNotModified {
			if a.body != "" || a.header.Get("ETag") != tag {
				p.Errorf("%s: 304 with ETag %q and body %.100q", what, a.header.Get("ETag"), a.body)
			}
			return
		}
		if a.header.Get("ETag") == tag || time.Now().After(end) {
			p.Errorf("%s: status %d for the validator %q of an answer that has it", what, a.status, spell(tag))
			return
		}
	}
}

func presenceBadPath(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	p.list(ctx, p.topic("a")) // a good one is answered
	for path, status := range map[string]int{"/%zz": 400, "/a/%4": 400, "/%": 400, "/a/b/c": 404, "x": 404} {
		c := p.dial(ctx)
		c.send("GET " + c.path + "/subscriptions" + path + " HTTP/1.1\r\nHost: " + c.host + "\r\nAuthorization: Bearer " + p.subscriber("*") + "\r\nConnection: close\r\n\r\n")
		if h := c.readHead(); h.status != status {
			p.Errorf("%q: status %d, want %d", path, h.status, status)
		}
		_ = c.Close()
	}
}

func presenceMethods(ctx context.Context, p *Probe) {
	p.needSubscriptions()
	for _, u := range []string{p.listURL(), p.listURL("a"), p.listURL("a", "b")} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			a := p.do(ctx, method, u, bearer(p.subscriber("*")), "")
			if allow := a.header.Get("Allow"); p.wantStatus(a, http.StatusMethodNotAllowed, "%s", method) && (!strings.Contains(allow, "GET") || strings.Contains(allow, method)) {
				p.Errorf("%s: Allow %q", method, allow)
			}
		}
	}
}
