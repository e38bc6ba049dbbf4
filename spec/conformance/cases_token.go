package conformance

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func tokenCases() []Case {
	return []Case{
		{"token/algorithm", []string{"AUT-07", "CLA-13", "SEC-03"}, "Only the configured algorithm verifies; none never does.", tokenAlgorithm, OfClassic},
		{"token/key-in-header", []string{"AUT-08", "SEC-08"}, "Keys and URLs in a token's header are never used.", tokenKeyHeaders, OfClassic},
		{"token/crit", []string{"AUT-09", "X-07"}, "A token with a critical extension that nobody knows is refused.", tokenCrit, OfEach},
		{"token/claim-case", []string{"AUT-10", "X-07"}, "Claims are spelled in one way.", tokenClaimCase, OfClassic},
		{"token/dates", []string{"AUT-11", "CLA-12", "G-04"}, "exp and nbf count when present, as whole or fractional seconds.", tokenDates, OfClassic},
		{"token/typ", []string{"G-01", "G-03", "SEC-03"}, "A token of the other generation is never taken as a classic one.", tokenTyp, OfClassic},
		{"token/length", []string{"LIM-09", "LIM-16"}, "A token is at most 16 KiB long, and depth costs nothing.", tokenLength, OfEach},
		{"token/not-told", []string{"AUT-13", "SEC-12", "ERR-08"}, "No answer repeats a token or a library's text.", tokenNotTold, OfEach},
	}
}

// bothRoles tries a token in both roles; token gets the role's good description.
func (p *Probe) bothRoles(ctx context.Context, want int, what string, token func(tokenSpec) string) {
	p.wantStatus(p.post(ctx, bearer(token(p.pubSpec("*"))), "topic", p.topic("a")), want, "publish, %s", what)
	p.wantStatus(p.get(ctx, p.topics(p.topic("a")), bearer(token(p.subSpec("*")))), want, "subscribe, %s", what)
}

// compact signs header and payload, as they are, with HMAC-SHA256.
func compact(key, header, payload string) string {
	b64 := base64.RawURLEncoding.EncodeToString
	signed := b64([]byte(header)) + "." + b64([]byte(payload))
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = mac.Write([]byte(signed))
	return signed + "." + b64(mac.Sum(nil))
}

const classicGrants = `{"mercure":{"publish":["*"],"subscribe":["*"]}}`

func tokenAlgorithm(ctx context.Context, p *Probe) {
	p.bothRoles(ctx, http.StatusOK, "HS256", p.sign)
	for _, m := range []jwt.SigningMethod{jwt.SigningMethodHS384, jwt.SigningMethodHS512} {
		p.bothRoles(ctx, http.StatusUnauthorized, m.Alg()+" with the right secret", func(s tokenSpec) string {
			s.method = m
			return p.sign(s)
		})
	}
	for _, alg := range []string{"none", "None", "hs256", "", "RS256", "ES256"} {
		header := fmt.Sprintf(`{"alg":%q,"typ":"JWT"}`, alg)
		p.bothRoles(ctx, http.StatusUnauthorized, "alg "+alg+" with an HMAC", func(s tokenSpec) string { return compact(s.key, header, classicGrants) })
		p.bothRoles(ctx, http.StatusUnauthorized, "alg "+alg+" unsigned", func(s tokenSpec) string {
			t := compact(s.key, header, classicGrants)
			return t[:strings.LastIndexByte(t, '.')+1]
		})
	}
	p.bothRoles(ctx, http.StatusUnauthorized, "no alg", func(s tokenSpec) string { return compact(s.key, `{"typ":"JWT"}`, classicGrants) })
	p.bothRoles(ctx, http.StatusUnauthorized, "another secret", func(s tokenSpec) string { return compact(s.key+"x", `{"alg":"HS256"}`, classicGrants) })
	p.bothRoles(ctx, http.StatusUnauthorized, "an empty secret", func(tokenSpec) string { return compact("", `{"alg":"HS256"}`, classicGrants) })
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.Fatalf("%v", err)
	}
	p.bothRoles(ctx, http.StatusUnauthorized, "ES256 of a stranger", func(s tokenSpec) string {
		signed, err := jwt.NewWithClaims(jwt.SigningMethodES256, s.claims).SignedString(key)
		if err != nil {
			p.Fatalf("%v", err)
		}
		return signed
	})
}

func tokenKeyHeaders(ctx context.Context, p *Probe) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		p.Skipf("cannot listen: %v", err)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
			p.Errorf("the hub connected to a URL out of a token")
		}
	}()
	defer func() {
		_ = ln.Close()
		<-asked
	}()
	stranger := "an attacker's own key of 32 bytes!!"
	here := "http://" + ln.Addr().String() + "/keys"
	for name, value := range map[string]any{
		"jwk": map[string]any{"kty": "oct", "k": base64.RawURLEncoding.EncodeToString([]byte(stranger)), "alg": "HS256"},
		"jku": here, "x5u": here, "x5c": []string{base64.StdEncoding.EncodeToString([]byte(stranger))},
	} {
		p.bothRoles(ctx, http.StatusUnauthorized, "a stranger's key in "+name, func(s tokenSpec) string {
			s.key = stranger
			return p.sign(s.header(name, value))
		})
	}
}

func tokenCrit(ctx context.Context, p *Probe) {
	for _, crit := range []any{[]string{"exp"}, []string{"b64"}, []string{"urn:unknown"}, []string{}, "x"} {
		p.bothRoles(ctx, http.StatusUnauthorized, fmt.Sprintf("crit %v", crit), func(s tokenSpec) string {
			return p.sign(s.header("crit", crit).header("urn:unknown", true).header("b64", true))
		})
	}
}

func tokenClaimCase(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	for _, payload := range []string{
		`{"MERCURE":{"publish":["*"],"subscribe":["*"]}}`,
		`{"Mercure":{"publish":["*"],"subscribe":["*"]}}`,
		`{"mercure":{"PUBLISH":["*"],"Subscribe":["*"]}}`,
		`{"mercure":{"publish":[],"subscribe":[]},"Mercure":{"publish":["*"],"subscribe":["*"]}}`,
		`{"mercure":{"publish":[],"Publish":["*"],"subscribe":[],"Subscribe":["*"]}}`,
		`{"HTTPS://mercure.rocks/":{"publish":["*"],"subscribe":["*"]}}`,
		`{"mercure\u0000":{"publish":["*"],"subscribe":["*"]}}`,
	} {
		pub, sub := compact(p.PublisherKey, `{"alg":"HS256"}`, payload), compact(p.SubscriberKey, `{"alg":"HS256"}`, payload)
		p.wantStatus(p.post(ctx, bearer(pub), "topic", topic), http.StatusForbidden, "publish with %s", payload)
		s := p.subscribe(ctx, p.topics(topic), bearer(sub))
		p.publish(ctx, "topic", topic, "data", "private", "private", "on")
		p.publish(ctx, "topic", topic, "data", "public")
		if e := s.next(); e.data != "public" {
			p.Errorf("%s grants a private update", payload)
		}
		s.Close()
	}
	p.bothRoles(ctx, http.StatusOK, "an escaped spelling of the same name", func(s tokenSpec) string {
		return compact(s.key, `{"alg":"HS256"}`, `{"\u006dercure":{"publish":["*"],"subscribe":["*"]}}`)
	})
}

func tokenDates(ctx context.Context, p *Probe) {
	now := float64(time.Now().UnixMilli()) / 1000
	for what, c := range map[string]struct {
		name   string
		value  any
		status int
	}{
		"no dates":                 {"jti", "x", 200},
		"fractional exp":           {"exp", now + 600.75, 200},
		"fractional nbf":           {"nbf", now - 10.25, 200},
		"fractional iat":           {"iat", now - 10.25, 200},
		"exp in exponent notation": {"exp", 4e9, 200},
		"expired":                  {"exp", int64(now) - 3600, 401},
		"just expired":             {"exp", now - 1.5, 401},
		"exp 0":                    {"exp", 0, 401},
		"exp as text":              {"exp", fmt.Sprint(int64(now) + 600), 401},
		"exp as a list":            {"exp", []int{int(now) + 600}, 401},
		"not yet":                  {"nbf", int64(now) + 3600, 401},
		"nbf as text":              {"nbf", "0", 401},
	} {
		p.bothRoles(ctx, c.status, what, func(s tokenSpec) string { return p.sign(s.with(c.name, c.value)) })
	}
	p.bothRoles(ctx, http.StatusUnauthorized, "expired, nbf fine", func(s tokenSpec) string {
		return p.sign(s.with("exp", now-60).with("nbf", now-3600))
	})
}

func tokenTyp(ctx context.Context, p *Probe) {
	for _, typ := range []string{"at+jwt", "AT+JWT", "application/at+jwt", "Application/At+JWT"} {
		p.bothRoles(ctx, http.StatusUnauthorized, "typ "+typ, func(s tokenSpec) string { return p.sign(s.header("typ", typ)) })
	}
	detail := map[string]any{"type": "https://mercure.rocks/authorization-detail", "actions": []string{"publish", "subscribe"}, "topics": []any{map[string]any{"match": "*"}}}
	p.bothRoles(ctx, http.StatusUnauthorized, "a Mercure authorization detail", func(s tokenSpec) string {
		return p.sign(s.with("authorization_details", []any{map[string]any{"type": "other"}, detail}))
	})
	p.bothRoles(ctx, http.StatusOK, "another authorization detail", func(s tokenSpec) string {
		return p.sign(s.with("authorization_details", []any{map[string]any{"type": "https://other.example/"}}))
	})
	for _, typ := range []any{"JWT", "jwt", "", "whatever"} {
		p.bothRoles(ctx, http.StatusOK, fmt.Sprint("typ ", typ), func(s tokenSpec) string { return p.sign(s.header("typ", typ)) })
	}
	p.bothRoles(ctx, http.StatusOK, "no typ", func(s tokenSpec) string { return compact(s.key, `{"alg":"HS256"}`, classicGrants) })
}

func tokenLength(ctx context.Context, p *Probe) {
	p.bothRoles(ctx, http.StatusOK, "8 KiB", func(s tokenSpec) string { return p.sign(s.with("pad", strings.Repeat("x", 6<<10))) })
	p.bothRoles(ctx, http.StatusUnauthorized, "more than 16 KiB", func(s tokenSpec) string { return p.sign(s.with("pad", strings.Repeat("x", 13<<10))) })
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, payload := range []string{
		`{"mercure":{"publish":["*"],"subscribe":["*"],"payload":` + deep + `}}`, `{"mercure":` + deep + `}`, deep,
		`{"authorization_details":[{"type":"x","y":` + deep + `}]}`, `{"authorization_details":` + deep + `}`,
	} {
		a := p.post(ctx, bearer(p.raw(p.pubSpec(), payload)), "topic", p.topic("a"))
		if a.status >= http.StatusInternalServerError {
			p.Errorf("a nested token: status %d", a.status)
		}
	}
	p.publish(ctx, "topic", p.topic("a"))
}

func tokenNotTold(ctx context.Context, p *Probe) {
	expired := p.pubSpec("*").with("exp", time.Now().Add(-time.Hour).Unix())
	for what, token := range map[string]string{
		"bad signature": spoilt(p.publisher("*")), "expired": p.sign(expired), "no JSON": p.raw(p.pubSpec(), `{"mercure":`),
		"header no JSON": compact(p.PublisherKey, `{`, `{}`), "wrong shape": p.sign(p.pubSpec().with(p.gen.claim, "x")), "narrow": p.publisher(), "no token": "nonsense1.nonsense2.nonsense3",
	} {
		a := p.post(ctx, bearer(token), "topic", p.topic("a"))
		if a.status != http.StatusUnauthorized && a.status != http.StatusForbidden {
			p.Errorf("%s: status %d, want 401 or 403", what, a.status)
		}
		var b strings.Builder
		b.WriteString(a.body)
		_ = a.header.Write(&b)
		all := b.String()
		for part := range strings.SplitSeq(token, ".") {
			if len(part) > 4 && strings.Contains(all, part) {
				p.Errorf("%s: the answer repeats the token: %.200q", what, all)
			}
		}
		for _, text := range []string{"json:", "jwt:", "base64", "unmarshal", "invalid character", "goroutine", ".go:", "0x", "illegal"} {
			if strings.Contains(a.body, text) {
				p.Errorf("%s: the answer has a library's text: %.200q", what, a.body)
			}
		}
	}
}
