package app_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

// issuersFile has every key that an entry can have, and a secret.
const issuersFile = `issuers:
  - issuer: https://a.example
    jwt-key: ` + secret + `
    jwt-alg: HS512
    roles: publish
  - issuer: https://b.example/realms/x
    keys:
      - {key: '@/run/keys/b1.pem', alg: EdDSA, kid: b1}
      - key: '@/run/keys/b2.pem'
        alg: ES256
    roles: [publish, subscribe]
  - issuer: https://c.example
    jwks-url: https://joe:` + secret + `@c.example/jwks
    algorithms: [ES256, RS256]
  - issuer: https://d.example/
`

func TestIssuersOfTheFile(t *testing.T) {
	s, _, err := load(t, issuersFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []app.Issuer{
		{URL: "https://a.example", Keys: []app.IssuerKey{{Key: app.NewSecret(secret), Alg: "HS512"}}, Roles: []string{"publish"}},
		{URL: "https://b.example/realms/x", Keys: []app.IssuerKey{
			{Key: app.NewSecret("@/run/keys/b1.pem"), Alg: "EdDSA", ID: "b1"}, {Key: app.NewSecret("@/run/keys/b2.pem"), Alg: "ES256"},
		}, Roles: []string{"publish", "subscribe"}},
		{URL: "https://c.example", JWKS: "https://joe:" + secret + "@c.example/jwks", Algorithms: []string{"ES256", "RS256"}},
		{URL: "https://d.example/"},
	}
	if !reflect.DeepEqual(s.Config.Issuers, want) {
		t.Errorf("got  %+v\nwant %+v", s.Config.Issuers, want)
	}

	var b strings.Builder
	if err := s.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), secret) {
		t.Errorf("a secret is shown:\n%s", &b)
	}
	for _, shown := range []string{"# " + s.Config.ConfigFile + ":1\n", "'@/run/keys/b1.pem'", "kid: b1", "[ES256, RS256]", "https://[redacted]@c.example/jwks"} {
		if !strings.Contains(b.String(), shown) {
			t.Errorf("%s is not in\n%s", shown, &b)
		}
	}
}

func TestShownIssuersCanBeReadAgain(t *testing.T) {
	first, _, err := load(t, strings.NewReplacer(secret+"@", "", secret, "'@/run/keys/a'", "joe:", "").Replace(issuersFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := first.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	second, _, err := load(t, b.String(), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, &b)
	}
	if !reflect.DeepEqual(first.Config.Issuers, second.Config.Issuers) {
		t.Errorf("got  %+v\nwant %+v", second.Config.Issuers, first.Config.Issuers)
	}
}

func TestMistakesInIssuersAreNamed(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		want []string
	}{
		"no list":                     {"issuers: https://a.example", []string{":1: issuers: must be a list"}},
		"nothing":                     {"issuers:", []string{":1: issuers: must be a list"}},
		"a list of texts":             {"issuers: [https://a.example]", []string{":1: issuers: an entry must be a mapping"}},
		"twice":                       {"issuers: []\nissuers: []", []string{":2: issuers is given twice"}},
		"every one at once":           {"issuers:\n  - issuer: ftp://a.example\n    jwt_key: " + secret + "\n  - jwks-urls: x\n    roles: [admin]", []string{`:2: issuers: issuer: "ftp://a.example": must be a whole URL`, ":3: issuers: unknown key jwt_key (did you mean jwt-key?)", ":4: issuers: unknown key jwks-urls (did you mean jwks-url?)", `:5: issuers: roles: "admin": must be one of publish, subscribe`}},
		"a key twice":                 {"issuers:\n  - issuer: https://a.example\n    issuer: https://b.example", []string{"issuer is given twice"}},
		"no issuer":                   {"issuers:\n  - jwt-key: " + secret, []string{":2: issuers: an entry without the key issuer"}},
		"an issuer without a value":   {"issuers:\n  - issuer:", []string{":2: issuers: issuer: has no value"}},
		"plain HTTP":                  {"issuers:\n  - issuer: http://a.example", []string{"must begin with https://"}},
		"a query":                     {"issuers:\n  - issuer: https://a.example?x", []string{"must not have a query"}},
		"a password":                  {"issuers:\n  - issuer: https://joe:x@a.example", []string{"must not have a user"}},
		"an algorithm that is none":   {"issuers:\n  - issuer: https://a.example\n    jwt-key: x\n    jwt-alg: none", []string{`:4: issuers: jwt-alg: "none": must be one of`}},
		"an algorithm without a key":  {"issuers:\n  - issuer: https://a.example\n    jwt-alg: ES256", []string{"jwt-alg is of no use without jwt-key"}},
		"one key and several":         {"issuers:\n  - issuer: https://a.example\n    jwt-key: x\n    keys: [{key: y}]", []string{"choose one"}},
		"keys that are no list":       {"issuers:\n  - issuer: https://a.example\n    keys: x", []string{":3: issuers: keys: must be a list of keys"}},
		"a key without a key":         {"issuers:\n  - issuer: https://a.example\n    keys: [{alg: ES256}]", []string{"an entry without the key key"}},
		"an unknown part of a key":    {"issuers:\n  - issuer: https://a.example\n    keys: [{kyd: a}]", []string{"issuers: keys: unknown key kyd (did you mean kid?)"}},
		"a key that is a list":        {"issuers:\n  - issuer: https://a.example\n    jwt-key: [" + secret + "]", []string{":3: issuers: jwt-key: must be a single value"}},
		"no roles":                    {"issuers:\n  - issuer: https://a.example\n    roles: []", []string{"is an empty list"}},
		"something else is misspelt":  {"isuers: []", []string{"unknown key isuers (did you mean issuers?)"}},
		"a mapping where a list goes": {"issuers: {issuer: https://a.example}", []string{"must be a list"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := load(t, tt.file, nil)
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v does not say %q", err, want)
				}
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}

func TestIssuersThatAreRefused(t *testing.T) {
	keys := []string{"--publisher-jwt-key=" + secret, "--subscriber-jwt-key=" + secret, "--listen=127.0.0.1:0"}
	public := "--public-url=https://hub.example/.well-known/mercure"
	issuer := []string{"--listen=127.0.0.1:0", "--issuer=https://a.example", "--issuer-jwt-key=" + secret, public}
	join := func(lists ...[]string) (all []string) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	pem := "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"
	for name, tt := range map[string]struct {
		file    string
		args    []string
		refused string
		warning string
	}{
		"beside classic keys":            {"", join(keys, issuer), "", ""},
		"an issuer alone":                {"", issuer, "", "classic tokens will be refused"},
		"beside a publisher's key":       {"", join(keys[:1], issuer), "", "subscribers' classic tokens will be refused"},
		"beside a subscriber's key":      {"", join(keys[1:], issuer), "", "publications with classic tokens will be refused"},
		"strict":                         {"", join(issuer, []string{"--classic=false"}), "", ""},
		"strict without an issuer":       {"", []string{"--listen=127.0.0.1:0", "--classic=false"}, "need an issuer", ""},
		"strict with classic keys":       {"", join(keys, issuer, []string{"--classic=false"}), "verify classic tokens", ""},
		"strict with the classic form":   {"", join(issuer, []string{"--classic=false", "--default-generation=classic"}), "--default-generation classic", ""},
		"strict with both forms":         {"", join(issuer, []string{"--classic=false", "--subscriptions", "--subscription-events=both"}), "one form left", ""},
		"strict with a classic cookie":   {"", join(issuer, []string{"--classic=false", "--cookie-name=a"}), "", "--cookie-name is of no use"},
		"strict --dev":                   {"", []string{"--dev", "--classic=false"}, "", ""},
		"both forms of nothing":          {"", join(issuer, keys, []string{"--subscription-events=both"}), "", "--subscription-events is of no use"},
		"no name of this hub":            {"", join(keys, issuer[:3]), "--public-url, or --resource-identifier", ""},
		"a name of this hub":             {"", join(keys, issuer[:3], []string{"--resource-identifier=https://hub.example/x"}), "", ""},
		"a name for nobody":              {"", join(keys, []string{"--resource-identifier=https://hub.example/x"}), "", "--resource-identifier is of no use"},
		"a key without an issuer":        {"", join(keys, []string{"--issuer-jwt-key=" + secret}), "--issuer-jwt-key is of no use without --issuer", ""},
		"a set without an issuer":        {"", join(keys, []string{"--issuer-jwks-url=https://a.example/jwks"}), "--issuer-jwks-url is of no use without --issuer", ""},
		"an algorithm without an issuer": {"", join(keys, []string{"--issuer-jwt-alg=ES256"}), "--issuer-jwt-alg is of no use without --issuer", ""},
		"a key and a set":                {"", join(issuer, []string{"--issuer-jwks-url=https://a.example/jwks"}), "choose one", ""},
		"a set over plain HTTP":          {"", []string{issuer[0], issuer[1], public, "--issuer-jwks-url=http://a.example/jwks"}, "https:// or file://", ""},
		"a set of secrets":               {"issuers: [{issuer: https://b.example, jwks-url: 'https://b.example/k', algorithms: [HS256]}]", join(keys, []string{public}), "HS256", ""},
		"a short secret":                 {"", join(issuer, []string{"--issuer-jwt-key=short"}), "at least 32", ""},
		"a short secret allowed":         {"", join(issuer, keys, []string{"--issuer-jwt-key=short", "--allow-short-keys"}), "", "only 5 bytes"},
		"a PEM key with HMAC":            {"", join(issuer, []string{"--issuer-jwt-key=" + pem}), "shared secret", ""},
		"a JSON Web Key":                 {"", join(issuer, []string{`--issuer-jwt-key={"kty":"oct","k":"` + secret + `"}`}), "JSON Web Key", ""},
		"a key file that is not there":   {"", join(issuer, []string{"--issuer-jwt-key=@/nowhere/key"}), "/nowhere/key", ""},
		"the same issuer twice":          {"issuers: [{issuer: https://a.example, jwt-key: " + secret + "}]", issuer, "issuer https://a.example is configured twice", ""},
		"two issuers":                    {"issuers: [{issuer: https://b.example, jwt-key: " + secret + "}]", join(keys, issuer), "", ""},
		"a key's own algorithms":         {"issuers: [{issuer: https://b.example, jwt-key: " + secret + ", algorithms: [HS256]}]", join(keys, []string{public}), "algorithms are for a JWK Set", ""},
		"a local issuer":                 {"", join(keys, []string{public, "--issuer=http://localhost:9000/x", "--issuer-jwt-key=" + secret}), "", ""},
		"metadata over plain HTTP":       {"", join(keys, []string{public, "--issuer=http://localhost:9000"}), "metadata is read over https:// only", ""},
		"two keys of one name":           {"issuers: [{issuer: https://b.example, keys: [{key: " + secret + ", kid: a}, {key: " + secret + ", kid: a}]}]", join(keys, []string{public}), "same key id", ""},
		"any origin and a cookie":        {"", join(issuer, []string{"--cors-origin=*", "--access-token-cookie=a"}), "--access-token-cookie", ""},
		"a cookie's name that is none":   {"", join(issuer, []string{"--access-token-cookie=a b"}), "not a name", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := load(t, tt.file, nil, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			log, lines := logged(t)
			_, err = app.New(s.Config, log)
			switch {
			case tt.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)):
				t.Errorf("error %v, want one with %q", err, tt.refused)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error tells a secret: %v", err)
			}
			warnings := lines()
			if strings.Contains(warnings, secret) {
				t.Errorf("the log tells a secret: %s", warnings)
			}
			if err == nil && tt.warning == "" && strings.Contains(warnings, "WARN") {
				t.Errorf("warned: %s", warnings)
			}
			if err == nil && !strings.Contains(warnings, tt.warning) {
				t.Errorf("log %q, want %q", warnings, tt.warning)
			}
		})
	}
}

// TestIssuersOfTheReferenceCanBeRead keeps the example of docs/configuration.md right.
func TestIssuersOfTheReferenceCanBeRead(t *testing.T) {
	_, example, _ := strings.Cut(readDocument(t, "docs/configuration.md"), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	s, _, err := load(t, example, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Config.Issuers); n != 4 || len(s.Config.Issuers[1].Keys) != 2 {
		t.Errorf("%d issuers: %+v", n, s.Config.Issuers)
	}
}
