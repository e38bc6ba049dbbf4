package auth_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

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
		{"ES256", "", 1},
		{"ES256", "es-1", 1},
		{"ES256", "rs-1", 0},
		{"ES256", "ES-1", 0},
		{"ES256", "../../etc/passwd", 0},
		{"RS256", "rs-1", 1},
		{"RS512", "rs-1", 0},
		{"PS256", "", 0},
		{"HS256", "", 1},
		{"HS256", "any", 1},
		{"HS256", "es-1", 1},
		{"none", "", 0},
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
