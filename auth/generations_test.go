package auth_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// draftToken is what the tests of Mint begin with.
func draftToken() auth.MintOptions {
	return auth.MintOptions{
		Generation: "draft-08", Key: secretA, Issuer: issuerA, Audience: []string{hubResource}, TTL: time.Hour,
		Details: []auth.MintDetail{{
			Actions: []spec.Action{spec.ActionSubscribe, spec.ActionPublish},
			Topics: []topic.Selector{
				{Kind: topic.Exact, Pattern: "news"}, {Kind: topic.URLPattern, Pattern: "https://example.com/:id"},
			},
			Payload: json.RawMessage(`{"a":1}`),
		}},
	}
}

// What is minted is what a hub takes, and what a report explains.
//
// Covers: D08-01, D08-02, D08-07.
func TestDraft08TokensAreMintedAndExplained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := draftToken()
		o.Subject, o.ClientID, o.KeyID = "ada", "app", "1"
		token, err := auth.Mint(o)
		if err != nil {
			t.Fatal(err)
		}
		j := newAuth(t, twoIssuers(t))
		for _, act := range []spec.Action{spec.ActionSubscribe, spec.ActionPublish} {
			if g, err := j.Authorize(get(hubResource, bearer(token)), act); err != nil || g.Holder() != (auth.Holder{Issuer: issuerA, Subject: "ada"}) {
				t.Errorf("%v: %+v, %v", act, g, err)
			}
		}
		r, err := auth.Inspect(token, auth.InspectOptions{
			Keys: mustKeySet(t, nil, auth.KeySpec{ID: "1", Key: secretA}), Issuer: issuerA, Resource: hubResource,
			Topics: []string{"news", "https://example.com/7", "other"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Verified || !r.Accepted || r.Dialect != "draft-08" || r.Issuer != issuerA || r.Client != "app" || r.Subject != "ada" ||
			!slices.Equal(r.Audience, []string{hubResource}) || !r.Expires.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("report %+v", r)
		}
		if want := []string{"news", "urlpattern:https://example.com/:id"}; !slices.Equal(r.Publish, want) || !slices.Equal(r.Subscribe, want) {
			t.Errorf("publish %q, subscribe %q", r.Publish, r.Subscribe)
		}
		if len(r.Payloads) != 1 || string(r.Payloads[0].Payload) != `{"a":1}` || r.Payload != nil {
			t.Errorf("payloads %+v", r.Payloads)
		}
		for i, want := range []string{"the selector equals the topic", "the URL pattern https://example.com/:id matches it", "none of the 2 matchers in authorization_details to publish selects it"} {
			if got := r.Topics[i].Publish.Reason; got != want {
				t.Errorf("%s: %q, want %q", r.Topics[i].Topic, got, want)
			}
		}
		text := r.String()
		for _, part := range []string{
			"dialect    draft-08: the header's typ is at+jwt; the issuer's keys", "issuer     " + issuerA, `audience   "` + hubResource + `"`,
			`payload    {"a":1} of "news", "urlpattern:https://example.com/:id"`, "accepted   yes",
		} {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing in\n%s", part, text)
			}
		}
		var claims map[string]any
		if err := json.Unmarshal(r.Claims, &claims); err != nil || len(claims["jti"].(string)) < 20 || claims["aud"] != hubResource { //nolint:forcetypeassert // minted above
			t.Errorf("claims %s", r.Claims)
		}
		if strings.Contains(text+toJSON(t, r), token) {
			t.Error("the report contains the token")
		}
	})
}

func TestInspectSaysWhatIsWrongWithADraft08Token(t *testing.T) {
	t.Parallel()
	keys := mustKeySet(t, nil, auth.KeySpec{Key: secretA})
	for name, c := range map[string]struct {
		token   string
		o       auth.InspectOptions
		problem string // "" = accepted
	}{
		"all is well":       {accessToken(t, secretA, issuerA, ""), auth.InspectOptions{Keys: keys, Issuer: issuerA, Resource: hubResource}, ""},
		"nothing to check":  {accessToken(t, secretA, issuerA, ""), auth.InspectOptions{}, ""},
		"another key":       {accessToken(t, secretB, issuerA, ""), auth.InspectOptions{Keys: keys}, "not verified: its signature does not match"},
		"another issuer":    {accessToken(t, secretA, issuerA, ""), auth.InspectOptions{Keys: keys, Issuer: issuerB}, "its issuer is not " + issuerB},
		"no issuer":         {accessToken(t, secretA, "", ""), auth.InspectOptions{Keys: keys}, "it names no issuer"},
		"another audience":  {accessToken(t, secretA, issuerA, ""), auth.InspectOptions{Keys: keys, Resource: "https://x.example"}, "wrong audience"},
		"no audience":       {accessToken(t, secretA, issuerA, `"aud":[]`), auth.InspectOptions{Keys: keys}, "it has no audience"},
		"audience a number": {accessToken(t, secretA, issuerA, `"aud":7`), auth.InspectOptions{Keys: keys}, "aud is neither"},
		"expired":           {accessToken(t, secretA, issuerA, `"exp":1`), auth.InspectOptions{Keys: keys}, "expired since 1970"},
		"a bad detail":      {accessToken(t, secretA, issuerA, detail(`"publish"`, `{}`)), auth.InspectOptions{Keys: keys}, "match is not a string"},
		"a bad pattern":     {accessToken(t, secretA, issuerA, detail(`"publish"`, `{"match":"https://example.com/(","match_type":"urlpattern"}`)), auth.InspectOptions{Keys: keys}, "invalid pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := auth.Inspect(c.token, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Dialect != "draft-08" || r.Accepted != (c.problem == "") {
				t.Errorf("%s, accepted %v: %q", r.Dialect, r.Accepted, r.Problems)
			}
			if c.problem != "" && (len(r.Problems) != 1 || !strings.Contains(r.Problems[0], c.problem)) {
				t.Errorf("problems %q, want one with %q", r.Problems, c.problem)
			}
		})
	}
	// Which validator a hub chooses is said of classic tokens, too.
	for header, why := range map[string]string{
		`{"alg":"HS256"}`:                    "the header has no typ",
		`{"alg":"HS256","typ":"JWT"}`:        "the header's typ is JWT, and only at+jwt",
		`{"alg":"HS256","typ":"dpop+jwt"}`:   "the header's typ is dpop+jwt, and only at+jwt",
		`{"alg":"HS256","typ":["at+jwt"]}`:   "only at+jwt",
		`{"alg":"HS256","TYP":"at+jwt"}`:     "the header has no typ",
		`{"alg":"HS256","typ":"not at+jwt"}`: "only at+jwt",
	} {
		r, err := auth.Inspect(sign(t, header, `{}`, "HS256", []byte(subscriberSecret)), auth.InspectOptions{Keys: mustKeys(t, subscriberSecret, "")})
		if err != nil || r.Dialect != "classic" || !r.Accepted || !strings.Contains(r.Why, why) || !strings.Contains(r.Why, "the role's key") {
			t.Errorf("%s: %s because %q, %v", header, r.Dialect, r.Why, err)
		}
	}
}

func TestMintRefusesDraft08TokensThatNoHubTakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*auth.MintOptions)
		want   string
	}{
		"as they are":            {func(*auth.MintOptions) {}, ""},
		"no details":             {func(o *auth.MintOptions) { o.Details = nil }, ""},
		"already expired":        {func(o *auth.MintOptions) { o.TTL = -time.Hour }, ""},
		"no generation":          {func(o *auth.MintOptions) { o.Generation = "1.0" }, `no generation "1.0"`},
		"classic with a detail":  {func(o *auth.MintOptions) { o.Generation = "classic" }, "belong to draft-08"},
		"classic with an issuer": {func(o *auth.MintOptions) { *o = auth.MintOptions{Key: secretA, Issuer: "i"} }, "belong to draft-08"},
		"no issuer":              {func(o *auth.MintOptions) { o.Issuer = "" }, "needs an issuer"},
		"no audience":            {func(o *auth.MintOptions) { o.Audience = nil }, "needs an audience"},
		"no expiry":              {func(o *auth.MintOptions) { o.TTL = 0 }, "until it expires"},
		"classic grants":         {func(o *auth.MintOptions) { o.Publish = []string{"*"} }, "given as details"},
		"no actions":             {func(o *auth.MintOptions) { o.Details[0].Actions = nil }, "actions are not an array of at least one"},
		"no topics":              {func(o *auth.MintOptions) { o.Details[0].Topics = nil }, "topics are not an array of at least one"},
		"a classic selector":     {func(o *auth.MintOptions) { o.Details[0].Topics[0].Kind = topic.Classic }, "neither exact nor urlpattern"},
		"a bad pattern":          {func(o *auth.MintOptions) { o.Details[0].Topics[1].Pattern = "https://example.com/(" }, "invalid pattern"},
		"a payload of no kind":   {func(o *auth.MintOptions) { o.Details[0].Payload = json.RawMessage(`{`) }, "not valid JSON"},
		"a payload a string":     {func(o *auth.MintOptions) { o.Details[0].Payload = json.RawMessage(`"x"`) }, "payload that is not an object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := draftToken()
			c.change(&o)
			_, err := auth.Mint(o)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Covers: D08-02, AUT-11.
func TestDraft08TokensAreNotTakenFromTheCachePastExp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newAuth(t, twoIssuers(t))
		line := bearer(accessToken(t, secretA, issuerA, fmt.Sprintf(`"sub":"a","exp":%d`, bubble+10)))
		check := func() string {
			g, err := j.Authorize(get(hubResource, line), spec.ActionSubscribe)
			return outcome(t, g, err)
		}
		if a, b := check(), check(); a != "a" || b != "a" {
			t.Fatal(a, b)
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		if got := check(); got != "a" {
			t.Errorf("before exp: %s", got)
		}
		time.Sleep(time.Nanosecond)
		if got := check(); got != auth.ReasonExpired {
			t.Errorf("at exp: %s", got)
		}
		expectStats(t, j, 2, 2)
	})
}

func TestIssuersCanChangeUnderLoad(t *testing.T) {
	t.Parallel()
	j := newAuth(t, twoIssuers(t))
	sets := [2][]auth.Issuer{}
	lines := [2]string{}
	for i, secret := range []string{secretA, secretB} {
		sets[i] = []auth.Issuer{{ID: issuerA, Keys: mustKeySet(t, nil, auth.KeySpec{Key: secret}), Subscribe: true}}
		lines[i] = bearer(accessToken(t, secret, issuerA, fmt.Sprintf(`"sub":"%d"`, i)))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 300 {
				g, err := j.Authorize(get(hubResource, lines[i%2]), spec.ActionSubscribe)
				if err == nil && g.Subject != fmt.Sprint(i%2) {
					t.Errorf("got the grant of %s for token %d", g.Subject, i%2)
				}
			}
		})
	}
	wg.Go(func() {
		for range 100 {
			j.SetKeys(nil, nil)
		}
	})
	for i := range 300 {
		if err := j.SetIssuers(sets[i%2]); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	for i, line := range lines {
		if _, err := j.Authorize(get(hubResource, line), spec.ActionSubscribe); (err == nil) != (i == 1) {
			t.Errorf("token %d after the last change: %v", i, err)
		}
	}
}
