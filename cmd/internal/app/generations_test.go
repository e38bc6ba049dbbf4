package app_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

const (
	testIssuer   = "https://id.example"
	testResource = "https://hub.example/.well-known/mercure"
)

// accessToken is a draft-08 token for every topic.
func accessToken(t *testing.T, key, issuer string) string {
	t.Helper()
	token, err := auth.Mint(auth.MintOptions{
		Generation: spec.Draft08.Name, Key: key, Issuer: issuer, Audience: []string{testResource}, TTL: time.Hour,
		Details: []auth.MintDetail{{
			Actions: []spec.Action{spec.ActionPublish, spec.ActionSubscribe},
			Topics:  []topic.Selector{{Kind: topic.Exact, Pattern: "*"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// published is the status of a private publication with token.
func published(t *testing.T, a *app.App, token, data string) int {
	t.Helper()
	p := client.Publisher{URL: a.URL(), Token: token, HTTP: httpClient(t)}
	_, err := p.Publish(t.Context(), &spec.Update{Topics: []string{"a"}, Data: data, Private: true})
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Status
	}
	if err != nil {
		t.Fatal(err)
	}
	return http.StatusOK
}

// crossed has a subscriber of each generation receive what a publisher of each publishes, privately.
func crossed(t *testing.T, a *app.App, classic, draft08 string) {
	t.Helper()
	for name, s := range map[string]*client.Subscriber{
		"classic":  {URL: a.URL(), Token: classic, Topics: []string{"{v}"}, HTTP: httpClient(t)},
		"draft-08": {URL: a.URL(), Token: draft08, Match: []string{"a"}, HTTP: httpClient(t)},
	} {
		events, _ := subscribe(t.Context(), t, s)
		for _, publisher := range []struct{ name, token string }{{"by classic", classic}, {"by draft-08", draft08}} {
			if status := published(t, a, publisher.token, publisher.name); status != http.StatusOK {
				t.Fatalf("published %s: %d", publisher.name, status)
			}
			if e := <-events; e.Data != publisher.name {
				t.Errorf("the %s subscriber got %q, want %q", name, e.Data, publisher.name)
			}
		}
	}
}

// Covers: G-01, G-21, D08-20.
func TestBothGenerationsWorkInDevOutOfTheBox(t *testing.T) {
	a, _ := start(t, "--dev", "--transport=memory")
	var banner strings.Builder
	if err := a.WriteBanner(&banner, "v0"); err != nil {
		t.Fatal(err)
	}
	token := regexp.MustCompile(`(?m)^  Token   (eyJ\S+)$`).FindStringSubmatch(banner.String())
	token08 := regexp.MustCompile(`(?m)^  (eyJ\S+)$`).FindStringSubmatch(banner.String())
	if token == nil || token08 == nil {
		t.Fatalf("banner %s", &banner)
	}
	crossed(t, a, token[1], token08[1])
}

// Covers: G-22.
func TestStrictDevSpeaksDraft08Alone(t *testing.T) {
	a, _ := start(t, "--dev", "--classic=false", "--transport=memory")
	var banner strings.Builder
	if err := a.WriteBanner(&banner, "v0"); err != nil {
		t.Fatal(err)
	}
	token := regexp.MustCompile(`(?m)^  Token   (eyJ\S+)$`).FindStringSubmatch(banner.String())
	if token == nil || !strings.Contains(banner.String(), "?match=hello'") || strings.Count(banner.String(), token[1]) != 2 {
		t.Fatalf("banner %s", &banner)
	}
	if status := published(t, a, token[1], "x"); status != http.StatusOK {
		t.Errorf("published with the token that is printed: %d", status)
	}
	if status, body := get(t, httpClient(t), a.URL()+"?topic=hello"); status != http.StatusBadRequest {
		t.Errorf("a classic subscription: %d %s", status, body)
	}
}

// Covers: G-02, G-18, DIS-03, DIS-04, DIS-05, DIS-08, ERR-07, D08-18.
func TestIssuersBesideClassicKeys(t *testing.T) {
	a, lines := start(t, append(both, "--issuer="+testIssuer, "--issuer-jwt-key="+secret+"-of-the-issuer", "--public-url="+testResource, "--access-token-cookie=hub")...)
	crossed(t, a, mint(t, secret), accessToken(t, secret+"-of-the-issuer", testIssuer))
	for name, token := range map[string]string{
		"a draft-08 token by the classic key": accessToken(t, secret, testIssuer),
		"a classic token by the issuer's key": mint(t, secret+"-of-the-issuer"),
		"a token of another issuer":           accessToken(t, secret+"-of-the-issuer", "https://other.example"),
	} {
		if status := published(t, a, token, "x"); status != http.StatusUnauthorized {
			t.Errorf("%s: %d, want 401", name, status)
		}
	}
	if l := lines(); !strings.Contains(l, "classic=true issuers=1") {
		t.Errorf("the log does not tell of the generations: %s", l)
	}

	hc := httpClient(t)
	metadata := strings.TrimSuffix(a.URL(), spec.DefaultHubPath) + spec.ResourceMetadataPath + spec.DefaultHubPath
	status, body := get(t, hc, metadata)
	var doc map[string]any
	if err := json.Unmarshal([]byte(body), &doc); err != nil || status != http.StatusOK {
		t.Fatalf("metadata: %d %s, %v", status, body, err)
	}
	if doc["resource"] != testResource || doc["mercure_cookie"] != "hub" || doc["authorization_servers"] != nil {
		t.Errorf("metadata %s", body)
	}
	plain, _ := start(t, both...)
	if status, _ := get(t, hc, strings.Replace(metadata, a.Addr(), plain.Addr(), 1)); status != http.StatusNotFound {
		t.Errorf("metadata of a hub without issuers: %d, want 404", status)
	}
}

func TestIssuerThatMayOnlySubscribe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "set.json")
	if err := os.WriteFile(file, []byte(publicSet), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "hub.yaml")
	err := os.WriteFile(config, []byte(`
public-url: `+testResource+`
issuers:
  - issuer: `+testIssuer+`
    keys: [{key: `+secret+`, kid: a}]
    roles: subscribe
  - issuer: https://set.example
    jwks-url: file://`+file+`
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := start(t, "--config="+config, "--transport=memory")
	reader, writer := accessToken(t, secret, testIssuer), accessToken(t, privateKey, "https://set.example")
	if status := published(t, a, reader, "x"); status != http.StatusUnauthorized {
		t.Errorf("published by an issuer of subscribers: %d, want 401", status)
	}
	events, _ := subscribe(t.Context(), t, &client.Subscriber{URL: a.URL(), Token: reader, Match: []string{"a"}, HTTP: httpClient(t)})
	if status := published(t, a, writer, "private"); status != http.StatusOK {
		t.Fatalf("published by the set's key: %d", status)
	}
	if e := <-events; e.Data != "private" {
		t.Errorf("got %q", e.Data)
	}
}

func TestReloadReadsKeysOfIssuersAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	write := func(key string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(secret)
	a, lines := start(t, "--transport=memory", "--classic=false", "--issuer="+testIssuer, "--issuer-jwt-key=@"+file, "--resource-identifier="+testResource)
	const next = "the-next-secret-that-nobody-may-ever-see"
	if o, n := published(t, a, accessToken(t, secret, testIssuer), ""), published(t, a, accessToken(t, next, testIssuer), ""); o != 200 || n != 401 {
		t.Fatalf("old key %d, new key %d before the rotation; want 200, 401", o, n)
	}
	write(next)
	if err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o, n := published(t, a, accessToken(t, secret, testIssuer), ""), published(t, a, accessToken(t, next, testIssuer), ""); o != 401 || n != 200 {
		t.Errorf("old key %d, new key %d after the rotation; want 401, 200", o, n)
	}
	write("short")
	if err := a.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), testIssuer) {
		t.Errorf("a short key: %v", err)
	}
	if n := published(t, a, accessToken(t, next, testIssuer), ""); n != 200 {
		t.Errorf("status %d after a failed reload, want 200", n)
	}
	if strings.Contains(lines(), next) {
		t.Error("the log tells the key")
	}
}

func TestTokensAreExplainedAsTheHubTakesThem(t *testing.T) {
	const other = "another-secret-that-nobody-may-ever-see"
	args := []string{
		"--publisher-jwt-key=" + secret, "--subscriber-jwt-key=" + other, "--issuer=" + testIssuer, "--issuer-jwt-key=" + secret,
		"--public-url=" + testResource,
	}
	for name, tt := range map[string]struct {
		token              string
		args               []string
		accepted           bool
		publish, subscribe bool
		says               string // a problem, "" = none
	}{
		"of the publishers' key":   {mint(t, secret), nil, true, true, false, ""},
		"of the subscribers' key":  {mint(t, other), nil, true, false, true, ""},
		"of no key":                {mint(t, other+"x"), nil, false, true, true, "not verified"},
		"of the issuer":            {accessToken(t, secret, testIssuer), nil, true, true, true, ""},
		"of another issuer":        {accessToken(t, secret, "https://x.example"), nil, false, true, true, "none of those that the hub knows"},
		"of the issuer, other key": {accessToken(t, other, testIssuer), nil, false, true, true, "not verified"},
		"for another hub":          {accessToken(t, secret, testIssuer), []string{"--resource-identifier=https://x.example"}, false, true, true, "audience"},
		"without an end":           {mint(t, secret), []string{"--classic-require-exp"}, false, true, false, "--classic-require-exp"},
		"classic, not taken":       {mint(t, secret), []string{"--publisher-jwt-key=", "--subscriber-jwt-key=", "--classic=false"}, false, true, true, "--classic=false"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := load(t, "", nil, append(append([]string(nil), args...), tt.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			r, err := app.Inspect(t.Context(), s.Config, tt.token, []string{"a"})
			if err != nil {
				t.Fatal(err)
			}
			if r.Accepted != tt.accepted || !r.Checked || len(r.Topics) != 1 || r.Topics[0].Publish.Granted != tt.publish || r.Topics[0].Subscribe.Granted != tt.subscribe {
				t.Errorf("%+v", r)
			}
			if problems := strings.Join(r.Problems, "\n"); !strings.Contains(problems, tt.says) || tt.says == "" && problems != "" {
				t.Errorf("problems %q, want %q", problems, tt.says)
			}
		})
	}
}

func TestKeysOfDevAreNotGuessed(t *testing.T) {
	s, _, err := load(t, "dev: true", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := app.Inspect(t.Context(), s.Config, mint(t, secret), nil); !errors.Is(err, app.ErrUsage) || !strings.Contains(err.Error(), "dev-keys.json") {
		t.Errorf("error %v", err)
	}
}

func TestDevWithAnIssuerOfMyOwn(t *testing.T) {
	a, _ := start(t, "--dev", "--transport=memory", "--issuer="+testIssuer, "--issuer-jwt-key="+secret, "--resource-identifier="+testResource)
	var banner strings.Builder
	if err := a.WriteBanner(&banner, "v0"); err != nil {
		t.Fatal(err)
	}
	token := regexp.MustCompile(`(?m)^  Token   (eyJ\S+)$`).FindStringSubmatch(banner.String())
	if token == nil || strings.Contains(banner.String(), "draft-08") {
		t.Fatalf("banner %s", &banner)
	}
	crossed(t, a, token[1], accessToken(t, secret, testIssuer))
}

// The key pair of RFC 8037, appendix A.
const (
	privateKey = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----"
	publicSet  = `{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
)
