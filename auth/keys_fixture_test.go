package auth_test

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
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

// Secrets of the vectors; obviously for tests only.
const (
	publisherSecret  = "test-only-publisher-secret-do-not-use-0001"
	subscriberSecret = "test-only-subscriber-secret-do-not-use-0002"
	evilSecret       = "test-only-attacker-secret-do-not-use-00003"
)

// signers are made once: RSA keys take a while.
type signers struct {
	rsa                 *rsa.PrivateKey
	es256, es384, es512 *ecdsa.PrivateKey
	evilES256           *ecdsa.PrivateKey
	ed                  ed25519.PrivateKey
}

var makeSigners = sync.OnceValue(func() signers {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var s signers
	var err error
	s.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	s.es256, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	s.evilES256, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	s.es384, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(err)
	s.es512, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	must(err)
	_, s.ed, err = ed25519.GenerateKey(rand.Reader)
	must(err)
	return s
})

func publicPEM(tb testing.TB, key crypto.PublicKey) string {
	tb.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func privatePEM(tb testing.TB, key crypto.PrivateKey) string {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func mustKeys(tb testing.TB, key, alg string) auth.Keys {
	tb.Helper()
	k, err := auth.ParseKey("test", key, alg, false)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func mustKeySet(tb testing.TB, allowed []string, specs ...auth.KeySpec) auth.Keys {
	tb.Helper()
	k, err := auth.ParseKeySet("test", specs, allowed, false)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// newAuth is a JWT with the secrets of the vectors.
func newAuth(tb testing.TB, change func(*auth.Options)) *auth.JWT {
	tb.Helper()
	o := auth.Options{Publisher: mustKeys(tb, publisherSecret, ""), Subscriber: mustKeys(tb, subscriberSecret, "")}
	if change != nil {
		change(&o)
	}
	j, err := auth.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return j
}

// sign makes a token out of exactly these header and claims texts.
func sign(tb testing.TB, header, claims, alg string, key any) string {
	tb.Helper()
	text := segment(header) + "." + segment(claims)
	sig, err := jwt.GetSigningMethod(alg).Sign(text, key)
	if err != nil {
		tb.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func segment(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// hs256 signs claims with a secret and the usual header.
func hs256(tb testing.TB, secret, claims string) string {
	tb.Helper()
	return sign(tb, `{"alg":"HS256","typ":"JWT"}`, claims, "HS256", []byte(secret))
}

func toJSON(tb testing.TB, v any) string {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

// get is a subscription request, post a publication, each with header lines "Name: value".
func get(target string, lines ...string) *http.Request {
	return request(http.MethodGet, target, lines)
}

func post(lines ...string) *http.Request {
	return request(http.MethodPost, "https://hub.example.com/.well-known/mercure", lines)
}

func request(method, target string, lines []string) *http.Request {
	r := httptest.NewRequest(method, target, http.NoBody)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// problemOf fails the test unless err is a problem.
func problemOf(tb testing.TB, err error) *spec.Problem {
	tb.Helper()
	p, ok := err.(*spec.Problem) //nolint:errorlint // the contract is this very type
	if !ok {
		tb.Fatalf("error is %T (%v), want *spec.Problem", err, err)
	}
	return p
}
