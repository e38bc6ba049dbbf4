package auth_test

import (
	"crypto"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

// site is a web server whose pages can be changed. A page that begins with https:// redirects there.
type site struct {
	url     string
	options auth.JWKSOptions

	mu    sync.Mutex
	pages map[string]string
	asked []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{pages: map[string]string{}}
	server, o := keyServer(t, func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, r.URL.Path)
		switch page, ok := s.pages[r.URL.Path]; {
		case !ok:
			http.NotFound(w, r)
		case page == "500":
			w.WriteHeader(http.StatusInternalServerError)
		case page == "400":
			w.WriteHeader(http.StatusBadRequest)
		case strings.HasPrefix(page, "https://"):
			http.Redirect(w, r, page, http.StatusFound)
		default:
			_, _ = w.Write([]byte(page))
		}
	})
	s.url, s.options = server.URL, o
	return s
}

func (s *site) put(path, page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = page
}

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

const (
	wellKnownOAuth  = "/.well-known/oauth-authorization-server"
	wellKnownOpenID = "/.well-known/openid-configuration"
)

// The keys of an issuer are found through its metadata, which is read again with each fetch.
//
// Covers: D08-04.
func TestKeysAreFoundThroughTheIssuersMetadata(t *testing.T) {
	t.Parallel()
	s := makeSigners()
	for name, c := range map[string]struct{ path, document string }{
		"at the root":                    {"", wellKnownOAuth},
		"root with a slash":              {"/", wellKnownOAuth},
		"before a path":                  {"/tenant/7", wellKnownOAuth + "/tenant/7"},
		"before a path that ends in one": {"/tenant/7/", wellKnownOAuth + "/tenant/7"},
		"OpenID Connect":                 {"", wellKnownOpenID},
		"OpenID Connect behind a path":   {"/tenant/7", "/tenant/7" + wellKnownOpenID},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := newSite(t)
			issuer := site.url + c.path
			site.put(wellKnownOAuth+strings.TrimSuffix(c.path, "/"), "400") // what some servers say of a place that they do not know
			site.put(c.document, toJSON(t, map[string]any{"issuer": issuer, "jwks_uri": site.url + "/keys/1"}))
			site.put("/keys/1", webKeys(t, webKey(t, s.es256.Public(), "es-1", nil)))
			keys, err := auth.NewIssuerKeys(t.Context(), issuer, site.options)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(keys.Close)
			j := newAuth(t, func(o *auth.Options) {
				o.Resource, o.Issuers = "r", []auth.Issuer{{ID: issuer, Keys: keys, Subscribe: true}}
			})
			accepted := func(kid string, key crypto.Signer) bool {
				token, err := auth.Mint(auth.MintOptions{
					Generation: "draft-08", Key: privatePEM(t, key), KeyID: kid, Issuer: issuer, Audience: []string{"r"}, TTL: 3600e9,
				})
				if err != nil {
					t.Fatal(err)
				}
				_, err = j.Authorize(get("/hub", "Authorization: Bearer "+token), spec.ActionSubscribe)
				return err == nil
			}
			if !accepted("es-1", s.es256) || accepted("es-1", s.evilES256) {
				t.Error("not the issuer's key")
			}
			// The set moves, with another key in it.
			site.put(c.document, toJSON(t, map[string]any{"issuer": issuer, "jwks_uri": site.url + "/keys/2"}))
			site.put("/keys/2", webKeys(t, webKey(t, s.ed.Public(), "ed-1", nil)))
			if !accepted("ed-1", s.ed) || accepted("es-1", s.es256) {
				t.Error("the set was not followed to where it moved")
			}
			// Neither document can be read: what was trusted stays so.
			site.put(c.document, "500")
			if keys.Reload(t.Context()) == nil || !accepted("ed-1", s.ed) {
				t.Error("a failure changed the keys")
			}
		})
	}
}

// Covers: SEC-08, D08-04, D08-06.
func TestDiscoveryIsGuarded(t *testing.T) {
	t.Parallel()
	s := makeSigners()
	elsewhere := newSite(t)
	elsewhere.put("/keys", webKeys(t, webKey(t, s.es256.Public(), "", nil)))
	good := webKeys(t, webKey(t, s.es256.Public(), "", nil))
	for name, c := range map[string]struct {
		issuer   string // put behind the site's URL unless it is one
		document string // SITE is the site's URL
		change   func(*auth.JWKSOptions)
		want     string
	}{
		"another issuer":           {"", `{"issuer":"https://id.example","jwks_uri":"SITE/keys"}`, nil, "of another issuer"},
		"another spelling":         {"", `{"issuer":"SITE/","jwks_uri":"SITE/keys"}`, nil, "of another issuer"},
		"no issuer":                {"", `{"jwks_uri":"SITE/keys"}`, nil, "of another issuer"},
		"Issuer is another member": {"", `{"Issuer":"SITE","jwks_uri":"SITE/keys"}`, nil, "of another issuer"},
		"no set":                   {"", `{"issuer":"SITE"}`, nil, "names no key set"},
		"set over plain http":      {"", `{"issuer":"SITE","jwks_uri":"http://127.0.0.1/keys"}`, nil, "not an https URL"},
		"set in a file":            {"", `{"issuer":"SITE","jwks_uri":"file:///etc/keys"}`, nil, "not an https URL"},
		"not JSON":                 {"", `<html>`, nil, "not a JSON object"},
		"too big":                  {"", `{"issuer":"SITE","jwks_uri":"SITE/keys","pad":"` + strings.Repeat("x", 9000) + `"}`, func(o *auth.JWKSOptions) { o.MaxBytes = 8192 }, "more than 8192 bytes"},
		"redirect to another host": {"", elsewhere.url + "/metadata", nil, "redirects to another host"},
		"server error":             {"", "500", nil, "the answer is 500"},
		"nothing there":            {"", "", nil, "the answer is 404"},
		"no such set":              {"", `{"issuer":"SITE","jwks_uri":"SITE/other"}`, nil, "/other: the answer is 404"},
		"private address":          {"", `{"issuer":"SITE","jwks_uri":"SITE/keys"}`, func(o *auth.JWKSOptions) { o.AllowPrivate = false }, "inside the network"},
		"secrets":                  {"", `{"issuer":"SITE","jwks_uri":"SITE/keys"}`, func(o *auth.JWKSOptions) { o.Algorithms = []string{"ES256", "HS256"} }, "shared secrets"},
		"plain http":               {"http://127.0.0.1:1", "", nil, "want an https:// URL"},
		"no URL":                   {"https://%", "", nil, "cannot be parsed"},
		"no host":                  {"https:///x", "", nil, "want an https:// URL"},
		"query":                    {"?x=1", "", nil, "a query or a fragment"},
		"fragment":                 {"#", "", nil, "a query or a fragment"},
		"user":                     {"https://me:secret@id.example", "", nil, "a user, a query"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := newSite(t)
			site.put("/keys", good)
			if c.document != "" {
				site.put(wellKnownOAuth, strings.ReplaceAll(c.document, "SITE", site.url))
			}
			issuer := c.issuer
			if !strings.Contains(issuer, "://") {
				issuer = site.url + issuer
			}
			if c.change != nil {
				c.change(&site.options)
			}
			keys, err := auth.NewIssuerKeys(t.Context(), issuer, site.options)
			if err == nil {
				keys.Close()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret@") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if name != "nothing there" && len(site.requests()) > 2 {
				t.Errorf("requests %q", site.requests())
			}
		})
	}
	if asked := elsewhere.requests(); len(asked) > 0 {
		t.Errorf("the other host was asked for %q", asked)
	}
}

func TestTheSetMayBeAtAnotherHost(t *testing.T) {
	t.Parallel()
	s := makeSigners()
	id, keys := newSite(t), newSite(t)
	id.put(wellKnownOAuth, toJSON(t, map[string]any{"issuer": id.url, "jwks_uri": keys.url + "/keys"}))
	keys.put("/keys", webKeys(t, webKey(t, s.rsa.Public(), "", nil)))
	set, err := auth.NewIssuerKeys(t.Context(), id.url, id.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	for alg, want := range map[string]int{"RS256": 1, "PS256": 1, "RS512": 0, "HS256": 0, "ES256": 0} {
		if got := set.Find(t.Context(), alg, ""); len(got) != want {
			t.Errorf("%s: %d keys, want %d", alg, len(got), want)
		}
	}
}
