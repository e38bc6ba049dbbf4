package auth_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

// FuzzAuthorize puts arbitrary bytes into every place a token may sit: the answer is a grant or a problem of
// 400 or 401, never a panic, and an error never repeats what was sent.
func FuzzAuthorize(f *testing.F) {
	good := hs256(f, subscriberSecret, `{"mercure":{"subscribe":["a{b}"]},"exp":99999999999}`)
	f.Add("Bearer "+good, "topic=a", "x=y", "")
	f.Add("", "topic=a&authorization="+good, "", "")
	f.Add("", "topic=a", "mercureAuthorization="+good, "https://app.example.com")
	f.Add("Bearer a.b.c", "%", `mercureAuthorization="`, "null")
	f.Add("Basic x", ";&authorization", ";;=", "://")
	f.Add("Bearer "+segment("null")+".bnVsbA.", "", "", "https://[::1]:x")
	j := newAuth(f, func(o *auth.Options) { o.QueryToken = auth.QueryTokenAll })
	f.Fuzz(func(t *testing.T, authorization, query, cookie, origin string) {
		for _, act := range []spec.Action{spec.ActionSubscribe, spec.ActionPublish} {
			r := get("/hub")
			if act == spec.ActionPublish {
				r.Method = http.MethodPost
			}
			r.URL.RawQuery = query
			for name, value := range map[string]string{"Authorization": authorization, "Cookie": cookie, "Origin": origin} {
				if value != "" {
					r.Header[name] = []string{value}
				}
			}
			g, err := j.Authorize(r, act)
			if err == nil {
				if g == nil || g.Action != act || g.Anonymous {
					t.Fatalf("grant %+v", g)
				}
				continue
			}
			p := problemOf(t, err)
			if (p.Status != 400 && p.Status != 401) || p.Reason == "" || p.Detail == "" || !p.Challenge || g != nil {
				t.Fatalf("problem %+v, grant %v", p, g)
			}
			if p.Status == 400 != (p.Code == "invalid_request") {
				t.Fatalf("status %d with %q", p.Status, p.Code)
			}
			if token := strings.TrimPrefix(authorization, "Bearer "); len(token) > 200 && strings.Contains(err.Error(), token) {
				t.Fatal("the error repeats the token")
			}
		}
	})
}

// FuzzClaims signs arbitrary claims: no verified payload may panic or grant more than it lists.
func FuzzClaims(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"mercure":{"publish":["*"],"payload":1}}`, `{"mercure":null,"exp":1e9}`, `{"exp":-1.5e300,"nbf":0}`, `[`, `null`,
		`{"https://mercure.rocks/":{"publish":["{a}","{"]},"authorization_details":[{"type":7}]}`,
	} {
		f.Add(s)
	}
	j := newAuth(f, nil)
	f.Fuzz(func(t *testing.T, claims string) {
		g, err := j.Authorize(post("Authorization: Bearer "+hs256(t, publisherSecret, claims)), spec.ActionPublish)
		if err != nil {
			if p := problemOf(t, err); p.Status != 401 || p.Code != "invalid_token" {
				t.Fatalf("problem %+v", p)
			}
			return
		}
		// Two braces open the claims and mercure; a third one is needed for a template.
		if g.Allows([]string{"zq9"}) && !strings.ContainsAny(claims, `*\`) && !strings.Contains(claims, "zq9") && strings.Count(claims, "{") < 3 {
			t.Fatalf("%s grants a topic that it does not name", claims)
		}
	})
}

// FuzzDraft08Claims signs arbitrary claims of a draft-08 token: no payload may panic, and none grants anything without
// the audience, an expiry and an entry of the Mercure type, whatever else it says.
func FuzzDraft08Claims(f *testing.F) {
	const head = `{"iss":"i","aud":"r","exp":99999999999`
	for _, s := range []string{
		head + `}`, head + `,"authorization_details":[]}`, head + `,"mercure":{"publish":["*"]}}`, `{"iss":"i","aud":["r"],"exp":1e11}`,
		head + `,"authorization_details":[{"type":"https://mercure.rocks/authorization-detail","actions":["publish"],"topics":[{"match":"a"}]}]}`,
		head + `,"authorization_details":[{"type":"https://mercure.rocks/authorization-detail","actions":["publish"],"topics":[{"match":"/:a/*","match_type":"urlpattern"}],"payload":{}}]}`,
		`{"iss":"i","iss":"j"}`, `{"iss":"i","aud":null}`, `[`, `null`,
	} {
		f.Add(s)
	}
	j := newAuth(f, func(o *auth.Options) {
		o.Resource, o.Issuers = "r", []auth.Issuer{{ID: "i", Keys: mustKeySet(f, nil, auth.KeySpec{Key: secretA}), Publish: true}}
	})
	f.Fuzz(func(t *testing.T, claims string) {
		token := sign(t, `{"alg":"HS256","typ":"at+jwt"}`, claims, "HS256", []byte(secretA))
		g, err := j.Authorize(post("Authorization: Bearer "+token), spec.ActionPublish)
		if err != nil {
			if p := problemOf(t, err); p.Status != 401 || p.Code != "invalid_token" {
				t.Fatalf("problem %+v", p)
			}
			return
		}
		if g.Dialect != "draft-08" || g.Expires.IsZero() {
			t.Fatalf("grant %+v", g)
		}
		for _, need := range []string{"iss", "aud", "exp", "r", "i"} {
			if !strings.Contains(claims, need) && !strings.Contains(claims, `\`) {
				t.Fatalf("%s was accepted without %q", claims, need)
			}
		}
		if g.Topics != nil && !strings.Contains(claims, `\`) && !strings.Contains(claims, spec.AuthorizationDetailType) {
			t.Fatalf("%s grants without a detail", claims)
		}
	})
}
