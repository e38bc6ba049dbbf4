package hub

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
)

const (
	allowOrigin      = "Access-Control-Allow-Origin"
	allowCredentials = "Access-Control-Allow-Credentials"
	allowMethods     = "Access-Control-Allow-Methods"
	allowHeaders     = "Access-Control-Allow-Headers"
	exposeHeaders    = "Access-Control-Expose-Headers"
)

// Covers: CORS-01, CORS-02.
func TestCrossOriginAnswers(t *testing.T) {
	const page = "https://app.example.com"
	for name, c := range map[string]struct {
		origins     []string
		localhost   bool
		origin      string
		allowed     string
		credentials bool
		vary        bool
	}{
		"no origins configured":           {origin: page},
		"wildcard has no credentials":     {origins: []string{"*"}, origin: page, allowed: "*"},
		"wildcard beside a listed origin": {origins: []string{page, "*"}, origin: page, allowed: "*"},
		"wildcard for an opaque origin":   {origins: []string{"*"}, origin: "null", allowed: "*"},
		"wildcard beside localhost":       {origins: []string{"*"}, localhost: true, origin: "http://localhost:1", allowed: "*"},
		"listed":                          {origins: []string{"https://x.test", page}, origin: page, allowed: page, credentials: true, vary: true},
		"listed with a trailing slash":    {origins: []string{page + "/"}, origin: page, allowed: page, credentials: true, vary: true},
		"listed in capitals":              {origins: []string{"HTTPS://App.Example.com"}, origin: page, allowed: page, credentials: true, vary: true},
		"another origin":                  {origins: []string{page}, origin: "https://evil.test", vary: true},
		"another scheme":                  {origins: []string{page}, origin: "http://app.example.com", vary: true},
		"another port":                    {origins: []string{page}, origin: page + ":8443", vary: true},
		"a subdomain":                     {origins: []string{page}, origin: "https://x.app.example.com", vary: true},
		"a longer host":                   {origins: []string{page}, origin: page + ".evil.test", vary: true},
		"a shorter host":                  {origins: []string{page}, origin: "https://app.example.co", vary: true},
		"opaque":                          {origins: []string{page}, localhost: true, origin: "null", vary: true},
		"opaque when listed":              {origins: []string{"null"}, origin: "null", allowed: "null", credentials: true, vary: true},
		"same origin":                     {origins: []string{page}, vary: true},
		"localhost":                       {localhost: true, origin: "http://localhost:5173", allowed: "http://localhost:5173", credentials: true, vary: true},
		"localhost over TLS":              {localhost: true, origin: "https://localhost", allowed: "https://localhost", credentials: true, vary: true},
		"127.0.0.1":                       {localhost: true, origin: "http://127.0.0.1:80", allowed: "http://127.0.0.1:80", credentials: true, vary: true},
		"[::1]":                           {localhost: true, origin: "http://[::1]:3000", allowed: "http://[::1]:3000", credentials: true, vary: true},
		"localhost beside a list":         {origins: []string{page}, localhost: true, origin: page, allowed: page, credentials: true, vary: true},
		"localhost not configured":        {origins: []string{page}, origin: "http://localhost:5173", vary: true},
		"localhost as a label":            {localhost: true, origin: "http://localhost.evil.test", vary: true},
		"localhost as a user name":        {localhost: true, origin: "http://localhost@evil.test", vary: true},
		"localhost of an extension":       {localhost: true, origin: "chrome-extension://localhost", vary: true},
		"not an origin":                   {localhost: true, origin: "http://[::1", vary: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, func(o *Options) { o.CORSOrigins, o.LocalhostCORS = c.origins, c.localhost })
			var headers []string
			if c.origin != "" {
				headers = []string{"Origin", c.origin}
			}
			credentials := ""
			if c.credentials {
				credentials = "true"
			}
			for _, w := range []http.Header{
				n.post("topic=a", headers...).Header(),
				n.serve(http.MethodOptions, spec.DefaultHubPath, "", append(headers, "Access-Control-Request-Method", "POST")...).Header(),
			} {
				if got := w.Get(allowOrigin); got != c.allowed {
					t.Errorf("%s is %q, want %q", allowOrigin, got, c.allowed)
				}
				if got := w.Get(allowCredentials); got != credentials {
					t.Errorf("%s is %q, want %q", allowCredentials, got, credentials)
				}
				if got := slices.Contains(w.Values("Vary"), "Origin"); got != c.vary {
					t.Errorf("Vary names Origin: %v, want %v", got, c.vary)
				}
				if exposed := w.Get(exposeHeaders) != ""; exposed != (c.allowed != "") {
					t.Errorf("headers are exposed: %v", exposed)
				}
			}
		})
	}
}

// Covers: CORS-03.
func TestPreflight(t *testing.T) {
	const page = "https://app.example.com"
	n := newNode(t, func(o *Options) { o.CORSOrigins = []string{page} })
	ask := func(origin string) http.Header {
		w := n.serve(http.MethodOptions, spec.DefaultHubPath, "", "Origin", origin,
			"Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "authorization,last-event-id")
		if w.Code != http.StatusNoContent || w.Body.Len() != 0 {
			t.Errorf("%s: %d with %d bytes, want 204 with none", origin, w.Code, w.Body.Len())
		}
		return w.Header()
	}
	head := ask(page)
	for _, method := range []string{"GET", "HEAD", "POST"} {
		if !slices.Contains(strings.Split(head.Get(allowMethods), ", "), method) {
			t.Errorf("%s is not among %q", method, head.Get(allowMethods))
		}
	}
	for _, name := range []string{"authorization", "cache-control", "content-type", "last-event-id"} {
		if !slices.Contains(strings.Split(head.Get(allowHeaders), ", "), name) {
			t.Errorf("%s is not among %q", name, head.Get(allowHeaders))
		}
	}
	vary := strings.Join(head.Values("Vary"), ", ")
	for _, name := range []string{"Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"} {
		if !strings.Contains(vary, name) {
			t.Errorf("Vary %q does not name %s", vary, name)
		}
	}
	if head = ask("https://evil.test"); head.Get(allowMethods) != "" || head.Get(allowHeaders) != "" {
		t.Errorf("a foreign origin is told %q, %q", head.Get(allowMethods), head.Get(allowHeaders))
	}
}

// TestPlainOptions is the request that is no preflight: it is answered like any other.
func TestPlainOptions(t *testing.T) {
	for _, origins := range [][]string{nil, {"https://app.example.com"}} {
		n := newNode(t, func(o *Options) { o.CORSOrigins = origins })
		w := n.serve(http.MethodOptions, spec.DefaultHubPath, "", "Origin", "https://app.example.com")
		if w.Code != http.StatusNoContent || w.Header().Get("Allow") != allowedMethods {
			t.Errorf("%d, Allow %q", w.Code, w.Header().Get("Allow"))
		}
	}
}

// Covers: CORS-04, CORS-05, REC-20.
func TestScriptsCanReadWhatTheyNeed(t *testing.T) {
	const page = "https://app.example.com"
	n := startNode(t, func(o *Options) {
		o.Authorizer = denier{}
		o.CORSOrigins = []string{page}
	})
	free := startNode(t, func(o *Options) { o.CORSOrigins = []string{page} })
	answers := map[string]*http.Response{
		"stream": free.get("topic=a&lastEventID=x", "Origin", page),
		"400":    free.get("", "Origin", page),
		"401":    n.get("topic=a", "Origin", page),
		"404":    getURL(t, n, strings.TrimSuffix(n.url, spec.DefaultHubPath)+"/nothing", page),
	}
	for name, res := range answers {
		t.Run(name, func(t *testing.T) {
			if got := res.Header.Get(allowOrigin); got != page {
				t.Errorf("%s is %q", allowOrigin, got)
			}
			exposed := strings.Split(res.Header.Get(exposeHeaders), ", ")
			for _, want := range []string{
				"Link", "Last-Event-ID", "Mercure-Last-Event-ID", "ETag", "WWW-Authenticate", "Retry-After",
			} {
				if !slices.Contains(exposed, want) {
					t.Errorf("%s is not exposed", want)
				}
			}
		})
	}
	if got := answers["401"]; got.StatusCode != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("the refusal is %d, %v", got.StatusCode, got.Header)
	}
	if got := answers["stream"].Header.Get("Last-Event-ID"); got != "earliest" {
		t.Errorf("the reconciliation header is %q", got)
	}
}

// Covers: CORS-08.
func TestSafeMethodsNeedNoOriginCheck(t *testing.T) {
	n, token := startClosedNode(t, nil)
	for name, headers := range map[string][]string{
		"no origin":      {"Cookie", spec.CookieClassic + "=" + token},
		"foreign origin": {"Cookie", spec.CookieClassic + "=" + token, "Origin", "https://evil.test"},
	} {
		t.Run(name, func(t *testing.T) {
			if res := n.get("topic=a", headers...); res.StatusCode != http.StatusOK {
				t.Errorf("GET is %d", res.StatusCode)
			}
			w := n.serve(http.MethodPost, n.url, "topic=a", append(headers, "Content-Type", formType)...)
			if w.Code != http.StatusBadRequest {
				t.Errorf("POST is %d, want 400", w.Code)
			}
		})
	}
}

func getURL(t *testing.T, n *node, target, origin string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", origin)
	res, err := n.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}
