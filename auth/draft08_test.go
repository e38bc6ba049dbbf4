package auth_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
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

// Whose keys verify what.
//
// Covers: D08-03, D08-05, D08-06, D08-20, G-01, G-02, SEC-03, AUT-06, AUT-07.
func TestKeysVerifyTheTokensOfTheirOwnerOnly(t *testing.T) {
	t.Parallel()
	s := makeSigners()
	everything := detail(`"publish","subscribe"`, `{"match":"*"}`)
	at := func(header, secret string) string {
		claims := fmt.Sprintf(`{"iss":%q,"aud":%q,"exp":99999999999,%s}`, issuerA, hubResource, everything)
		return sign(t, header, claims, "HS256", []byte(secret))
	}
	same := func(o *auth.Options) { o.Subscriber = mustKeys(t, secretA, "") }
	for name, c := range map[string]struct {
		token  string
		act    spec.Action
		change func(*auth.Options)
		reason string // "" = accepted
	}{
		"A subscribes":                         {accessToken(t, secretA, issuerA, everything), spec.ActionSubscribe, nil, ""},
		"A publishes":                          {accessToken(t, secretA, issuerA, everything), spec.ActionPublish, nil, ""},
		"B subscribes":                         {accessToken(t, secretB, issuerB, everything), spec.ActionSubscribe, nil, ""},
		"B must not publish":                   {accessToken(t, secretB, issuerB, everything), spec.ActionPublish, nil, auth.ReasonUnverified},
		"B signs as A":                         {accessToken(t, secretB, issuerA, everything), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"A signs as B":                         {accessToken(t, secretA, issuerB, everything), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"unknown issuer":                       {accessToken(t, secretA, "https://c.example", everything), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"issuer in another spelling":           {accessToken(t, secretA, issuerA+"/", everything), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"issuer in another case":               {accessToken(t, secretA, "https://A.example", everything), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"issuer empty":                         {accessToken(t, secretA, "", everything), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"kid of the key":                       {at(`{"alg":"HS256","typ":"at+jwt","kid":"1"}`, secretA), spec.ActionSubscribe, nil, ""},
		"kid of another key":                   {at(`{"alg":"HS256","typ":"at+jwt","kid":"2"}`, secretA), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"both issuers use the kid":             {at(`{"alg":"HS256","typ":"at+jwt","kid":"1"}`, secretB), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"classic key, draft-08 token":          {at(`{"alg":"HS256","typ":"at+jwt"}`, subscriberSecret), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"classic key, type in another case":    {at(`{"alg":"HS256","typ":"Application/AT+JWT"}`, subscriberSecret), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"issuer's key, classic token":          {hs256(t, secretA, `{"mercure":{"subscribe":["*"]}}`), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"issuer's key, classic with iss":       {hs256(t, secretA, `{"iss":"https://a.example","mercure":{"subscribe":["*"]}}`), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"issuer's key, no typ":                 {at(`{"alg":"HS256"}`, secretA), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"issuer's key, an ID token":            {at(`{"alg":"HS256","typ":"JWT"}`, secretA), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"issuer's key, typ an array":           {at(`{"alg":"HS256","typ":["at+jwt"]}`, secretA), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"the last typ counts":                  {at(`{"alg":"HS256","typ":"at+jwt","typ":"JWT"}`, secretA), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"Typ is another member":                {at(`{"alg":"HS256","Typ":"at+jwt"}`, secretA), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"one key for both, draft-08":           {at(`{"alg":"HS256","typ":"at+jwt"}`, secretA), spec.ActionSubscribe, same, ""},
		"one key for both, classic":            {hs256(t, secretA, `{}`), spec.ActionSubscribe, same, ""},
		"algorithm that is not the key's":      {sign(t, `{"alg":"HS512","typ":"at+jwt"}`, `{"iss":"https://a.example"}`, "HS512", []byte(secretA)), spec.ActionSubscribe, nil, auth.ReasonAlgorithm},
		"algorithm of nobody":                  {sign(t, `{"alg":"ES256","typ":"at+jwt"}`, `{"iss":"https://a.example"}`, "ES256", s.es256), spec.ActionSubscribe, nil, auth.ReasonAlgorithm},
		"none":                                 {segment(`{"alg":"none","typ":"at+jwt"}`) + "." + segment(`{"iss":"https://a.example"}`) + ".", spec.ActionSubscribe, nil, auth.ReasonAlgorithm},
		"no issuers":                           {at(`{"alg":"HS256","typ":"at+jwt"}`, secretA), spec.ActionSubscribe, func(o *auth.Options) { o.Issuers = nil }, auth.ReasonGeneration},
		"no classic":                           {hs256(t, subscriberSecret, `{"mercure":{"subscribe":["*"]}}`), spec.ActionSubscribe, noClassic, auth.ReasonGeneration},
		"no classic, draft-08":                 {accessToken(t, secretA, issuerA, everything), spec.ActionSubscribe, noClassic, ""},
		"no classic, what is no token":         {"a.b.c", spec.ActionSubscribe, noClassic, auth.ReasonGeneration},
		"no keys of the role, draft-08":        {accessToken(t, secretA, issuerA, everything), spec.ActionPublish, func(o *auth.Options) { o.Publisher = nil }, ""},
		"no keys of the role, classic":         {hs256(t, publisherSecret, `{}`), spec.ActionPublish, func(o *auth.Options) { o.Publisher = nil }, auth.ReasonNotConfigured},
		"nobody may publish":                   {accessToken(t, secretB, issuerB, everything), spec.ActionPublish, onlyB, auth.ReasonNotConfigured},
		"claims that cannot be read":           {segment(`{"alg":"HS256","typ":"at+jwt"}`) + ".?." + segment("x"), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"issuer a number":                      {sign(t, `{"alg":"HS256","typ":"at+jwt"}`, `{"iss":7}`, "HS256", []byte(secretA)), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"Iss is another member":                {sign(t, `{"alg":"HS256","typ":"at+jwt"}`, `{"Iss":"https://a.example"}`, "HS256", []byte(secretA)), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"a line break in the claims":           {strings.Replace(accessToken(t, secretA, issuerA, everything), ".", ".\n", 1), spec.ActionSubscribe, nil, auth.ReasonUnverified},
		"claims changed to name another, by B": {swapClaims(accessToken(t, secretB, issuerB, everything), `{"iss":"https://a.example"}`), spec.ActionSubscribe, nil, auth.ReasonUnverified},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newAuth(t, func(o *auth.Options) {
				twoIssuers(t)(o)
				if c.change != nil {
					c.change(o)
				}
			})
			r := get(hubResource, bearer(c.token))
			if c.act == spec.ActionPublish {
				r = post(bearer(c.token))
			}
			g, err := j.Authorize(r, c.act)
			if c.reason == "" {
				if err != nil || g.Action != c.act {
					t.Fatalf("grant %+v, %v", g, err)
				}
				return
			}
			p := problemOf(t, err)
			if p.Reason != c.reason {
				t.Fatalf("got %s (%v), want %s", p.Reason, p, c.reason)
			}
			if told := p.Detail; p.Status == 401 && told != "algorithm not accepted" && told != "token not verified with the key for this role" {
				t.Errorf("before verification the client is told %q", told)
			}
			if strings.Contains(err.Error(), "c.example") || p.Status == 401 && p.Cause == nil {
				t.Errorf("the log is told %q", err)
			}
		})
	}
}

func noClassic(o *auth.Options) { o.NoClassic = true }

func onlyB(o *auth.Options) { o.NoClassic, o.Issuers = true, o.Issuers[1:] }

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

// Covers: SEC-09, D08-20.
func TestSetIssuersDropsWhatTheyVerified(t *testing.T) {
	t.Parallel()
	j := newAuth(t, twoIssuers(t))
	line := bearer(accessToken(t, secretA, issuerA, `"sub":"a"`))
	classic := bearer(hs256(t, subscriberSecret, `{"sub":"c"}`))
	check := func(line string) string {
		g, err := j.Authorize(get(hubResource, line), spec.ActionSubscribe)
		return outcome(t, g, err)
	}
	keysA, keysB := mustKeySet(t, nil, auth.KeySpec{Key: secretA}), mustKeySet(t, nil, auth.KeySpec{Key: secretB})
	expect := func(when, want string) {
		t.Helper()
		for range 2 {
			if got := check(line); got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		if got := check(classic); got != "c" {
			t.Errorf("%s: the classic token %q", when, got)
		}
	}
	expect("at first", "a")
	for _, change := range []struct {
		when, want string
		issuers    []auth.Issuer
	}{
		{"key replaced", auth.ReasonUnverified, []auth.Issuer{{ID: issuerA, Keys: keysB, Subscribe: true}}},
		{"key added", "a", []auth.Issuer{{ID: issuerA, Keys: mustKeySet(t, nil, auth.KeySpec{Key: secretB}, auth.KeySpec{Key: secretA}), Subscribe: true}}},
		{"issuer renamed", auth.ReasonUnverified, []auth.Issuer{{ID: issuerB, Keys: keysA, Subscribe: true}}},
		{"for publishers only", auth.ReasonUnverified, []auth.Issuer{{ID: issuerA, Keys: keysA, Publish: true}}},
		{"none", auth.ReasonGeneration, nil},
		{"back", "a", []auth.Issuer{{ID: issuerA, Keys: keysA, Subscribe: true}}},
	} {
		if err := j.SetIssuers(change.issuers); err != nil {
			t.Fatal(err)
		}
		expect(change.when, change.want)
	}
	if j.SetIssuers([]auth.Issuer{{ID: issuerA}}) == nil {
		t.Error("an issuer without keys was taken")
	}
	expect("after a refused change", "a")
	j.SetKeys(nil, mustKeys(t, subscriberSecret, ""))
	expect("after the classic keys were set", "a")
}

// Covers: D08-06, D08-20.
func TestIssuersAreChecked(t *testing.T) {
	t.Parallel()
	keys := mustKeySet(t, nil, auth.KeySpec{Key: secretA})
	file := filepath.Join(t.TempDir(), "set.json")
	write(t, file, webKeys(t, map[string]any{"kty": "oct", "k": segment(secretA)}))
	secrets := openSet(t, fileURL(file), auth.JWKSOptions{Algorithms: []string{"HS256"}})
	for _, c := range []struct {
		want, resource string
		issuers        []auth.Issuer
	}{
		{"no identifier", "r", []auth.Issuer{{Keys: keys, Publish: true}}},
		{"has no keys", "r", []auth.Issuer{{ID: "i", Publish: true}}},
		{"configured twice", "r", []auth.Issuer{{ID: "i", Keys: keys, Publish: true}, {ID: "i", Keys: keys, Subscribe: true}}},
		{"neither to publish", "r", []auth.Issuer{{ID: "i", Keys: keys}}},
		{"shared secrets", "r", []auth.Issuer{{ID: "i", Keys: secrets, Publish: true}}},
		{"resource identifier", "", []auth.Issuer{{ID: "i", Keys: keys, Publish: true}}},
	} {
		if _, err := auth.New(auth.Options{Resource: c.resource, Issuers: c.issuers}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// Covers: AUT-07, D08-05, D08-06.
func TestParseKeySet(t *testing.T) {
	t.Parallel()
	s := makeSigners()
	es := auth.KeySpec{ID: "es-1", Key: publicPEM(t, s.es256.Public()), Algorithm: "ES256"}
	rs := auth.KeySpec{ID: "rs-1", Key: publicPEM(t, s.rsa.Public()), Algorithm: "RS256"}
	hs := auth.KeySpec{Key: secretA}
	set := mustKeySet(t, []string{"ES256", "RS256", "HS256"}, es, rs, hs)
	if got := set.Algorithms(); !slices.Equal(got, []string{"ES256", "RS256", "HS256"}) || set.Warnings() != nil || set.Version() != 0 {
		t.Errorf("algorithms %v, warnings %v, version %d", got, set.Warnings(), set.Version())
	}
	for _, c := range []struct {
		alg, kid string
		want     int
	}{
		{"ES256", "", 1}, {"ES256", "es-1", 1}, {"ES256", "rs-1", 0}, {"ES256", "ES-1", 0}, {"ES256", "../../etc/passwd", 0},
		{"RS256", "rs-1", 1}, {"RS512", "rs-1", 0}, {"PS256", "", 0}, {"HS256", "", 1}, {"HS256", "any", 1}, {"HS256", "es-1", 1}, {"none", "", 0},
	} {
		if got := set.Find(t.Context(), c.alg, c.kid); len(got) != c.want {
			t.Errorf("%s %q: %d keys, want %d", c.alg, c.kid, len(got), c.want)
		}
	}
	short := auth.KeySpec{ID: "s", Key: "short"}
	if weak, err := auth.ParseKeySet("issuer", []auth.KeySpec{short}, nil, true); err != nil || len(weak.Warnings()) != 1 {
		t.Errorf("a short secret that is allowed: %v", err)
	}
	many := make([]auth.KeySpec, 65)
	for i := range many {
		many[i] = hs
	}
	for want, c := range map[string]struct {
		specs   []auth.KeySpec
		allowed []string
	}{
		"has no key":                         {[]auth.KeySpec{}, nil},
		"at most 64":                         {many, nil},
		`algorithm "none" would accept`:      {[]auth.KeySpec{es}, []string{"none"}},
		"ES256 is not one of the allowed":    {[]auth.KeySpec{es}, []string{"RS256"}},
		"another key has the same key id":    {[]auth.KeySpec{es, {ID: "es-1", Key: rs.Key, Algorithm: "RS256"}}, nil},
		`issuer: "es-1" key: a key on curve`: {[]auth.KeySpec{{ID: "es-1", Key: es.Key, Algorithm: "ES384"}}, nil},
		"issuer: 2. key: it is empty":        {[]auth.KeySpec{es, {}}, nil},
		"the secret has 5 bytes":             {[]auth.KeySpec{short}, nil},
		"would use the PEM text as a shared": {[]auth.KeySpec{{Key: es.Key}}, nil},
	} {
		_, err := auth.ParseKeySet("issuer", c.specs, c.allowed, false)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
