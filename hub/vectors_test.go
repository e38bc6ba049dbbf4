package hub

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// apiVector is a case of vectors/jwt.json.
type apiVector struct {
	ID, Generation, Request, Reason, Error string
	Header, Claims                         json.RawMessage // of the cases here, objects
	SignedWith                             string          `json:"signed_with"`
	Challenge                              string          `json:"www_authenticate"`
	Status                                 int
}

// sign makes the token of a case. Draft-08's expire at a fixed time, which is moved to where the test is.
func (v *apiVector) sign(t *testing.T, secret string, issuer *ecdsa.PrivateKey) string {
	t.Helper()
	var claims jwt.MapClaims
	var header map[string]any
	if err := errors.Join(json.Unmarshal(v.Claims, &claims), json.Unmarshal(v.Header, &header)); err != nil {
		t.Fatalf("%s: %v", v.ID, err)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
	var key any = []byte(secret)
	switch v.SignedWith {
	case "K_SUB":
	case "K_ES":
		claims["exp"] = time.Now().Add(time.Hour).Unix()
		token, key = jwt.NewWithClaims(jwt.SigningMethodES256, claims), issuer
	default:
		t.Fatalf("%s: signed with %s", v.ID, v.SignedWith)
	}
	maps.Copy(token.Header, header)
	signed, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// The token vectors that are about the subscription API, against the API itself.
//
// Covers: ACT-14, ACT-15, ACT-16, CLA-02, D08-16, G-17.
func TestTokenVectorsOfTheAPI(t *testing.T) {
	raw, err := os.ReadFile("../spec/vectors/jwt.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Config struct {
			HubURL  string `json:"hub_url"`
			Classic struct {
				Subscriber struct{ Secret string } `json:"subscriber_key"`
			}
			Issuers []struct{ Iss string }
		}
		Cases []apiVector
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	secret := file.Config.Classic.Subscriber.Secret
	issuer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	n := startNode(t, apiOfVectors(t, secret, file.Config.Issuers[0].Iss, file.Config.HubURL, issuer))
	ran := map[string]int{}
	for _, c := range file.Cases {
		path, ok := strings.CutPrefix(c.Request, "GET /subscriptions")
		if !ok {
			continue
		}
		ran[c.Generation]++
		res := n.api(http.MethodGet, path, "Authorization", "Bearer "+c.sign(t, secret, issuer))
		if challenge := res.Header.Get("WWW-Authenticate"); res.StatusCode != c.Status || challenge != c.Challenge {
			t.Errorf("%s: %d %q, want %d %q: %s", c.ID, res.StatusCode, challenge, c.Status, c.Challenge, c.Reason)
		}
		want := map[string]string{"classic": "application/ld+json", "draft-08": "application/json"}[c.Generation]
		if got := res.Header.Get("Content-Type"); res.StatusCode == http.StatusOK && got != want {
			t.Errorf("%s: Content-Type %s, want %s", c.ID, got, want)
		}
	}
	if ran["classic"] != 2 || ran["draft-08"] != 3 {
		t.Errorf("%v vectors, want 2 and 3: no case may vanish", ran)
	}
}

// apiOfVectors configures a hub as the vectors say, with a key of its own for their issuer.
func apiOfVectors(t *testing.T, secret, iss, hub string, issuer *ecdsa.PrivateKey) func(*Options) {
	t.Helper()
	keys, err := auth.ParseKey("subscriber", secret, "", false)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&issuer.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	issuerKeys, err := auth.ParseKeySet("issuer", []auth.KeySpec{{ID: "es-1", Key: public, Algorithm: "ES256"}}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	publicURL, err := url.Parse(hub)
	if err != nil {
		t.Fatal(err)
	}
	door, err := auth.New(auth.Options{
		Subscriber: keys, Issuers: []auth.Issuer{{ID: iss, Keys: issuerKeys, Publish: true, Subscribe: true}}, Resource: hub, PublicURL: publicURL,
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) {
		o.Directory, o.Authorizer = newDirectory(), door
		o.PublicURL, o.Metadata = publicURL, &spec.ResourceMetadata{AuthorizationServers: []string{iss}}
	}
}

// A token with three details: the first one counts whose topics select the selector itself.
//
// Covers: D08-19, ACT-30.
func TestPayloadsOfATokenWithThreeDetails(t *testing.T) {
	const hub, iss = "https://hub.example.com/.well-known/mercure", "https://issuer.example"
	issuer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	n := startNode(t, apiOfVectors(t, "a secret of tests with 32 bytes or more", iss, hub, issuer))
	detail := func(payload string, topics ...string) string {
		return `{"type":"https://mercure.rocks/authorization-detail","actions":["subscribe"],"topics":[` + strings.Join(topics, ",") + `],"payload":` + payload + `}`
	}
	v := apiVector{SignedWith: "K_ES", Header: json.RawMessage(`{"typ":"at+jwt","kid":"es-1"}`)}
	v.Claims = json.RawMessage(`{"iss":"` + iss + `","aud":"` + hub + `","sub":"u1","authorization_details":[` + strings.Join([]string{
		detail(`{"n":1}`, `{"match":"https://example.com/rooms/1"}`, `{"match":"b"}`),
		detail(`{"n": 2}`, `{"match":"https://example.com/rooms/:id","match_type":"urlpattern"}`, `{"match":"/.well-known/mercure/subscriptions/*","match_type":"urlpattern"}`),
		detail(`{"n":3}`, `{"match":"*"}`),
	}, ",") + `]}`)
	token := "Bearer " + v.sign(t, "", issuer)
	watch := n.subscribe("match_urlpattern=/.well-known/mercure/subscriptions/:match_type/:match/:subscriber", "Authorization", token)
	if own := watch.told(); string(own.Payload) != `{"n":2}` || own.MatchType != topic.TypeURLPattern {
		t.Errorf("a watcher hears of itself %+v, payload %s", own, own.Payload)
	}
	n.subscribe("match=https://example.com/rooms/1&match=https://example.com/rooms/2&match=c&match=b&match=*&match_urlpattern=https://example.com/rooms/*", "Authorization", token)
	for _, want := range []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":1}`, `{"n":3}`, `{"n":2}`} {
		e := watch.told()
		if string(e.Payload) != want {
			t.Errorf("%s %s has the payload %s, want %s", e.MatchType, e.Match, e.Payload, want)
		}
		res := n.api(http.MethodGet, strings.TrimPrefix(e.ID, apiPath), "Authorization", token)
		var doc told
		if err := json.Unmarshal([]byte(slurp(t, res)), &doc); err != nil || string(doc.Payload) != want {
			t.Errorf("its document: %d, payload %s, %v", res.StatusCode, doc.Payload, err)
		}
	}
}
