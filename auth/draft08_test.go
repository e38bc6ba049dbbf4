package auth_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

const (
	hubResource = "https://hub.example.com/.well-known/mercure"
	issuerA     = "https://a.example"
	issuerB     = "https://b.example"
	secretA     = "test-only-issuer-secret-do-not-use-0000004"
	secretB     = "test-only-issuer-secret-do-not-use-0000005"
)

// twoIssuers configures A for both actions and B for subscribing; their keys have the same kid.
func twoIssuers(tb testing.TB) func(*auth.Options) {
	tb.Helper()
	return func(o *auth.Options) {
		o.Resource = hubResource
		o.Issuers = []auth.Issuer{
			{ID: issuerA, Keys: mustKeySet(tb, nil, auth.KeySpec{ID: "1", Key: secretA}), Publish: true, Subscribe: true},
			{ID: issuerB, Keys: mustKeySet(tb, nil, auth.KeySpec{ID: "1", Key: secretB}), Subscribe: true},
		}
	}
}

// accessToken signs claims, an object's members, as a draft-08 token of an issuer.
func accessToken(tb testing.TB, secret, issuer, members string) string {
	tb.Helper()
	claims := fmt.Sprintf(`{"iss":%q,"aud":%q,"exp":%d`, issuer, hubResource, time.Now().Add(time.Hour).Unix())
	if members != "" {
		claims += "," + members
	}
	return sign(tb, `{"alg":"HS256","typ":"at+jwt"}`, claims+"}", "HS256", []byte(secret))
}

// detail is the claim authorization_details with one entry for topics, a list of matchers.
func detail(actions, topics string) string {
	return `"authorization_details":[{"type":"https://mercure.rocks/authorization-detail","actions":[` + actions + `],"topics":[` + topics + `]}]`
}

func mustURL(tb testing.TB, raw string) *url.URL {
	tb.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

func bearer(token string) string { return "Authorization: Bearer " + token }

// Covers: D08-02, D08-09, D08-10, D08-11, D08-12, D08-13, D08-14, ERR-08, AUT-09, AUT-10, AUT-11, LIM-08.
func TestVerifiedDraft08TokensAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	good := fmt.Sprintf(`"iss":%q,"aud":%q,"exp":%d`, issuerA, hubResource, bubble+60)
	claims := func(members string) string { return "{" + good + "," + members + "}" }
	without := func(name string) string {
		var members map[string]any
		if err := json.Unmarshal([]byte("{"+good+"}"), &members); err != nil {
			t.Fatal(err)
		}
		delete(members, name)
		return toJSON(t, members)
	}
	for name, c := range map[string]struct{ claims, reason, text string }{
		"nothing more":               {"{" + good + "}", "", ""},
		"no exp":                     {without("exp"), auth.ReasonNoExpiry, "no exp"},
		"expired":                    {claims(fmt.Sprintf(`"exp":%d`, bubble)), auth.ReasonExpired, "expired since 2000-01-01T00:00:00Z"},
		"exp null":                   {claims(`"exp":null`), auth.ReasonClaims, "exp is not a number"},
		"not yet valid":              {claims(fmt.Sprintf(`"nbf":%d`, bubble+1)), auth.ReasonNotYetValid, "not valid before"},
		"no aud":                     {without("aud"), auth.ReasonAudience, "no audience (aud), it must be " + hubResource},
		"another aud":                {claims(`"aud":"https://other.example"`), auth.ReasonAudience, "wrong audience"},
		"aud that begins alike":      {claims(`"aud":"` + hubResource + `/x"`), auth.ReasonAudience, "wrong audience"},
		"aud in another case":        {claims(`"aud":"` + strings.ToUpper(hubResource) + `"`), auth.ReasonAudience, "wrong audience"},
		"aud of several":             {claims(`"aud":["x","` + hubResource + `"]`), "", ""},
		"aud of several others":      {claims(`"aud":["x","y"]`), auth.ReasonAudience, "wrong audience"},
		"aud of none":                {claims(`"aud":[]`), auth.ReasonAudience, "no audience"},
		"aud null":                   {claims(`"aud":null`), auth.ReasonAudience, "no audience"},
		"aud with null":              {claims(`"aud":["` + hubResource + `",null]`), auth.ReasonClaims, "aud is neither"},
		"aud with a number":          {claims(`"aud":["` + hubResource + `",7]`), auth.ReasonClaims, "aud is neither"},
		"aud an object":              {claims(`"aud":{"` + hubResource + `":1}`), auth.ReasonClaims, "aud is neither"},
		"aud in a member of its own": {strings.Replace("{"+good+"}", `"aud"`, `"AUD"`, 1), auth.ReasonAudience, "no audience"},
		"mercure is not read":        {claims(`"mercure":{"subscribe":7}`), "", ""},
		"details null":               {claims(`"authorization_details":null`), "", ""},
		"details empty":              {claims(`"authorization_details":[]`), "", ""},
		"details an object":          {claims(`"authorization_details":{}`), auth.ReasonClaims, "are not an array"},
		"no topics":                  {claims(detail(`"subscribe"`, ``)), auth.ReasonClaims, "topics are not an array of at least one matcher"},
		"the other action's pattern": {claims(detail(`"publish"`, `{"match":"https://example.com/(","match_type":"urlpattern"}`)), auth.ReasonClaims, "invalid pattern"},
		"a pattern over the limits":  {claims(detail(`"subscribe"`, `{"match":"https://example.com/`+strings.Repeat("/*", 33)+`","match_type":"urlpattern"}`)), auth.ReasonClaims, "at most 32"},
		"a match over the limits":    {claims(detail(`"subscribe"`, `{"match":"`+strings.Repeat("x", 4097)+`"}`)), "selector_too_long", "longer than 4096 bytes"},
		"claims not UTF-8":           {claims("\"x\":\"\xff\""), auth.ReasonClaims, "UTF-8"},
		"sub a number":               {claims(`"sub":7`), auth.ReasonClaims, "sub is not a string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				token := sign(t, `{"alg":"HS256","typ":"at+jwt"}`, c.claims, "HS256", []byte(secretA))
				g, err := newAuth(t, twoIssuers(t)).Authorize(get(hubResource, bearer(token)), spec.ActionSubscribe)
				if c.reason == "" {
					if err != nil || g.Topics != nil || g.Allows([]string{"x"}) || g.Dialect != "draft-08" || g.Anonymous {
						t.Fatalf("grant %+v, %v", g, err)
					}
					return
				}
				p := problemOf(t, err)
				if p.Reason != c.reason || p.Status != 401 || p.Code != "invalid_token" || !strings.Contains(p.Detail, c.text) {
					t.Errorf("got %+v, want 401 invalid_token for %s with %q", p, c.reason, c.text)
				}
			})
		})
	}
	crit := sign(t, `{"alg":"HS256","typ":"at+jwt","crit":["x"]}`, fmt.Sprintf(`{"iss":%q,"aud":%q,"exp":99999999999}`, issuerA, hubResource), "HS256", []byte(secretA))
	_, err := newAuth(t, twoIssuers(t)).Authorize(get(hubResource, bearer(crit)), spec.ActionSubscribe)
	if p := problemOf(t, err); p.Reason != auth.ReasonCritical {
		t.Errorf("crit: %+v", p)
	}
}

// What a token grants with one action it does not grant with the other, whatever is in the cache.
//
// Covers: D08-15, D08-16, G-21.
func TestDraft08Grants(t *testing.T) {
	t.Parallel()
	j := newAuth(t, func(o *auth.Options) {
		twoIssuers(t)(o)
		o.PublicURL = mustURL(t, hubResource)
	})
	token := accessToken(t, secretA, issuerA, `"sub":"ada","mercure":{"publish":["*"],"subscribe":["*"]},"authorization_details":[
		{"type":"https://mercure.rocks/authorization-detail","actions":["publish"],"topics":[{"match":"p"},{"match":"/books/:id","match_type":"urlpattern"}]},
		{"type":"payment_initiation","actions":["subscribe"],"topics":[{"match":"*"}]},
		{"type":"https://mercure.rocks/authorization-detail","actions":["subscribe","other"],"topics":[{"match":"s"},{"match":"{x}"}]}]`)
	for range 2 { // verified, then from the cache
		publish, err := j.Authorize(post(bearer(token)), spec.ActionPublish)
		if err != nil {
			t.Fatal(err)
		}
		subscribe, err := j.Authorize(get(hubResource, bearer(token)), spec.ActionSubscribe)
		if err != nil {
			t.Fatal(err)
		}
		for topics, want := range map[string][2]bool{ // publish, subscribe
			"p":                               {true, false},
			"s":                               {false, true},
			"p s":                             {false, true},
			"q":                               {false, false},
			"s q":                             {false, true},
			"{x}":                             {false, true},
			"y":                               {false, false},
			"https://hub.example.com/books/1": {true, false},
			"/books/1":                        {true, false},
			"p /books/1":                      {true, false},
			"https://example.com/books/1":     {false, false},
		} {
			list := strings.Fields(topics)
			if got := [2]bool{publish.Allows(list), subscribe.Allows(list)}; got != want {
				t.Errorf("%s: publish and subscribe %v, want %v", topics, got, want)
			}
		}
		for _, g := range []*auth.Grant{publish, subscribe} {
			if g.Subject != "ada" || g.Dialect != "draft-08" || g.Expires.IsZero() || g.Payload != nil || g.Payloads != nil {
				t.Errorf("grant %+v", g)
			}
		}
	}
	expectStats(t, j, 2, 2)
}

// The first detail for subscribers whose topics select the matcher itself counts, with a payload or without.
//
// Covers: D08-19, D08-11.
func TestPayloadsOfDetails(t *testing.T) {
	t.Parallel()
	j := newAuth(t, twoIssuers(t))
	entry := func(actions, match, kind, more string) string {
		return fmt.Sprintf(`{"type":"https://mercure.rocks/authorization-detail","actions":[%s],"topics":[{"match":%q,"match_type":%q}]%s}`, actions, match, kind, more)
	}
	token := accessToken(t, secretA, issuerA, `"authorization_details":[`+strings.Join([]string{
		entry(`"publish"`, "a", "exact", `,"payload":{"n":0}`),
		entry(`"subscribe"`, "a", "exact", `,"payload":{"n":1}`),
		entry(`"subscribe"`, "b", "exact", ``),
		entry(`"subscribe","publish"`, "https://example.com/:id", "urlpattern", `,"payload": {"n":2}`),
		entry(`"subscribe"`, "*", "exact", `,"payload":{"n":3}`),
	}, ",")+`]`)
	g, err := j.Authorize(get(hubResource, bearer(token)), spec.ActionSubscribe)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		selector topic.Selector
		want     string
	}{
		{topic.Selector{Kind: topic.Exact, Pattern: "a"}, `{"n":1}`},
		{topic.Selector{Kind: topic.Exact, Pattern: "b"}, ``},
		{topic.Selector{Kind: topic.Exact, Pattern: "c"}, `{"n":3}`},
		{topic.Selector{Kind: topic.Exact, Pattern: "*"}, `{"n":3}`},
		{topic.Selector{Kind: topic.Exact, Pattern: "https://example.com/1"}, `{"n":2}`},
		{topic.Selector{Kind: topic.URLPattern, Pattern: "https://example.com/:id"}, `{"n":2}`},
		{topic.Selector{Kind: topic.Classic, Pattern: "a"}, `{"n":1}`},
	} {
		if got := string(g.PayloadFor(c.selector)); got != c.want {
			t.Errorf("%v: payload %s, want %s", c.selector, got, c.want)
		}
	}
	if g, err = j.Authorize(post(bearer(token)), spec.ActionPublish); err != nil || g.Payloads != nil {
		t.Errorf("payloads when publishing: %+v, %v", g, err)
	}
}

// Covers: G-05, G-06, G-22, D08-17, D08-18.
func TestPlacesOfDraft08Tokens(t *testing.T) {
	t.Parallel()
	draft := accessToken(t, secretA, issuerA, `"sub":"draft"`)
	bad := accessToken(t, evilSecret, issuerA, `"sub":"bad"`)
	classic := hs256(t, subscriberSecret, `{"sub":"classic"}`)
	const newName, oldName = "__Secure-mercure_access_token=", "mercureAuthorization="
	for name, c := range map[string]struct {
		target string
		line   string
		change func(*auth.Options)
		want   string
	}{
		"the header":                           {"", bearer(draft), nil, "draft"},
		"the new cookie":                       {"", "Cookie: " + newName + draft, nil, "draft"},
		"the new cookie first":                 {"", "Cookie: " + oldName + classic + "; " + newName + draft, nil, "draft"},
		"the first found is final":             {"", "Cookie: " + oldName + classic + "; " + newName + bad, nil, auth.ReasonUnverified},
		"an empty cookie is none":              {"", "Cookie: " + newName + "; " + oldName + classic, nil, "classic"},
		"typ decides, not the cookie's name":   {"", "Cookie: " + newName + classic, nil, "classic"},
		"nor the old one's":                    {"", "Cookie: " + oldName + draft, nil, "draft"},
		"another name":                         {"", "Cookie: x=" + draft, func(o *auth.Options) { o.Draft08Cookie = "x" }, "draft"},
		"the old cookie without classic":       {"", "Cookie: " + oldName + draft, noClassic, auth.ReasonNoToken},
		"the new cookie without classic":       {"", "Cookie: " + newName + draft, noClassic, "draft"},
		"the query":                            {"?authorization=" + draft, "", nil, auth.ReasonNoToken},
		"the query, anonymous":                 {"?authorization=" + draft, "", anonymous, "anonymous"},
		"the query for everything":             {"?authorization=" + draft, "", func(o *auth.Options) { o.QueryToken = auth.QueryTokenAll }, auth.ReasonNoToken},
		"access_token":                         {"?access_token=" + draft, "", nil, auth.ReasonNoToken},
		"a classic token, query":               {"?authorization=" + classic, "", nil, "classic"},
		"a classic token, query, no classic":   {"?authorization=" + classic, "", noClassic, auth.ReasonNoToken},
		"an empty parameter without classic":   {"?authorization=", "", noClassic, auth.ReasonNoToken},
		"the query for everything, no classic": {"?authorization=" + classic, "", func(o *auth.Options) { o.NoClassic, o.QueryToken = true, auth.QueryTokenAll }, auth.ReasonNoToken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newAuth(t, func(o *auth.Options) {
				twoIssuers(t)(o)
				if c.change != nil {
					c.change(o)
				}
			})
			var lines []string
			if c.line != "" {
				lines = append(lines, c.line)
			}
			g, err := j.Authorize(get(hubResource+c.target, lines...), spec.ActionSubscribe)
			if got := outcome(t, g, err); got != c.want {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
	// Publishing with either cookie needs an origin (CORS-06).
	j := newAuth(t, twoIssuers(t))
	for line, want := range map[string]string{"": auth.ReasonOrigin, "Origin: https://hub.example.com": "draft"} {
		lines := []string{"Cookie: " + newName + draft}
		if line != "" {
			lines = append(lines, line)
		}
		g, err := j.Authorize(post(lines...), spec.ActionPublish)
		if got := outcome(t, g, err); got != want {
			t.Errorf("publishing with %q: got %q, want %q", line, got, want)
		}
	}
}
