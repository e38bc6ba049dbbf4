package hub

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
)

func mustParse(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Covers: DIS-02, DIS-03, DIS-04, DIS-05, DIS-08, MAT-18, G-18.
func TestResourceMetadata(t *testing.T) {
	const hub = "https://hub.example.com/live/hub"
	for name, c := range map[string]struct {
		given  *spec.ResourceMetadata
		active bool
		want   map[string]any // nil = 404
	}{
		"none is published": {},
		"the least": {
			given: &spec.ResourceMetadata{Subscriptions: true}, // the hub knows better
			want: map[string]any{
				"resource":                              hub,
				"authorization_details_types_supported": []any{"https://mercure.rocks/authorization-detail"},
				"bearer_methods_supported":              []any{"header"},
				"mercure_matcher_types_supported":       []any{"exact", "urlpattern"},
			},
		},
		"everything": {
			given: &spec.ResourceMetadata{
				Resource: "https://resource.example/<&>", AuthorizationServers: []string{"https://a.example", "https://b.example/x"},
				Cookie: spec.CookieDraft08, MatcherTypes: []string{"exact"},
			},
			active: true,
			want: map[string]any{
				"resource":                              "https://resource.example/<&>",
				"authorization_servers":                 []any{"https://a.example", "https://b.example/x"},
				"authorization_details_types_supported": []any{"https://mercure.rocks/authorization-detail"},
				"bearer_methods_supported":              []any{"header"},
				"mercure_cookie":                        "__Secure-mercure_access_token",
				"mercure_matcher_types_supported":       []any{"exact"},
				"mercure_subscriptions":                 true,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, func(o *Options) {
				o.Path, o.PublicURL, o.Metadata, o.Authorizer = "/live/hub", mustParse(t, hub), c.given, denier{}
				if c.active {
					o.Directory = newDirectory()
				}
			})
			const path = "/.well-known/oauth-protected-resource/live/hub"
			w := n.serve(http.MethodGet, path, "")
			if c.want == nil {
				if w.Code != http.StatusNotFound {
					t.Errorf("%d, want 404", w.Code)
				}
				return
			}
			var got map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%d %s: %v", w.Code, w.Body, err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
			for name, want := range map[string]string{
				"Content-Type": "application/json", "Cache-Control": "public, max-age=3600", "X-Content-Type-Options": "nosniff",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			head := n.serve(http.MethodHead, path, "")
			if head.Code != http.StatusOK || head.Body.Len() != 0 || head.Header().Get("Content-Length") != w.Header().Get("Content-Length") {
				t.Errorf("HEAD: %d with %d bytes, %v", head.Code, head.Body.Len(), head.Header())
			}
			for method, status := range map[string]int{http.MethodOptions: 204, http.MethodPost: 405, http.MethodPut: 405, spec.MethodQuery: 405, "BREW": 405} {
				if w := n.serve(method, path, ""); w.Code != status || w.Header().Get("Allow") != "GET, HEAD, OPTIONS" {
					t.Errorf("%s: %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
				}
			}
			for _, other := range []string{"/.well-known/oauth-protected-resource", path + "/", path + "/x", "/.well-known/oauth-protected-resource/.well-known/mercure"} {
				if w := n.serve(http.MethodGet, other, ""); w.Code != http.StatusNotFound {
					t.Errorf("%s: %d, want 404", other, w.Code)
				}
			}
		})
	}
}

// Whoever wants to know where tokens come from may be any page; what the list of origins says does not matter.
//
// Covers: DIS-03, CORS-02.
func TestEveryPageMayReadTheMetadata(t *testing.T) {
	for _, origins := range [][]string{nil, {"https://app.example.com"}, {"*"}} {
		n := newNode(t, func(o *Options) { o.Metadata, o.CORSOrigins = &spec.ResourceMetadata{}, origins })
		path := spec.ResourceMetadataPath + spec.DefaultHubPath
		for _, origin := range []string{"https://evil.test", "https://app.example.com", "null"} {
			preflight := n.serve(http.MethodOptions, path, "", "Origin", origin, "Access-Control-Request-Method", "GET")
			if preflight.Code != http.StatusNoContent || preflight.Header().Get(allowMethods) != "GET, HEAD, OPTIONS" {
				t.Errorf("%v, %s: preflight %d, %v", origins, origin, preflight.Code, preflight.Header())
			}
			for method, w := range map[string]http.Header{
				"OPTIONS": preflight.Header(), "GET": n.serve(http.MethodGet, path, "", "Origin", origin).Header(),
			} {
				if w.Get(allowOrigin) != "*" || w.Get(allowCredentials) != "" {
					t.Errorf("%v, %s %s: %v", origins, origin, method, w)
				}
			}
		}
		if w := n.serve(http.MethodGet, path+"/x", "", "Origin", "https://evil.test"); len(origins) == 1 && origins[0] != "*" && w.Header().Get(allowOrigin) != "" {
			t.Errorf("the rule goes beyond the document: %v", w.Header())
		}
	}
}

// A hub that was not told its public URL goes by its identifier.
//
// Covers: ERR-07.
func TestChallengesPointToTheMetadataWithoutAPublicURL(t *testing.T) {
	n, _ := startClosedNode(t, func(o *Options) {
		o.Path, o.Metadata = "/live/hub", &spec.ResourceMetadata{Resource: "https://hub.example.com:8443/tenant"}
	})
	const want = `resource_metadata="https://hub.example.com:8443/.well-known/oauth-protected-resource/live/hub"`
	if got := n.serve(http.MethodPost, "/live/hub", "topic=a").Header().Get("WWW-Authenticate"); !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// Covers: ERR-01, ERR-02, ERR-03, ERR-04, ERR-06, ERR-07.
func TestChallengesPointToTheMetadata(t *testing.T) {
	const url = `resource_metadata="https://hub.example.com/.well-known/oauth-protected-resource/.well-known/mercure"`
	n, _ := startClosedNode(t, func(o *Options) {
		o.PublicURL, o.Metadata, o.Directory = mustParse(t, "https://hub.example.com/.well-known/mercure"), &spec.ResourceMetadata{}, newDirectory()
	})
	narrow := "Bearer " + mint(t, testKey, time.Hour, "b")
	for name, c := range map[string]struct {
		method, path, authorization string
		status                      int
		challenge                   string
	}{
		"no token, publish":    {http.MethodPost, "", "", 401, "Bearer " + url},
		"no token, stream":     {http.MethodGet, "?topic=a", "", 401, "Bearer " + url},
		"no token, query":      {spec.MethodQuery, "?topic=a", "", 401, "Bearer " + url},
		"no token, the list":   {http.MethodGet, "/subscriptions", "", 401, "Bearer " + url},
		"a bad one":            {http.MethodPost, "", "Bearer x.y.z", 401, `Bearer error="invalid_token", ` + url},
		"another scheme":       {http.MethodGet, "?topic=a", "Basic eDp5", 400, `Bearer error="invalid_request", ` + url},
		"not granted":          {http.MethodPost, "", narrow, 403, `Bearer error="insufficient_scope", ` + url},
		"not granted the list": {http.MethodGet, "/subscriptions", narrow, 403, `Bearer error="insufficient_scope", ` + url},
		"no challenge":         {http.MethodGet, "", narrow, 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			headers := []string{"Content-Type", formType}
			if c.authorization != "" {
				headers = append(headers, "Authorization", c.authorization)
			}
			body := ""
			if c.method == http.MethodPost {
				body = "topic=a"
			}
			w := n.serve(c.method, spec.DefaultHubPath+c.path, body, headers...)
			if got := w.Header().Get("WWW-Authenticate"); w.Code != c.status || got != c.challenge {
				t.Errorf("%d %q, want %d %q: %s", w.Code, got, c.status, c.challenge, strings.TrimSpace(w.Body.String()))
			}
		})
	}
}
