package auth_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

func TestMintedTokensAreAccepted(t *testing.T) {
	t.Parallel()
	s := makeSigners()
	ecDER, err := x509.MarshalECPrivateKey(s.es256)
	if err != nil {
		t.Fatal(err)
	}
	sec1 := string(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 0}})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: ecDER}))
	pkcs1 := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(s.rsa)}))
	for name, c := range map[string]struct{ private, alg, public, publicAlg string }{
		"secret":                   {publisherSecret, "", publisherSecret, ""},
		"secret, HS384":            {publisherSecret, "HS384", publisherSecret, "HS384"},
		"RSA, by default":          {privatePEM(t, s.rsa), "", publicPEM(t, s.rsa.Public()), "RS256"},
		"RSA in PKCS #1, PS384":    {pkcs1, "PS384", publicPEM(t, s.rsa.Public()), "PS384"},
		"P-256 in SEC 1":           {sec1, "", publicPEM(t, s.es256.Public()), "ES256"},
		"P-384, by default":        {privatePEM(t, s.es384), "", publicPEM(t, s.es384.Public()), "ES384"},
		"P-521, by default":        {privatePEM(t, s.es512), "", publicPEM(t, s.es512.Public()), "ES512"},
		"Ed25519, by default":      {privatePEM(t, s.ed), "", publicPEM(t, s.ed.Public()), "EdDSA"},
		"Ed25519 with a key id":    {privatePEM(t, s.ed), "EdDSA", publicPEM(t, s.ed.Public()), "EdDSA"},
		"RSA with another default": {privatePEM(t, s.rsa), "RS512", publicPEM(t, s.rsa.Public()), "RS512"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token, err := auth.Mint(auth.MintOptions{
				Key: c.private, Algorithm: c.alg, KeyID: "k", Publish: []string{"https://example.com/{id}"},
				Subscribe: []string{"*"}, Payload: json.RawMessage(`{"user":7}`), Subject: "me", TTL: time.Hour,
			})
			if err != nil {
				t.Fatal(err)
			}
			keys := mustKeys(t, c.public, c.publicAlg)
			j := newAuth(t, func(o *auth.Options) { o.Publisher, o.Subscriber = keys, keys })
			line := "Authorization: Bearer " + token
			g, err := j.Authorize(post(line), spec.ActionPublish)
			if err != nil {
				t.Fatal(err)
			}
			if !g.Allows([]string{"https://example.com/1"}) || g.Allows([]string{"https://example.com/1", "https://other.example/"}) {
				t.Error("the publish grant is not the one that was minted")
			}
			if g.Payload != nil || g.Subject != "me" || g.Dialect != "classic" || g.Anonymous {
				t.Errorf("publish grant %+v", g)
			}
			g, err = j.Authorize(get("/hub?topic=a", line), spec.ActionSubscribe)
			if err != nil {
				t.Fatal(err)
			}
			if !g.Allows([]string{"anything"}) || string(g.Payload) != `{"user":7}` {
				t.Errorf("subscribe grant %+v", g)
			}
			if until := time.Until(g.Expires); until <= 59*time.Minute || until > time.Hour {
				t.Errorf("expires in %v, want an hour", until)
			}
		})
	}
}

func TestMintRefuses(t *testing.T) {
	t.Parallel()
	s := makeSigners()
	for name, c := range map[string]struct {
		o    auth.MintOptions
		want string
	}{
		"no key":            {auth.MintOptions{}, "a key is needed"},
		"public key":        {auth.MintOptions{Key: publicPEM(t, s.rsa.Public())}, "this is a public key"},
		"PEM with HS256":    {auth.MintOptions{Key: privatePEM(t, s.rsa), Algorithm: "HS256"}, "shared secret"},
		"JSON Web Key":      {auth.MintOptions{Key: `{"kty":"oct","k":"AAAA"}`}, "the text of a JSON Web Key"},
		"secret with RS256": {auth.MintOptions{Key: publisherSecret, Algorithm: "RS256"}, "private key in PEM form"},
		"none":              {auth.MintOptions{Key: publisherSecret, Algorithm: "none"}, "unsigned"},
		"unknown with PEM":  {auth.MintOptions{Key: privatePEM(t, s.rsa), Algorithm: "XS1"}, "not supported"},
		"key that fits not": {auth.MintOptions{Key: privatePEM(t, s.rsa), Algorithm: "ES256"}, "cannot verify ES256"},
		"payload not JSON":  {auth.MintOptions{Key: publisherSecret, Payload: json.RawMessage(`{`)}, "not valid JSON"},
		"encrypted":         {auth.MintOptions{Key: "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"}, "encrypted"},
		"block without key": {auth.MintOptions{Key: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"}, "holds no key"},
		"block of no key":   {auth.MintOptions{Key: "-----BEGIN X-----\nAAAA\n-----END X-----\n"}, "not a private key"},
		"unreadable PEM":    {auth.MintOptions{Key: "-----BEGIN PRIVATE KEY-----"}, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := auth.Mint(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a reason with %q", err, c.want)
			}
		})
	}
}

func TestMintLeavesOutWhatIsNotAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for want, o := range map[string]auth.MintOptions{
			`{"iat":946684800,"mercure":{}}`:                                  {},
			`{"iat":946684800,"mercure":{"publish":[]}}`:                      {Publish: []string{}},
			`{"iat":946684800,"mercure":{"payload":null},"sub":"s"}`:          {Payload: json.RawMessage("null"), Subject: "s"},
			`{"exp":946684860,"iat":946684800,"mercure":{}}`:                  {TTL: time.Minute},
			`{"exp":946684740,"iat":946684800,"mercure":{}}`:                  {TTL: -time.Minute},
			`{"iat":946684800,"mercure":{"publish":["a"],"subscribe":["b"]}}`: {Publish: []string{"a"}, Subscribe: []string{"b"}},
		} {
			o.Key = publisherSecret
			token, err := auth.Mint(o)
			if err != nil {
				t.Fatal(err)
			}
			r, err := auth.Inspect(token, auth.InspectOptions{})
			if err != nil || string(r.Claims) != want || string(r.Header) != `{"alg":"HS256","typ":"JWT"}` {
				t.Errorf("claims %s, header %s (%v), want %s", r.Claims, r.Header, err, want)
			}
		}
	})
}
