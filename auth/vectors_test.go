package auth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

type vector struct {
	ID         string
	Generation string
	Request    string
	Header     json.RawMessage
	Claims     json.RawMessage
	SignedWith string `json:"signed_with"`
	Status     int
	Challenge  string `json:"www_authenticate"`
	Error      string
	Reason     string
	Override   map[string]json.RawMessage `json:"config_override"`
}

const (
	vectorNow      = 1767225600 // config.now: 2026-01-01T00:00:00Z
	vectorHub      = "https://hub.example.com/.well-known/mercure"
	vectorMetadata = "https://hub.example.com/.well-known/oauth-protected-resource/.well-known/mercure"
	vectorTopic    = "https://example.com/books/1"
)

// notHere are the cases of the classic generation that this package does not decide.
var notHere = map[string]string{
	"JWT-060": "subscription API: package hub runs it",
	"JWT-061": "subscription API: package hub runs it",
}

// The token vectors of both generations, and of tokens that mix them.
//
// Covers: AUT-01, AUT-02, AUT-03, AUT-04, D08-01, D08-02, D08-03, D08-05, D08-07, D08-08, D08-09, D08-10, D08-11, D08-12,
// D08-13, D08-14, D08-15, D08-17, D08-18, ERR-01, ERR-02, ERR-03, ERR-04, G-01, G-02, G-03, G-04, G-05, G-06, G-22, SEC-03.
func TestTokenVectors(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../spec/vectors/jwt.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []vector }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	run := map[string]int{}
	for _, v := range file.Cases {
		if _, skip := notHere[v.ID]; skip {
			continue
		}
		run[v.Generation]++
		t.Run(v.ID, func(t *testing.T) {
			t.Parallel()
			s := makeSigners() // outside the bubble
			synctest.Test(t, func(t *testing.T) { v.check(t, s) })
		})
	}
	if want := "map[both:13 classic:48 draft-08:60 mixed:6]"; fmt.Sprint(run) != want {
		t.Errorf("ran %v, want %s: no case may vanish", run, want)
	}
}

func (v *vector) check(t *testing.T, s signers) {
	t.Helper()
	j, err := auth.New(v.options(t, s))
	if err != nil {
		t.Fatal(err)
	}
	r, act := v.request(t, v.token(t, s))
	p := v.authorize(j, r, act)
	status := http.StatusOK
	if p != nil {
		status = p.Status
	}
	if status != v.Status {
		t.Fatalf("status %d (%v), want %d: %s", status, p, v.Status, v.Reason)
	}
	if p == nil {
		return
	}
	if p.Code != v.Error {
		t.Errorf("error %q, want %q", p.Code, v.Error)
	}
	if got := parameters(j.Challenge(p)); !slices.Equal(got, parameters(v.Challenge)) {
		t.Errorf("challenge %q, want %q", got, parameters(v.Challenge))
	}
}

// parameters splits a challenge so that their order does not count.
func parameters(challenge string) []string {
	scheme, rest, _ := strings.Cut(challenge, " ")
	list := strings.Split(rest, ", ")
	slices.Sort(list)
	return append([]string{scheme}, list...)
}

// authorize does what a hub does with a grant.
func (v *vector) authorize(j *auth.JWT, r *http.Request, act spec.Action) *spec.Problem {
	g, err := j.Authorize(r, act)
	if err != nil {
		return err.(*spec.Problem) //nolint:errorlint,forcetypeassert // the contract is this very type
	}
	if act == spec.ActionPublish {
		topics := []string{vectorTopic}
		if _, form, ok := strings.Cut(v.Request, "POST topic="); ok {
			topics = spec.ParseForm("topic=" + form).All("topic")
		}
		if missing, ok := g.Missing(topics); ok {
			return auth.Forbidden(act, missing)
		}
	}
	if path := "/.well-known/mercure/subscriptions"; strings.HasPrefix(v.Request, "GET /subscriptions") && !g.Allows([]string{path}) {
		return auth.Forbidden(act, path)
	}
	return nil
}

func (v *vector) options(t *testing.T, s signers) auth.Options {
	t.Helper()
	public, err := url.Parse(vectorHub)
	if err != nil {
		t.Fatal(err)
	}
	o := auth.Options{
		Publisher: mustKeys(t, publisherSecret, "HS256"), Subscriber: mustKeys(t, subscriberSecret, "HS256"),
		PublicURL: public, PublishOrigins: []string{"https://app.example.com"}, ResourceMetadata: vectorMetadata,
		Resource: vectorHub, Issuers: []auth.Issuer{
			{ID: "https://issuer.example", Publish: true, Subscribe: true, Keys: mustKeySet(t, []string{"ES256", "RS256"},
				auth.KeySpec{ID: "es-1", Key: publicPEM(t, s.es256.Public()), Algorithm: "ES256"},
				auth.KeySpec{ID: "rs-1", Key: publicPEM(t, s.rsa.Public()), Algorithm: "RS256"})},
			{ID: "https://other-issuer.example", Subscribe: true, Keys: mustKeySet(t, []string{"EdDSA"},
				auth.KeySpec{ID: "ed-1", Key: publicPEM(t, s.ed.Public()), Algorithm: "EdDSA"})},
		},
	}
	for name, value := range v.Override {
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			t.Fatal(err)
		}
		switch setting := name + "=" + compact.String(); setting {
		case "anonymous=true":
			o.Anonymous = true
		case "classic.require_exp=true":
			o.RequireExp = true
		case `classic.query_token="off"`:
			o.QueryToken = auth.QueryTokenOff
		case `classic.publisher_key={"alg":"RS256"}`:
			o.Publisher = mustKeys(t, publicPEM(t, s.rsa.Public()), "RS256")
		case "classic.enabled=false":
			o.NoClassic = true
		default:
			t.Fatalf("unknown setting %s", setting)
		}
	}
	return o
}

// token builds the token that the case describes, with its dates moved to the bubble's clock.
func (v *vector) token(t *testing.T, s signers) string {
	t.Helper()
	if v.SignedWith == "" {
		return ""
	}
	header, claims, alg := "not JSON", "not JSON", "HS256"
	if string(v.Header) != `"(not JSON)"` {
		header = string(v.Header)
		var h struct{ Alg string }
		if err := json.Unmarshal(v.Header, &h); err != nil {
			t.Fatal(err)
		}
		alg = h.Alg
	}
	if string(v.Claims) != `"(not JSON)"` {
		claims = v.claims(t)
	}
	var key any
	switch v.SignedWith {
	case "K_PUB":
		key = []byte(publisherSecret)
	case "K_PUB with HS512":
		key = []byte(publisherSecret)
	case "K_SUB":
		key = []byte(subscriberSecret)
	case "(empty signature)":
		return segment(header) + "." + segment(claims) + "."
	case "HMAC keyed with the PEM text of a configured RSA public key", "HMAC keyed with the PEM text of K_RS public key":
		key = []byte(publicPEM(t, s.rsa.Public()))
	case "K_EVIL":
		key = []byte(evilSecret)
		if alg == "ES256" {
			key = s.evilES256
		}
	case "K_ES":
		key = s.es256
		if alg == "ES384" {
			key = s.es384
		}
	case "K_RS":
		key = s.rsa
	case "K_ED":
		key = s.ed
	default:
		t.Fatalf("unknown signer %q", v.SignedWith)
	}
	return sign(t, header, claims, alg, key)
}

func (v *vector) claims(t *testing.T) string {
	t.Helper()
	var claims map[string]any
	if err := json.Unmarshal(v.Claims, &claims); err != nil {
		t.Fatal(err)
	}
	for _, date := range []string{"exp", "nbf", "iat"} {
		if seconds, ok := claims[date].(float64); ok {
			claims[date] = time.Now().Unix() + int64(seconds) - vectorNow
		}
	}
	switch v.ID {
	case "JWT-030":
		many := make([]string, 1001)
		for i := range many {
			many[i] = fmt.Sprintf("t%d", i)
		}
		claims["mercure"] = map[string]any{"publish": many}
	case "JWT-087":
		topics := make([]any, 101)
		for i := range topics {
			topics[i] = map[string]any{"match": fmt.Sprintf("t%d", i)}
		}
		claims["authorization_details"].([]any)[0].(map[string]any)["topics"] = topics //nolint:forcetypeassert // the vector's shape
	case "JWT-044":
		claims["pad"] = strings.Repeat("x", 150<<10)
	}
	return toJSON(t, claims)
}

// request builds the request that the case describes.
func (v *vector) request(t *testing.T, token string) (*http.Request, spec.Action) {
	t.Helper()
	method, rest, _ := strings.Cut(v.Request, " ")
	method = strings.TrimSuffix(method, ",")
	act := spec.ActionSubscribe
	if method == http.MethodPost {
		act = spec.ActionPublish
	}
	target := vectorHub
	bearer := "Bearer " + token
	cookies := func(value string) string { return spec.CookieClassic + "=" + value }
	var lines []string
	switch {
	case strings.Contains(rest, "authorization=<"):
		target += "?topic=x&authorization=" + token
	case strings.Contains(rest, "&access_token=<"):
		target += "?topic=x&access_token=" + token
	case strings.Contains(rest, "two Authorization headers"):
		lines = []string{"Authorization: " + bearer, "Authorization: " + bearer}
	case strings.HasPrefix(rest, "Authorization: '"):
		value := strings.TrimSuffix(strings.TrimPrefix(rest, "Authorization: '"), "'")
		value = strings.NewReplacer("<token>", token, "<200 KiB token>", token).Replace(value)
		lines = []string{"Authorization: " + value}
	case strings.HasPrefix(rest, "with Authorization (valid) and cookie (invalid)"):
		lines = []string{"Authorization: " + bearer, "Cookie: " + cookies("a.b.c")}
	case strings.HasPrefix(rest, "with Authorization (invalid) and cookie (valid)"):
		good := hs256(t, subscriberSecret, `{"mercure":{"subscribe":["*"]}}`)
		lines = []string{"Authorization: " + bearer, "Cookie: " + cookies(good)}
	case strings.HasPrefix(rest, "cookie"):
		name, _, named := strings.Cut(strings.TrimPrefix(rest, "cookie "), "=<token>")
		if !named {
			name = spec.CookieClassic
		}
		lines = []string{"Cookie: " + name + "=" + token}
		for _, h := range []string{"Origin: ", "Referer: "} {
			if _, after, ok := strings.Cut(rest, h); ok {
				value, _, _ := strings.Cut(after, " ")
				lines = append(lines, h+value)
			}
		}
	default: // "?topic=…", "topic=…&data=x", "/subscriptions"
		if token != "" {
			lines = []string{"Authorization: " + bearer}
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r, act
}
