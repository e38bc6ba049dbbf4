package conformance

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// claims is the payload of a token.
type claims = jwt.MapClaims

// tokenSpec describes a token to be signed.
type tokenSpec struct {
	key    string // HMAC secret or PEM private key
	secret []byte // HMAC secret that may look like PEM; nil = what key is
	claims claims
	jose   map[string]any
	method jwt.SigningMethod // nil = HS256
}

// with returns c with one more claim.
func (c tokenSpec) with(name string, value any) tokenSpec {
	m := claims{}
	maps.Copy(m, c.claims)
	m[name] = value
	c.claims = m
	return c
}

// without returns c without a claim.
func (c tokenSpec) without(name string) tokenSpec {
	m := claims{}
	maps.Copy(m, c.claims)
	delete(m, name)
	c.claims = m
	return c
}

// header returns c with one more JOSE header parameter.
func (c tokenSpec) header(name string, value any) tokenSpec {
	m := map[string]any{}
	maps.Copy(m, c.jose)
	m[name] = value
	c.jose = m
	return c
}

// grants is the claim set that lets do one action, publish or subscribe, with the selectors.
func (p *Probe) grants(action string, selectors ...string) claims {
	if p.gen == draft08 {
		return p.issued(detail(action, nil, p.matchers(selectors...)...)...)
	}
	if selectors == nil {
		selectors = []string{}
	}
	return claims{spec.ClaimMercure: map[string]any{action: selectors}}
}

// tokenLife is how long a draft-08 token is good for.
const tokenLife = 10 * time.Minute

// issued is the claim set of a draft-08 token with these entries of authorization_details.
func (p *Probe) issued(details ...any) claims {
	c := claims{
		"iss": p.Issuer, "aud": p.Resource, "exp": time.Now().Add(tokenLife).Unix(), "iat": time.Now().Unix(),
		"sub": "conformance", "client_id": "conformance", "jti": p.nonce,
	}
	if details != nil {
		c["authorization_details"] = details
	}
	return c
}

// detail is an entry of authorization_details as a list; no entry for no matchers, which would not be valid.
func detail(action string, payload any, matchers ...any) []any {
	if len(matchers) == 0 {
		return nil
	}
	d := map[string]any{"type": spec.AuthorizationDetailType, "actions": []string{action}, "topics": matchers}
	if payload != nil {
		d["payload"] = payload
	}
	return []any{d}
}

// matchers writes selectors as members of a detail's topics.
func (p *Probe) matchers(selectors ...string) []any {
	all := make([]any, 0, len(selectors))
	for _, s := range selectors {
		m := map[string]any{"match": s}
		if p.gen.isPattern(s) {
			m["match_type"] = "urlpattern"
		}
		all = append(all, m)
	}
	return all
}

func (p *Probe) pubSpec(selectors ...string) tokenSpec {
	return p.signedBy(p.PublisherKey, p.grants("publish", selectors...))
}

func (p *Probe) subSpec(selectors ...string) tokenSpec {
	return p.signedBy(p.SubscriberKey, p.grants("subscribe", selectors...))
}

// signedBy describes a token with the claims, by the role's key or, in draft-08, by the issuer's.
func (p *Probe) signedBy(role string, c claims) tokenSpec {
	if p.gen == draft08 {
		return p.issuedSpec(c)
	}
	return tokenSpec{key: role, claims: c}
}

// issuedSpec describes a draft-08 token by the issuer.
func (p *Probe) issuedSpec(c claims) tokenSpec {
	return tokenSpec{key: p.IssuerKey, claims: c, jose: map[string]any{"typ": spec.TokenTypeDraft08}, method: p.issuerMethod()}
}

// issuerMethod is the algorithm of the issuer's tokens.
func (p *Probe) issuerMethod() jwt.SigningMethod {
	m := jwt.GetSigningMethod(p.IssuerAlg)
	if m == nil {
		p.Fatalf("the issuer's algorithm %q is none", p.IssuerAlg)
	}
	return m
}

// sign makes the token.
func (p *Probe) sign(s tokenSpec) string {
	method := s.method
	if method == nil {
		method = jwt.SigningMethodHS256
	}
	t := jwt.NewWithClaims(method, s.claims)
	maps.Copy(t.Header, s.jose)
	signed, err := t.SignedString(p.keyOf(s))
	if err != nil {
		p.Fatalf("sign a token: %v", err)
	}
	return signed
}

// publisher is a token that may publish to the selectors.
func (p *Probe) publisher(selectors ...string) string { return p.sign(p.pubSpec(selectors...)) }

// subscriber is a token that may receive private updates for the selectors.
func (p *Probe) subscriber(selectors ...string) string { return p.sign(p.subSpec(selectors...)) }

// keyOf is the key that s is signed with.
func (p *Probe) keyOf(s tokenSpec) any {
	if s.secret != nil {
		return s.secret
	}
	key, err := signingKey(s.key)
	if err != nil {
		p.Fatalf("sign a token: %v", err)
	}
	return key
}

// signingKey reads a secret or a private key.
func signingKey(key string) (any, error) {
	if !strings.HasPrefix(strings.TrimSpace(key), "-----BEGIN") {
		return []byte(key), nil
	}
	block, _ := pem.Decode([]byte(key))
	if block == nil {
		return nil, errors.New("the key is no PEM")
	}
	if k, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		return k, nil
	}
	if k, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return k, nil
	}
	if k, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return k, nil
	}
	return nil, errors.New("the key is no private key that can be read")
}

// usualAlgorithm is the one of a key when nothing says another.
func usualAlgorithm(key string) (string, error) {
	k, err := signingKey(key)
	if err != nil {
		return "", fmt.Errorf("conformance: the issuer's key: %w", err)
	}
	switch k := k.(type) {
	case *rsa.PrivateKey:
		return "RS256", nil
	case *ecdsa.PrivateKey:
		return map[elliptic.Curve]string{elliptic.P256(): "ES256", elliptic.P384(): "ES384", elliptic.P521(): "ES512"}[k.Curve], nil
	case ed25519.PrivateKey:
		return "EdDSA", nil
	default:
		return "HS256", nil
	}
}

// strangersKey makes a key that fits the algorithm of s and that the hub does not know.
func (p *Probe) strangersKey(s tokenSpec) string {
	k, err := signingKey(s.key)
	if err != nil {
		p.Fatalf("%v", err)
	}
	var other crypto.PrivateKey
	switch k := k.(type) {
	case *rsa.PrivateKey:
		other, err = rsa.GenerateKey(rand.Reader, 2048)
	case *ecdsa.PrivateKey:
		other, err = ecdsa.GenerateKey(k.Curve, rand.Reader)
	case ed25519.PrivateKey:
		_, other, err = ed25519.GenerateKey(rand.Reader)
	default:
		return "a stranger's secret, long enough for all of the HMAC algorithms, 64 bytes"
	}
	if err != nil {
		p.Fatalf("%v", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(other)
	if err != nil {
		p.Fatalf("%v", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// raw signs a payload as it is, with the key and the header of s.
func (p *Probe) raw(s tokenSpec, payload string) string {
	if s.method == nil {
		s.method = jwt.SigningMethodHS256
	}
	jose := map[string]any{"alg": s.method.Alg()}
	maps.Copy(jose, s.jose)
	header, err := json.Marshal(jose)
	if err != nil {
		p.Fatalf("%v", err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	text := b64(header) + "." + b64([]byte(payload))
	sig, err := s.method.Sign(text, p.keyOf(s))
	if err != nil {
		p.Fatalf("%v", err)
	}
	return text + "." + b64(sig)
}
