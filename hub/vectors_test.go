package hub

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/cinnabar-hub/cinnabar/auth"
)

// The token vectors that are about the subscription API; package auth runs the others.
//
// Covers: ACT-14, CLA-02.
func TestTokenVectorsOfTheAPI(t *testing.T) {
	raw, err := os.ReadFile("../spec/vectors/jwt.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Config struct {
			Classic struct {
				Subscriber struct{ Secret string } `json:"subscriber_key"`
			}
		}
		Cases []struct {
			ID, Generation, Request, Reason, Error string
			Claims                                 json.RawMessage
			SignedWith                             string `json:"signed_with"`
			Status                                 int
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	secret := file.Config.Classic.Subscriber.Secret
	keys, err := auth.ParseKey("subscriber", secret, "", false)
	if err != nil {
		t.Fatal(err)
	}
	door, err := auth.New(auth.Options{Subscriber: keys})
	if err != nil {
		t.Fatal(err)
	}
	n := startNode(t, func(o *Options) { o.Directory, o.Authorizer = newDirectory(), door })
	ran := 0
	for _, c := range file.Cases {
		path, ok := strings.CutPrefix(c.Request, "GET /subscriptions")
		if !ok || c.Generation != "classic" {
			continue
		}
		ran++
		var claims jwt.MapClaims
		if err := json.Unmarshal(c.Claims, &claims); err != nil || c.SignedWith != "K_SUB" {
			t.Fatalf("%s: %v, signed with %s", c.ID, err, c.SignedWith)
		}
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		res := n.api(http.MethodGet, path, "Authorization", "Bearer "+token)
		if challenge := res.Header.Get("WWW-Authenticate"); res.StatusCode != c.Status || c.Error != "" && challenge != `Bearer error="`+c.Error+`"` {
			t.Errorf("%s: %d %q, want %d %s: %s", c.ID, res.StatusCode, challenge, c.Status, c.Error, c.Reason)
		}
	}
	if ran != 2 {
		t.Errorf("%d vectors, want 2: no case may vanish", ran)
	}
}
