package conformance

import (
	"context"
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
)

func errorCases() []Case {
	return []Case{
		{"error/challenge", []string{"ERR-01", "ERR-02", "ERR-03", "ERR-04", "ERR-06", "CLA-11", "G-14"}, "Every 401 and token-related 403 has a challenge with the right code.", errorChallenge, OfEach},
		{"error/no-challenge", []string{"ERR-05"}, "A malformed request is 400 without an OAuth error.", errorPlain, OfEach},
		{"error/what-is-told", []string{"ERR-08"}, "The reason is told once the token is verified, and not before; limits and fields are named.", errorTold, OfEach},
		{"error/request-id", []string{"ERR-08"}, "Every refusal carries a request id of its own.", errorRequestID, OfEach},
		{"error/format", []string{"ERR-09"}, "A problem document for those who accept it, plain text for others.", errorFormat, OfEach},
		{"error/head", []string{"ERR-10"}, "Refusals are not stored and not sniffed.", errorHead, OfEach},
		{"error/table", []string{"ERR-12", "ERR-11"}, "Each kind of refusal has its status.", errorTable, OfEach},
	}
}

// wantChallenge requires WWW-Authenticate: Bearer with this error code, none if code is empty.
func (p *Probe) wantChallenge(a answer, code, what string) {
	values := a.header.Values("WWW-Authenticate")
	if len(values) != 1 {
		p.Errorf("%s: WWW-Authenticate %q, want one challenge", what, values)
		return
	}
	scheme, params, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		p.Errorf("%s: WWW-Authenticate: %q, want the scheme Bearer", what, values[0])
	}
	if want := `error="` + code + `"`; code != "" && !strings.Contains(params, want) {
		p.Errorf("%s: WWW-Authenticate: %q, want %s", what, values[0], want)
	}
	if code == "" && strings.Contains(params, "error") {
		p.Errorf("%s: WWW-Authenticate: %q, want no error code", what, values[0])
	}
}

// refusal is one way to be refused, for the checks that hold for all of them.
type refusal struct {
	what   string
	status int
	code   string // of the challenge; "-" for no challenge, "" for one without a code
	ask    func(ctx context.Context, p *Probe, extra http.Header) answer
}

func merged(a, b http.Header) http.Header {
	m := http.Header{}
	for _, h := range []http.Header{a, b} {
		maps.Copy(m, h)
	}
	return m
}

func (p *Probe) refusals() []refusal {
	type asker = func(ctx context.Context, p *Probe, extra http.Header) answer
	publish := func(auth func(*Probe) http.Header, kv ...string) asker {
		return func(ctx context.Context, p *Probe, extra http.Header) answer {
			return p.post(ctx, merged(auth(p), extra), kv...)
		}
	}
	subscribe := func(auth func(*Probe) http.Header, query string) asker {
		return func(ctx context.Context, p *Probe, extra http.Header) answer {
			return p.get(ctx, query, merged(auth(p), extra))
		}
	}
	none := func(*Probe) http.Header { return nil }
	publisher := func(p *Probe) http.Header { return bearer(p.publisher("*")) }
	subscriber := func(p *Probe) http.Header { return bearer(p.subscriber()) }
	basic := func(*Probe) http.Header { return head("Authorization", "Basic dTpw") }
	return []refusal{
		{"publish without a token", 401, "", publish(none, "topic", "a")},
		{"publish with a bad signature", 401, "invalid_token", publish(func(p *Probe) http.Header { return bearer(spoilt(p.publisher("*"))) }, "topic", "a")},
		{"publish with an expired token", 401, "invalid_token", publish(func(p *Probe) http.Header {
			return bearer(p.sign(p.pubSpec("*").with("exp", time.Now().Add(-time.Hour).Unix())))
		}, "topic", "a")},
		{"publish with a claim of the wrong type", 401, "invalid_token", publish(func(p *Probe) http.Header {
			return bearer(p.sign(p.pubSpec().with(p.gen.claim, "x")))
		}, "topic", "a")},
		{"subscribe with a bad signature", 401, "invalid_token", subscribe(func(p *Probe) http.Header { return bearer(spoilt(p.subscriber())) }, p.topics("a"))},
		{"publish without a grant", 403, "insufficient_scope", publish(func(p *Probe) http.Header { return bearer(p.publisher("b")) }, "topic", "a")},
		{"publish with another scheme", 400, "invalid_request", publish(basic, "topic", "a")},
		{"subscribe with another scheme", 400, "invalid_request", subscribe(basic, p.topics("a"))},
		{"publish by cookie without an origin", 400, "invalid_request", publish(func(p *Probe) http.Header { return p.cookie(p.publisher("*")) }, "topic", "a")},
		{"subscribe to nothing", 400, "-", subscribe(subscriber, "")},
		{"subscribe with match", 400, "-", subscribe(subscriber, p.topics("a")+"&matchId=1")},
		{"a control character in a selector", 400, "-", subscribe(subscriber, p.topics("a")+"%00")},
		{"publish without a topic", 400, "-", publish(publisher, "data", "x")},
		{"a control character in a topic", 400, "-", publish(publisher, "topic", "a\x01")},
		{"a control character in an id", 400, "-", publish(publisher, "topic", "a", "id", "a\nb")},
		{"a reserved id", 400, "-", publish(publisher, "topic", "a", "id", "#a")},
		{"the type mercure", 400, "-", publish(publisher, "topic", "a", "type", "mercure")},
		{"a bad retry", 400, "-", publish(publisher, "topic", "a", "retry", "x")},
		{"a reserved topic", 400, "-", publish(publisher, "topic", "/.well-known/mercure/subscriptions/x")},
		{"the topic *", 400, "-", publish(publisher, "topic", "*")},
		{"a long topic", 413, "-", publish(publisher, "topic", strings.Repeat("x", 3000))},
		{"another media type", 415, "-", func(ctx context.Context, p *Probe, extra http.Header) answer {
			return p.do(ctx, http.MethodPost, "", merged(merged(publisher(p), head("Content-Type", "application/json")), extra), "{}")
		}},
		{"another method", 405, "-", func(ctx context.Context, p *Probe, extra http.Header) answer {
			return p.do(ctx, http.MethodDelete, "?"+p.topics("a"), merged(subscriber(p), extra), "")
		}},
		{"another path", 404, "-", func(ctx context.Context, p *Probe, extra http.Header) answer {
			return p.do(ctx, http.MethodGet, p.URL+"/"+p.nonce, merged(subscriber(p), extra), "")
		}},
	}
}

func errorChallenge(ctx context.Context, p *Probe) {
	for _, r := range p.refusals() {
		if r.code == "-" {
			continue
		}
		a := r.ask(ctx, p, nil)
		p.wantStatus(a, r.status, "%s", r.what)
		p.wantChallenge(a, r.code, r.what)
	}
}

func errorPlain(ctx context.Context, p *Probe) {
	for _, r := range p.refusals() {
		if r.code != "-" {
			continue
		}
		a := r.ask(ctx, p, nil)
		p.wantStatus(a, r.status, "%s", r.what)
		if v := a.header.Get("WWW-Authenticate"); strings.Contains(v, "error") {
			p.Errorf("%s: WWW-Authenticate: %s", r.what, v)
		}
	}
}

func errorTable(ctx context.Context, p *Probe) {
	for _, r := range p.refusals() {
		p.wantStatus(r.ask(ctx, p, nil), r.status, "%s", r.what)
	}
}

func errorTold(ctx context.Context, p *Probe) {
	hour := time.Hour
	past, future := time.Now().Add(-hour).Unix(), time.Now().Add(hour).Unix()
	pub := func(s tokenSpec) answer { return p.post(ctx, bearer(p.sign(s)), "topic", p.topic("a")) }
	told := func(what string, a answer, words ...string) {
		for _, w := range words {
			if !strings.Contains(strings.ToLower(a.body), strings.ToLower(w)) {
				p.Errorf("%s: %q does not tell %q", what, a.body, w)
			}
		}
	}
	told("expired", pub(p.pubSpec("*").with("exp", past)), "expired")
	told("not yet", pub(p.pubSpec("*").with("nbf", future)), "not valid")
	told("wrong shape", pub(p.pubSpec().with(p.gen.claim, "x")), p.gen.claim)
	told("no grant", pub(p.pubSpec("b")), p.topic("a"))

	strange := p.pubSpec("*").with("exp", past)
	strange.key = p.strangersKey(strange)
	for _, word := range []string{"expired", "exp"} {
		if a := pub(strange); strings.Contains(strings.ToLower(a.body), word) {
			p.Errorf("an unverified token: %q tells about its claims", a.body)
		}
	}
	h := bearer(p.publisher("*"))
	told("retry", p.post(ctx, h, "topic", "a", "retry", "x"), "retry")
	told("id", p.post(ctx, h, "topic", "a", "id", "#x"), "id")
	told("type", p.post(ctx, h, "topic", "a", "type", "mercure"), "type")
	told("topic length", p.post(ctx, h, "topic", strings.Repeat("x", 3000)), "topic", "2048")
	told("selector count", p.get(ctx, p.manyTopics(101), bearer(p.subscriber())), "100")
	told("match", p.get(ctx, p.topics("a")+"&matchId=1", bearer(p.subscriber())), "match")
}

func errorRequestID(ctx context.Context, p *Probe) {
	seen := map[string]string{}
	for _, r := range p.refusals() {
		a := r.ask(ctx, p, nil)
		id := a.header.Get(spec.HeaderRequestID)
		if id == "" {
			p.Errorf("%s: no %s", r.what, spec.HeaderRequestID)
		} else if seen[id] != "" {
			p.Errorf("%s: the request id of %s again", r.what, seen[id])
		}
		seen[id] = r.what
	}
}

func errorFormat(ctx context.Context, p *Probe) {
	for _, r := range p.refusals() {
		if r.status == http.StatusNotFound {
			continue // not the hub's own path
		}
		a := r.ask(ctx, p, head("Accept", "application/problem+json"))
		if ct, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")); ct != "application/problem+json" {
			p.Errorf("%s: Content-Type %q for one who accepts a problem document", r.what, a.header.Get("Content-Type"))
		} else {
			var doc struct {
				Status int    `json:"status"`
				Title  string `json:"title"`
				Detail string `json:"detail"`
			}
			if err := json.Unmarshal([]byte(a.body), &doc); err != nil || doc.Status != a.status || doc.Title+doc.Detail == "" {
				p.Errorf("%s: %.200q is no problem document of status %d (%v)", r.what, a.body, a.status, err)
			}
		}
		for _, accept := range []string{"text/event-stream", "*/*", ""} {
			a := r.ask(ctx, p, head("Accept", accept))
			if ct, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")); ct != "text/plain" || a.status != r.status || a.body == "" {
				p.Errorf("%s, Accept %q: status %d, Content-Type %q, body %.100q, want %d in plain text", r.what, accept, a.status, ct, a.body, r.status)
			}
		}
	}
}

func errorHead(ctx context.Context, p *Probe) {
	for _, r := range p.refusals() {
		a := r.ask(ctx, p, nil)
		if cc := a.header.Get("Cache-Control"); !strings.Contains(cc, "no-store") {
			p.Errorf("%s: Cache-Control: %q, want no-store", r.what, cc)
		}
		if v := a.header.Get("X-Content-Type-Options"); v != "nosniff" {
			p.Errorf("%s: X-Content-Type-Options: %q, want nosniff", r.what, v)
		}
	}
}
