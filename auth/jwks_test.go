package auth_test

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

// webKey is the public JWK of key.
func webKey(tb testing.TB, key crypto.PublicKey, kid string, more map[string]any) map[string]any {
	tb.Helper()
	k, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: kid}})
	if err != nil {
		tb.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(toJSON(tb, k.Marshal())), &members); err != nil {
		tb.Fatal(err)
	}
	maps.Copy(members, more)
	return members
}

func webKeys(tb testing.TB, keys ...map[string]any) string {
	tb.Helper()
	return toJSON(tb, map[string]any{"keys": keys})
}

// keyServer serves what its handler says over TLS.
func keyServer(t *testing.T, h http.HandlerFunc) (*httptest.Server, auth.JWKSOptions) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s, auth.JWKSOptions{AllowPrivate: true, RootCAs: roots, MinRefresh: time.Nanosecond}
}

func openSet(t *testing.T, rawURL string, o auth.JWKSOptions) *auth.JWKS {
	t.Helper()
	j, err := auth.NewJWKS(t.Context(), rawURL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	return j
}

func TestKeysAreRotatedByKid(t *testing.T) {
	t.Parallel()
	s := makeSigners()
	var mu sync.Mutex
	body := webKeys(t, webKey(t, s.es256.Public(), "es-1", map[string]any{"use": "sig", "alg": "ES256"}))
	server, o := keyServer(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = w.Write([]byte(body))
	})
	keys := openSet(t, server.URL, o)
	j := newAuth(t, func(o *auth.Options) { o.Subscriber = keys })
	accepted := func(token string) error {
		_, err := j.Authorize(get("/hub", "Authorization: Bearer "+token), spec.ActionSubscribe)
		return err
	}
	first := sign(t, `{"alg":"ES256","kid":"es-1"}`, `{}`, "ES256", s.es256)
	second := sign(t, `{"alg":"RS256","kid":"rs-1"}`, `{}`, "RS256", s.rsa)
	if err := accepted(first); err != nil {
		t.Fatal(err)
	}
	if err := accepted(sign(t, `{"alg":"ES256"}`, `{}`, "ES256", s.es256)); err != nil {
		t.Errorf("without kid: %v", err)
	}
	for name, token := range map[string]string{
		"key not in the set":          second,
		"kid of a key not in the set": sign(t, `{"alg":"ES256","kid":"x"}`, `{}`, "ES256", s.es256),
		"foreign key, known kid":      sign(t, `{"alg":"ES256","kid":"es-1"}`, `{}`, "ES256", s.evilES256),
		"algorithm of another key":    sign(t, `{"alg":"ES384","kid":"es-1"}`, `{}`, "ES384", s.es384),
		"HMAC":                        hs256(t, publicPEM(t, s.es256.Public()), `{}`),
	} {
		if accepted(token) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	mu.Lock()
	body = webKeys(t, webKey(t, s.rsa.Public(), "rs-1", nil))
	mu.Unlock()
	if err := accepted(second); err != nil {
		t.Errorf("the new key was not fetched: %v", err)
	}
	if accepted(first) == nil {
		t.Error("a token of the key that left is still taken from the cache")
	}
}

func TestWhichKeysOfASetAreUsed(t *testing.T) {
	t.Parallel()
	s := makeSigners()
	var fetched sync.Once
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		fetched.Do(func() { t.Error("a URL inside a key was fetched") })
	}))
	t.Cleanup(trap.Close)
	scalar, err := s.es256.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	secret := map[string]any{"kty": "oct", "k": base64.RawURLEncoding.EncodeToString([]byte(subscriberSecret))}
	es := func(more map[string]any) map[string]any { return webKey(t, s.es256.Public(), "", more) }
	small := webKey(t, s.rsa.Public(), "", map[string]any{"n": base64.RawURLEncoding.EncodeToString(new(big.Int).SetBit(big.NewInt(1), 1023, 1).Bytes())})
	for name, c := range map[string]struct {
		key     map[string]any
		allowed []string
		used    string // algorithm; "" = the key is not used
	}{
		"EC":                   {es(nil), nil, "ES256"},
		"Ed25519 without alg":  {dropAlg(webKey(t, s.ed.Public(), "", nil)), nil, "EdDSA"},
		"RSA":                  {webKey(t, s.rsa.Public(), "", nil), nil, "PS512"},
		"use sig":              {es(map[string]any{"use": "sig"}), nil, "ES256"},
		"use enc":              {es(map[string]any{"use": "enc"}), nil, ""},
		"key_ops verify":       {es(map[string]any{"key_ops": []string{"verify"}}), nil, "ES256"},
		"key_ops without it":   {es(map[string]any{"key_ops": []string{"encrypt"}}), nil, ""},
		"alg that fits":        {es(map[string]any{"alg": "ES256"}), nil, "ES256"},
		"alg that fits not":    {es(map[string]any{"alg": "ES384"}), nil, ""},
		"alg of encryption":    {webKey(t, s.rsa.Public(), "", map[string]any{"alg": "RSA-OAEP"}), nil, ""},
		"RSA of 1024 bits":     {small, nil, ""},
		"outside the list":     {es(nil), []string{"RS256"}, ""},
		"secret":               {secret, nil, ""},
		"secret when listed":   {secret, []string{"HS256"}, "HS256"},
		"short secret":         {map[string]any{"kty": "oct", "k": "AAAA"}, []string{"HS256"}, ""},
		"unknown type":         {map[string]any{"kty": "XYZ"}, nil, ""},
		"X.509 URL is ignored": {es(map[string]any{"x5u": trap.URL, "x5c": []string{"AAAA"}, "x5t": "x"}), nil, "ES256"},
		"private part":         {es(map[string]any{"d": base64.RawURLEncoding.EncodeToString(scalar)}), nil, "ES256"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "set.json")
			write(t, file, webKeys(t, c.key))
			j, err := auth.NewJWKS(t.Context(), fileURL(file), auth.JWKSOptions{Algorithms: c.allowed})
			if c.used == "" {
				if err == nil {
					j.Close()
					t.Fatal("a set without a usable key was accepted")
				}
				if !strings.Contains(err.Error(), "no key usable with") {
					t.Error(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			if found := j.Find(t.Context(), c.used, ""); len(found) != 1 {
				t.Errorf("%d keys for %s, want one", len(found), c.used)
			} else if _, private := found[0].(interface{ Public() crypto.PublicKey }); private {
				t.Error("a private key was kept")
			}
		})
	}
}

func dropAlg(k map[string]any) map[string]any {
	delete(k, "alg")
	return k
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func fileURL(name string) string {
	p := filepath.ToSlash(name)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return (&url.URL{Scheme: "file", Path: p}).String()
}

func TestAFileIsReadAgainOnReload(t *testing.T) {
	t.Parallel()
	s := makeSigners()
	file := filepath.Join(t.TempDir(), "key set.json")
	write(t, file, webKeys(t, webKey(t, s.es256.Public(), "one", nil)))
	j := openSet(t, fileURL(file), auth.JWKSOptions{})
	write(t, file, webKeys(t, webKey(t, s.es384.Public(), "two", nil)))
	if err := j.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if j.Find(t.Context(), "ES384", "two") == nil || j.Find(t.Context(), "ES256", "one") != nil {
		t.Error("the set in force is not the one in the file")
	}
	for name, text := range map[string]string{"damaged": `{"keys":`, "no set": `{}`, "too many": webKeys(t, make([]map[string]any, 65)...)} {
		write(t, file, text)
		if err := j.Reload(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := j.Reload(t.Context()); err == nil || j.Find(t.Context(), "ES384", "two") == nil {
		t.Errorf("missing file: %v; the keys before must stay", err)
	}
}

func TestFetchingIsGuarded(t *testing.T) {
	t.Parallel()
	set := webKeys(t, webKey(t, makeSigners().es256.Public(), "", nil))
	elsewhere, _ := keyServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(set)) })
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	server, options := keyServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/set":
			_, _ = w.Write([]byte(set))
		case "/moved":
			http.Redirect(w, r, "/set", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/elsewhere":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case "/plain":
			http.Redirect(w, r, "http://"+r.Host+"/set", http.StatusFound)
		case "/large":
			_, _ = w.Write([]byte(set + strings.Repeat(" ", 300<<10)))
		case "/slow":
			select {
			case <-r.Context().Done():
			case <-hang:
			}
		case "/html":
			_, _ = w.Write([]byte("<html>"))
		default:
			http.NotFound(w, r)
		}
	})
	strict := options
	strict.AllowPrivate = false
	untrusting := options
	untrusting.RootCAs = x509.NewCertPool()
	quick := options
	quick.Timeout = 50 * time.Millisecond
	for name, c := range map[string]struct {
		url     string
		options auth.JWKSOptions
		refused string
	}{
		"plain document":            {server.URL + "/set", options, ""},
		"redirect on the same host": {server.URL + "/moved", options, ""},
		"private address":           {server.URL + "/set", strict, "inside the network"},
		"private address by name":   {strings.Replace(server.URL, "127.0.0.1", "localhost", 1), strict, "inside the network"},
		"unknown certificate":       {server.URL + "/set", untrusting, "certificate"},
		"redirect loop":             {server.URL + "/loop", options, "more than 3 redirects"},
		"redirect to another host":  {server.URL + "/elsewhere", options, "another host"},
		"redirect to plain HTTP":    {server.URL + "/plain", options, "away from https"},
		"too large":                 {server.URL + "/large", options, "more than 262144 bytes"},
		"too slow":                  {server.URL + "/slow", quick, "deadline"},
		"not found":                 {server.URL + "/x", options, "404"},
		"no JSON":                   {server.URL + "/html", options, "not a JWK Set"},
		"plain HTTP":                {strings.Replace(server.URL, "https", "http", 1) + "/set", options, "want an https:// or file:// URL"},
		"no scheme":                 {"set.json", options, "want an https:// or file:// URL"},
		"no host":                   {"https:///set", options, "want an https:// or file:// URL"},
		"not a URL":                 {"https://%zz", options, "cannot be parsed"},
		"file on a host":            {"file://server/set.json", options, "file:///path"},
		"password":                  {strings.Replace(server.URL, "https://", "https://user:hunter2@", 1) + "/x", options, "/x: the answer is 404"},
		"token as user":             {strings.Replace(server.URL, "https://", "https://hunter2@", 1) + "/x", options, "/x: the answer is 404"},
		"token in the query":        {server.URL + "/x?key=hunter2#hunter2", options, "/x: the answer is 404"},
		"token in a refused URL":    {"http:hunter2@server?key=hunter2", options, "want an https:// or file:// URL"},
		"directory":                 {fileURL(t.TempDir()), options, "not a regular file"},
		"unknown algorithm":         {server.URL + "/set", auth.JWKSOptions{Algorithms: []string{"none"}}, "unsigned"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, err := auth.NewJWKS(t.Context(), c.url, c.options)
			if err == nil {
				j.Close()
			}
			switch {
			case c.refused == "" && err != nil:
				t.Error(err)
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("got %v, want a reason with %q", err, c.refused)
			case err != nil && strings.Contains(err.Error(), "hunter2"):
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

func TestASetWithSecretsWarns(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "set.json")
	write(t, file, `{"keys":[{"kty":"oct","k":"`+base64.RawURLEncoding.EncodeToString([]byte(subscriberSecret))+`"}]}`)
	keys := openSet(t, fileURL(file), auth.JWKSOptions{Algorithms: []string{"HS256", "ES256"}})
	if len(keys.Warnings()) != 1 {
		t.Errorf("warnings %q", keys.Warnings())
	}
	j := newAuth(t, func(o *auth.Options) { o.Subscriber = keys })
	if _, err := j.Authorize(get("/hub", "Authorization: Bearer "+hs256(t, subscriberSecret, `{}`)), spec.ActionSubscribe); err != nil {
		t.Error(err)
	}
}

func TestTheRefresherEndsWithItsContext(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "set.json")
	write(t, file, webKeys(t, webKey(t, makeSigners().es256.Public(), "", nil)))
	ctx, cancel := context.WithCancel(t.Context())
	j, err := auth.NewJWKS(ctx, fileURL(file), auth.JWKSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	j.Close()
	j.Close() // twice is harmless
}
