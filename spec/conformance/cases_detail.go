package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

func detailCases() []Case {
	return []Case{
		{"detail/publish", []string{"D08-15", "D08-14", "D08-09", "AUT-10", "X-07"}, "Publishing needs the action publish on every topic.", detailPublish, OfDraft08},
		{"detail/subscribe", []string{"D08-16", "D08-10", "MAT-16"}, "A private update passes with the action subscribe on one of its topics.", detailSubscribe, OfDraft08},
		{"detail/others", []string{"D08-08", "D08-14"}, "Details of other types are ignored, whatever they look like.", detailOthers, OfDraft08},
		{"detail/shape", []string{"D08-09", "D08-10", "D08-11", "D08-12", "X-12"}, "One Mercure detail of the wrong shape refuses the whole token.", detailShape, OfDraft08},
		{"detail/caps", []string{"D08-13", "LIM-08", "LIM-06"}, "A token with too many details or topics, or too long ones, is refused.", detailCaps, OfDraft08},
	}
}

// rawDetails is a token of the issuer whose authorization_details are as they stand here.
func (p *Probe) rawDetails(details string) string {
	return p.sign(p.issuedSpec(p.issued()).with("authorization_details", json.RawMessage(details)))
}

const typeMember = `"type":"` + spec.AuthorizationDetailType + `"`

func detailPublish(ctx context.Context, p *Probe) {
	topic, other := p.topic("a/1"), p.topic("b")
	entry := func(actions, topics string) string {
		return `{` + typeMember + `,"actions":` + actions + `,"topics":` + topics + `}`
	}
	exact := fmt.Sprintf(`[{"match":%q}]`, topic)
	for what, c := range map[string]struct {
		details string
		status  int
	}{
		"exact":                   {`[` + entry(`["publish"]`, exact) + `]`, 200},
		"exact by name":           {`[` + entry(`["publish"]`, fmt.Sprintf(`[{"match":%q,"match_type":"exact"}]`, topic)) + `]`, 200},
		"a pattern":               {`[` + entry(`["publish"]`, fmt.Sprintf(`[{"match":%q,"match_type":"urlpattern"}]`, p.topic("a/:x"))) + `]`, 200},
		"a pattern taken exactly": {`[` + entry(`["publish"]`, fmt.Sprintf(`[{"match":%q}]`, p.topic("a/:x"))) + `]`, 403},
		"a template":              {`[` + entry(`["publish"]`, fmt.Sprintf(`[{"match":%q}]`, p.topic("a/{x}"))) + `]`, 403},
		"the wildcard":            {`[` + entry(`["publish"]`, `[{"match":"*"}]`) + `]`, 200},
		"the wildcard by type":    {`[` + entry(`["publish"]`, `[{"match":"*","match_type":"urlpattern"}]`) + `]`, 200},
		"the second detail":       {`[` + entry(`["subscribe"]`, exact) + `,` + entry(`["publish"]`, exact) + `]`, 200},
		"the second topic":        {`[` + entry(`["publish"]`, fmt.Sprintf(`[{"match":"x"},{"match":%q}]`, topic)) + `]`, 200},
		"unknown actions as well": {`[` + entry(`["read","publish","PUBLISH"]`, exact) + `]`, 200},
		"unknown actions alone":   {`[` + entry(`["read","Publish"]`, exact) + `]`, 403},
		"subscribe alone":         {`[` + entry(`["subscribe"]`, exact) + `]`, 403},
		"another topic":           {`[` + entry(`["publish"]`, fmt.Sprintf(`[{"match":%q}]`, other)) + `]`, 403},
		"no details":              {`[]`, 403},
		"unknown members":         {`[{` + typeMember + `,"actions":["publish"],"topics":[{"match":"*","x":1}],"locations":["y"]}]`, 200},
	} {
		a := p.post(ctx, bearer(p.rawDetails(c.details)), "topic", topic)
		if p.wantStatus(a, c.status, "%s", what) && c.status == http.StatusForbidden {
			p.wantChallenge(a, "insufficient_scope", what)
		}
	}
	narrow := bearer(p.publisher(topic))
	p.wantStatus(p.post(ctx, narrow, "topic", topic, "topic", other), http.StatusForbidden, "an alternate without a grant")
	p.wantStatus(p.post(ctx, bearer(p.sign(p.issuedSpec(p.issued()).with("Authorization_Details", everything()))), "topic", topic), http.StatusForbidden, "the claim in capitals")
	p.wantStatus(p.post(ctx, bearer(p.sign(p.issuedSpec(p.issued()))), "topic", topic), http.StatusForbidden, "no claim")
}

func detailSubscribe(ctx context.Context, p *Probe) {
	a, b := p.topic("a/1"), p.topic("b")
	query := p.topics(p.anyBelow(p.topic("a/")), b)
	for what, c := range map[string]struct {
		matchers []any
		want     []string
	}{
		"wildcard": {[]any{map[string]any{"match": "*"}}, []string{"a", "b", "both", "public"}},
		"exact":    {[]any{map[string]any{"match": a}}, []string{"a", "both", "public"}},
		"pattern":  {[]any{map[string]any{"match": p.topic("a/*"), "match_type": "urlpattern"}}, []string{"a", "both", "public"}},
		"template": {[]any{map[string]any{"match": p.topic("a/{x}")}}, []string{"public"}},
		"two":      {[]any{map[string]any{"match": b}, map[string]any{"match": a}}, []string{"a", "b", "both", "public"}},
		"none":     {nil, []string{"public"}},
	} {
		s := p.subscribe(ctx, query, bearer(p.sign(p.issuedSpec(p.issued(detail("subscribe", nil, c.matchers...)...)))))
		p.publish(ctx, "topic", a, "data", "a", "private", "on")
		p.publish(ctx, "topic", b, "data", "b", "private", "on")
		p.publish(ctx, "topic", b, "topic", a, "data", "both", "private", "on")
		p.publish(ctx, "topic", b, "data", "public")
		for _, want := range c.want {
			if e := s.next(); e.data != want {
				p.Errorf("%s: got %q, want %q", what, e.data, want)
				break
			}
		}
		s.Close()
	}
	p.wantPublicOnly(ctx, "the action publish", p.topics(b), bearer(p.publisher("*")), b)
}

func detailOthers(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	good := `{` + typeMember + `,"actions":["publish"],"topics":[{"match":"*"}]}`
	for _, other := range []string{
		`{"type":"https://mercure.rocks/authorization-detail/","actions":"x"}`, `{"type":"https://mercure.rocks/Authorization-Detail","topics":1}`,
		`{"type":"payment","actions":1,"topics":{}}`, `{"Type":"` + spec.AuthorizationDetailType + `","actions":["publish"],"topics":[{"match":"*"}]}`,
		`{"type":1}`, `{}`,
	} {
		p.wantStatus(p.post(ctx, bearer(p.rawDetails(`[`+other+`]`)), "topic", topic), http.StatusForbidden, "%s alone", other)
		p.wantStatus(p.post(ctx, bearer(p.rawDetails(`[`+other+`,`+good+`]`)), "topic", topic), http.StatusOK, "%s before a Mercure detail", other)
	}
}

// badDetails are Mercure details of the wrong shape, without their type.
var badDetails = []string{
	``,
	`"topics":[{"match":"*"}]`,
	`"actions":["publish","subscribe"]`,
	`"actions":"publish","topics":[{"match":"*"}]`,
	`"actions":[],"topics":[{"match":"*"}]`,
	`"actions":[1],"topics":[{"match":"*"}]`,
	`"actions":["publish","subscribe",null],"topics":[{"match":"*"}]`,
	`"actions":null,"topics":[{"match":"*"}]`,
	`"actions":["publish","subscribe"],"topics":[]`,
	`"actions":["publish","subscribe"],"topics":{"match":"*"}`,
	`"actions":["publish","subscribe"],"topics":["*"]`,
	`"actions":["publish","subscribe"],"topics":[{}]`,
	`"actions":["publish","subscribe"],"topics":[{"match":1}]`,
	`"actions":["publish","subscribe"],"topics":[{"match":null}]`,
	`"actions":["publish","subscribe"],"topics":[{"Match":"*"}]`,
	`"actions":["publish","subscribe"],"topics":[{"match":"*"},null]`,
	`"actions":["publish","subscribe"],"topics":[{"match":"*","match_type":"Exact"}]`,
	`"actions":["publish","subscribe"],"topics":[{"match":"*","match_type":"regexp"}]`,
	`"actions":["publish","subscribe"],"topics":[{"match":"*","match_type":""}]`,
	`"actions":["publish","subscribe"],"topics":[{"match":"*","match_type":1}]`,
	`"actions":["publish","subscribe"],"topics":[{"match":"*"},{"match":"/(","match_type":"urlpattern"}]`,
	`"actions":["subscribe"],"topics":[{"match":"*"}],"payload":"text"`,
	`"actions":["subscribe"],"topics":[{"match":"*"}],"payload":[1]`,
	`"actions":["subscribe"],"topics":[{"match":"*"}],"payload":1`,
	`"actions":["read"],"topics":"*"`,
}

func detailShape(ctx context.Context, p *Probe) {
	good, err := json.Marshal(everything()[0])
	if err != nil {
		p.Fatalf("%v", err)
	}
	for _, bad := range badDetails {
		entry := `{` + typeMember
		if bad != "" {
			entry += `,` + bad
		}
		entry += `}`
		p.tokenIs(ctx, http.StatusUnauthorized, entry, p.rawDetails(`[`+string(good)+`,`+entry+`]`))
	}
	for _, claim := range []string{`"x"`, `1`, `true`, string(good)} {
		p.tokenIs(ctx, http.StatusUnauthorized, "authorization_details "+claim, p.rawDetails(claim))
	}
	p.tokenIs(ctx, http.StatusUnauthorized, "a payload that is no JSON", p.raw(p.issuedSpec(nil), `{"authorization_details":[`))
	p.tokenIs(ctx, http.StatusOK, "a payload that is an object", p.rawDetails(`[`+string(good)+`,{`+typeMember+`,"actions":["subscribe"],"topics":[{"match":"x"}],"payload":{"a":[1]}}]`))
}

func detailCaps(ctx context.Context, p *Probe) {
	entry := func(topics string) string {
		return `{` + typeMember + `,"actions":["publish","subscribe"],"topics":[` + topics + `]}`
	}
	list := func(n int, what string) string { return strings.TrimSuffix(strings.Repeat(what+",", n), ",") }
	all := `{"match":"*"}`
	p.tokenIs(ctx, http.StatusOK, "100 topics", p.rawDetails(`[`+entry(list(100, all))+`]`))
	p.tokenIs(ctx, http.StatusUnauthorized, "101 topics", p.rawDetails(`[`+entry(list(101, all))+`]`))
	p.tokenIs(ctx, http.StatusUnauthorized, "101 topics in two details", p.rawDetails(`[`+entry(list(50, all))+`,`+entry(list(51, all))+`]`))
	p.tokenIs(ctx, http.StatusUnauthorized, "101 details", p.rawDetails(`[`+list(101, entry(all))+`]`))
	long := strings.Repeat("x", 4096)
	p.tokenIs(ctx, http.StatusOK, "a topic of 4096 bytes", p.rawDetails(`[`+entry(all+`,{"match":"`+long+`"}`)+`]`))
	p.tokenIs(ctx, http.StatusUnauthorized, "a topic of 4097 bytes", p.rawDetails(`[`+entry(all+`,{"match":"`+long+`x"}`)+`]`))
}
