package conformance

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/cinnabar-hub/cinnabar/spec"
)

func accessCases() []Case {
	return []Case{
		{"access/typ", []string{"D08-01", "G-01", "SEC-03"}, "A token is of draft-08 if its typ is at+jwt, in any case, with or without application/.", accessTyp, OfDraft08},
		{"access/required", []string{"D08-02", "G-04"}, "exp, aud and iss are required, and compared exactly.", accessRequired, OfDraft08},
		{"access/optional", []string{"D08-07", "AUT-11"}, "What only issuers have to do is not asked for; nbf counts when present.", accessOptional, OfDraft08},
		{"access/keys", []string{"D08-03", "D08-05", "AUT-08"}, "Only the issuer's own keys verify, whatever the token's header says.", accessKeys, OfDraft08},
		{"access/algorithm", []string{"AUT-07", "D08-06", "SEC-03"}, "Only the configured algorithm verifies: not none, not a public key as a secret.", accessAlgorithm, OfDraft08},
		{"access/key-sets", []string{"G-02", "G-01", "SEC-03"}, "A key of the classic generation signs no at+jwt token, and an issuer's key no classic one.", accessKeySets, OfBoth},
		{"access/families", []string{"G-03", "SEC-03"}, "Claims of the other generation grant nothing, or refuse the token.", accessFamilies, OfBoth},
		{"access/url", []string{"D08-17", "G-05"}, "A token of draft-08 in the URL is no token.", accessURL, OfDraft08},
		{"access/cookie", []string{"D08-18", "CORS-08"}, "The cookie of draft-08 is read.", accessCookie, OfDraft08},
		{"access/cookies", []string{"G-06", "G-01"}, "Both cookies are read, draft-08's first; the token's typ decides, and the first found is final.", accessCookies, OfBoth},
		{"access/across-parameters", []string{"G-10", "G-20", "SUB-12"}, "Tokens and parameters of different generations go together.", accessAcross, OfBoth},
	}
}

// issuedIs tries a draft-08 token of the issuer in both roles.
func (p *Probe) issuedIs(ctx context.Context, want int, what string, c claims) {
	p.tokenIs(ctx, want, what, p.sign(p.issuedSpec(c)))
}

// tokenIs tries a token in both roles; it must grant everything if the answer is to be 200.
func (p *Probe) tokenIs(ctx context.Context, want int, what, token string) {
	topic := p.topic("a")
	for role, a := range map[string]answer{
		"publish": p.post(ctx, bearer(token), "topic", topic), "subscribe": p.get(ctx, p.topics(topic), bearer(token)),
	} {
		if p.wantStatus(a, want, "%s, %s", role, what) && want == http.StatusUnauthorized {
			p.wantChallenge(a, "invalid_token", role+", "+what)
		}
	}
}

// full is the claim set of a draft-08 token that grants everything.
func (p *Probe) full() claims { return p.issued(everything()...) }

// everything is a detail that grants everything.
func everything() []any {
	return []any{map[string]any{
		"type": spec.AuthorizationDetailType, "actions": []string{"publish", "subscribe"}, "topics": []any{map[string]any{"match": "*"}},
	}}
}

func accessTyp(ctx context.Context, p *Probe) {
	s := p.issuedSpec(p.full())
	for _, typ := range []string{"at+jwt", "AT+JWT", "application/at+jwt", "Application/At+JWT"} {
		p.tokenIs(ctx, http.StatusOK, "typ "+typ, p.sign(s.header("typ", typ)))
	}
	for _, typ := range []any{"JWT", "", "dpop+jwt", "at+jwt ", "x/at+jwt", "at jwt", "at+jwtx", nil, 1, []string{"at+jwt"}} {
		p.tokenIs(ctx, http.StatusUnauthorized, fmt.Sprint("typ ", typ), p.sign(s.header("typ", typ)))
	}
	none := s
	none.jose = nil
	p.tokenIs(ctx, http.StatusUnauthorized, "the library's typ", p.sign(none))
}

func accessRequired(ctx context.Context, p *Probe) {
	s := p.issuedSpec(p.full())
	now := time.Now().Unix()
	for _, name := range []string{"exp", "aud", "iss"} {
		p.tokenIs(ctx, http.StatusUnauthorized, "no "+name, p.sign(s.without(name)))
		p.tokenIs(ctx, http.StatusUnauthorized, name+" null", p.sign(s.with(name, nil)))
	}
	for what, c := range map[string]struct {
		name   string
		value  any
		status int
	}{
		"one of several audiences": {"aud", []string{"https://other.example/", p.Resource}, 200},
		"exp with a fraction":      {"exp", float64(now) + 600.5, 200},
		"expired":                  {"exp", now - 60, 401},
		"exp as text":              {"exp", fmt.Sprint(now + 600), 401},
		"exp 0":                    {"exp", 0, 401},
		"another audience":         {"aud", "https://other.example/.well-known/mercure", 401},
		"other audiences":          {"aud", []string{"a", "b"}, 401},
		"no audiences":             {"aud", []string{}, 401},
		"a longer audience":        {"aud", p.Resource + "/", 401},
		"a shorter audience":       {"aud", p.Resource[:len(p.Resource)-1], 401},
		"an audience in capitals":  {"aud", strings.ToUpper(p.Resource), 401},
		"a number as an audience":  {"aud", []any{p.Resource, 1}, 401},
		"an object as an audience": {"aud", map[string]any{"x": p.Resource}, 401},
		"another issuer":           {"iss", "https://other.example", 401},
		"a longer issuer":          {"iss", p.Issuer + "/", 401},
		"an issuer in capitals":    {"iss", strings.ToUpper(p.Issuer), 401},
		"a list of issuers":        {"iss", []string{p.Issuer}, 401},
	} {
		p.tokenIs(ctx, c.status, what, p.sign(s.with(c.name, c.value)))
	}
}

func accessOptional(ctx context.Context, p *Probe) {
	s := p.issuedSpec(p.full())
	for _, name := range []string{"sub", "client_id", "iat", "jti"} {
		p.tokenIs(ctx, http.StatusOK, "no "+name, p.sign(s.without(name)))
	}
	now := time.Now().Unix()
	p.tokenIs(ctx, http.StatusOK, "nbf in the past", p.sign(s.with("nbf", now-60)))
	p.tokenIs(ctx, http.StatusUnauthorized, "nbf in the future", p.sign(s.with("nbf", now+3600)))
	p.tokenIs(ctx, http.StatusUnauthorized, "nbf as text", p.sign(s.with("nbf", "0")))
}

func accessKeys(ctx context.Context, p *Probe) {
	s := p.issuedSpec(p.full())
	stranger := s
	stranger.key = p.strangersKey(s)
	p.tokenIs(ctx, http.StatusUnauthorized, "a stranger's key", p.sign(stranger))
	for name, value := range map[string]any{
		"kid": "../../etc/passwd", "jwk": map[string]any{"kty": "oct", "k": base64.RawURLEncoding.EncodeToString([]byte("x")), "alg": "HS256"},
		"jku": "http://127.0.0.1:1/keys", "x5u": "http://127.0.0.1:1/keys", "x5c": []string{"AAAA"},
	} {
		p.tokenIs(ctx, http.StatusUnauthorized, "a stranger's key and "+name, p.sign(stranger.header(name, value)))
	}
	p.tokenIs(ctx, http.StatusUnauthorized, "a bad signature", spoilt(p.sign(s)))
	p.tokenIs(ctx, http.StatusUnauthorized, "an unknown critical header", p.sign(s.header("crit", []string{"urn:unknown"}).header("urn:unknown", true)))
}

func accessAlgorithm(ctx context.Context, p *Probe) {
	s := p.issuedSpec(p.full())
	token := p.sign(s)
	parts := strings.Split(token, ".")
	for _, alg := range []string{"none", "None", "", "hs256", strings.ToLower(p.IssuerAlg)} {
		header := base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"alg":%q,"typ":"at+jwt"}`, alg)))
		p.tokenIs(ctx, http.StatusUnauthorized, "alg "+alg+" and the signature", header+"."+parts[1]+"."+parts[2])
		p.tokenIs(ctx, http.StatusUnauthorized, "alg "+alg+" unsigned", header+"."+parts[1]+".")
	}
	for what, secret := range p.confusedKeys(s) {
		confused := s
		confused.secret, confused.method = secret, jwt.SigningMethodHS256
		p.tokenIs(ctx, http.StatusUnauthorized, what, p.sign(confused))
	}
}

// confusedKeys are secrets that somebody who knows the issuer's public key can compute.
func (p *Probe) confusedKeys(s tokenSpec) map[string][]byte {
	key, err := signingKey(s.key)
	if err != nil {
		p.Fatalf("%v", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return map[string][]byte{"an empty secret": {}}
	}
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		p.Fatalf("%v", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return map[string][]byte{
		"the public key's bytes as a secret": der, "the public key's text as a secret": text,
		"the public key's text, trimmed": bytes.TrimSpace(text), "an empty secret": {},
	}
}

func accessKeySets(ctx context.Context, p *Probe) {
	if p.IssuerKey == p.PublisherKey || p.IssuerKey == p.SubscriberKey {
		p.Skipf("the issuer and a role have the same key") // by configuration: nothing could tell who signed
	}
	full := p.full()
	for role, key := range map[string]string{"publisher": p.PublisherKey, "subscriber": p.SubscriberKey} {
		p.tokenIs(ctx, http.StatusUnauthorized, "at+jwt with the "+role+"'s key",
			p.sign(tokenSpec{key: key, claims: full, jose: map[string]any{"typ": spec.TokenTypeDraft08}}))
		both := tokenSpec{key: key, claims: full, jose: map[string]any{"typ": spec.TokenTypeDraft08}}
		p.tokenIs(ctx, http.StatusUnauthorized, "at+jwt with a mercure claim and the "+role+"'s key",
			p.sign(both.with(spec.ClaimMercure, map[string]any{"publish": []string{"*"}, "subscribe": []string{"*"}})))
	}
	mercure := claims{spec.ClaimMercure: map[string]any{"publish": []string{"*"}, "subscribe": []string{"*"}}, "iss": p.Issuer, "aud": p.Resource, "exp": time.Now().Add(tokenLife).Unix()}
	for _, typ := range []string{"JWT", ""} {
		p.tokenIs(ctx, http.StatusUnauthorized, "a classic token of the issuer, typ "+typ,
			p.sign(tokenSpec{key: p.IssuerKey, claims: mercure, method: p.issuerMethod(), jose: map[string]any{"typ": typ}}))
	}
}

func accessFamilies(ctx context.Context, p *Probe) {
	mercure := map[string]any{"publish": []string{"*"}, "subscribe": []string{"*"}}
	topic := p.topic("a")
	for what, c := range map[string]tokenSpec{
		"a mercure claim alone": p.issuedSpec(p.issued()).with(spec.ClaimMercure, mercure),
		"a namespaced claim":    p.issuedSpec(p.issued()).with(spec.ClaimNamespaced, mercure),
		"a bad mercure claim":   p.issuedSpec(p.issued()).with(spec.ClaimMercure, "x"),
		"a scope":               p.issuedSpec(p.issued()).with("scope", "publish subscribe"),
	} {
		token := p.sign(c)
		p.wantStatus(p.post(ctx, bearer(token), "topic", topic), http.StatusForbidden, "at+jwt with %s", what)
		p.wantPublicOnly(ctx, what, p.topics(topic), bearer(token), topic)
	}
	p.speak(classic)
	p.bothRoles(ctx, http.StatusUnauthorized, "a classic token with a Mercure detail", func(s tokenSpec) string {
		return p.sign(s.with("authorization_details", everything()))
	})
}

// wantPublicOnly requires that a stream opens and gets public updates of the topic alone.
func (p *Probe) wantPublicOnly(ctx context.Context, what, query string, h http.Header, topic string) {
	s := p.subscribe(ctx, query, h)
	defer s.Close()
	p.publish(ctx, "topic", topic, "data", "private", "private", "on")
	p.publish(ctx, "topic", topic, "data", "public")
	if e := s.next(); e.data != "public" {
		p.Errorf("%s: got %q, want public updates alone", what, e.data)
	}
}

func accessURL(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	for _, name := range []string{"authorization", "access_token"} {
		query := p.topics(topic) + "&" + form(name, p.subscriber(topic))
		p.noToken(ctx, topic, name, func() *stream { return p.open(ctx, query, nil) })
		if !p.Anonymous {
			p.wantStatus(p.do(ctx, http.MethodHead, "?"+query, nil, ""), http.StatusUnauthorized, "HEAD with %s", name)
		}
		a := p.do(ctx, http.MethodPost, "?"+form(name, p.publisher("*")), head("Content-Type", spec.MediaTypeForm), form("topic", topic))
		if p.wantStatus(a, http.StatusUnauthorized, "publish with %s in the URL", name) {
			p.wantChallenge(a, "", "publish with "+name)
		}
	}
	a := p.do(ctx, http.MethodPost, "", head("Content-Type", spec.MediaTypeForm), form("topic", topic, "access_token", p.publisher("*")))
	p.wantStatus(a, http.StatusUnauthorized, "publish with access_token in the body")
}

func accessCookie(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.subscribe(ctx, p.topics(topic), head("Cookie", spec.CookieDraft08+"="+p.subscriber(topic)))
	p.publish(ctx, "topic", topic, "data", "x", "private", "on")
	s.want("x")
	h := merged(head("Cookie", spec.CookieDraft08+"="+p.publisher("*")), head("Origin", p.Origin))
	p.wantStatus(p.post(ctx, h, "topic", topic), http.StatusOK, "publish by cookie from the own origin")
	h.Set("Origin", evilOrigin)
	p.wantStatus(p.post(ctx, h, "topic", topic), http.StatusBadRequest, "publish by cookie from a strange origin")
	p.wantStatus(p.get(ctx, p.topics(topic), head("Cookie", spec.CookieDraft08+"="+spoilt(p.subscriber(topic)))), http.StatusUnauthorized, "a bad token")
}

func accessCookies(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	d := p.subscriber(topic)
	p.speak(classic)
	c := p.subscriber(topic)
	p.speak(draft08)
	for what, v := range map[string]struct {
		old, draft08 string
		status       int
	}{
		"each in its own":                    {c, d, 200},
		"a bad one in draft-08's":            {c, spoilt(d), 401},
		"a bad one in the classic one's":     {spoilt(c), d, 200},
		"a classic token in draft-08's":      {"", c, 200},
		"an at+jwt token in the classic one": {d, "", 200},
		"a bad classic token in draft-08's":  {c, spoilt(c), 401},
	} {
		for _, order := range []bool{true, false} {
			var jar []string
			if v.old != "" {
				jar = append(jar, spec.CookieClassic+"="+v.old)
			}
			if v.draft08 != "" {
				jar = append(jar, spec.CookieDraft08+"="+v.draft08)
			}
			if order && len(jar) == 2 {
				jar[0], jar[1] = jar[1], jar[0]
			}
			p.wantStatus(p.get(ctx, p.topics(topic), head("Cookie", strings.Join(jar, "; "))), v.status, "%s", what)
		}
	}
}

func accessAcross(ctx context.Context, p *Probe) {
	topic, other := p.topic("a/1"), p.topic("b")
	grant := map[*generation]string{classic: p.topic("a/{x}"), draft08: p.topic("a/1")}
	for token, g := range map[*generation]*generation{classic: draft08, draft08: classic} {
		p.speak(token)
		h := bearer(p.subscriber(grant[token]))
		p.speak(g)
		s := p.subscribe(ctx, p.topics(p.anyBelow(p.topic("a/")), other), h)
		p.publish(ctx, "topic", other, "data", "not granted", "private", "on")
		p.publish(ctx, "topic", topic, "data", "granted", "private", "on")
		p.publish(ctx, "topic", p.topic("c"), "topic", topic, "data", "by an alternate", "private", "on")
		p.publish(ctx, "topic", other, "data", "public")
		s.want("granted", "by an alternate", "public")
	}
}
