package hub

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

// Covers: ERR-11, SUB-06, DIS-01, DIS-10.
func TestRoutes(t *testing.T) {
	for _, path := range []string{"", "/hub", "/a/b/c"} {
		at := path
		if at == "" {
			at = spec.DefaultHubPath
		}
		change, _, reg := observed(func(o *Options) { o.Path = path })
		n := newNode(t, change)
		for name, c := range map[string]struct {
			method, path string
			status       int
		}{
			"options":                         {http.MethodOptions, at, 204},
			"put":                             {http.MethodPut, at, 405},
			"delete":                          {http.MethodDelete, at, 405},
			"patch":                           {http.MethodPatch, at, 405},
			"query":                           {spec.MethodQuery, at, 400},
			"query elsewhere":                 {spec.MethodQuery, "/nothing", 404},
			"metadata that are not published": {http.MethodGet, spec.ResourceMetadataPath + at, 404},
			"an invented method":              {"BREW", at, 405},
			"root":                            {http.MethodGet, "/", 404},
			"another path":                    {http.MethodGet, "/nothing", 404},
			"a longer path":                   {http.MethodGet, at + "s", 404},
			"below the hub":                   {http.MethodGet, at + "/subscriptions", 404},
			"a trailing slash":                {http.MethodPost, at + "/", 404},
			"in capitals":                     {http.MethodPost, strings.ToUpper(at), 404},
			"publish elsewhere":               {http.MethodPost, "/nothing", 404},
			"put elsewhere":                   {http.MethodPut, "/nothing", 404},
			"health is on the admin listener": {http.MethodGet, "/healthz", 404},
		} {
			t.Run(at+" "+name, func(t *testing.T) {
				w := n.serve(c.method, c.path, "")
				if w.Code != c.status {
					t.Errorf("%d, want %d: %s", w.Code, c.status, w.Body)
				}
				allow := ""
				if c.status == http.StatusMethodNotAllowed || c.status == http.StatusNoContent {
					allow = "GET, HEAD, POST, QUERY, OPTIONS"
				}
				if got := w.Header().Get("Allow"); got != allow {
					t.Errorf("Allow %q, want %q", got, allow)
				}
				if w.Header().Get(spec.HeaderRequestID) == "" {
					t.Error("no request id")
				}
			})
		}
		if got := series(t, reg, "cinnabar_refused_total", "action", "other", "reason", "method"); got != 4 {
			t.Errorf("%v wrong methods are counted, want 4", got)
		}
	}
}

func TestPathsThatCannotBe(t *testing.T) {
	for _, path := range []string{"hub", "/{x}", "/a*", "/a?b", "/a#b", "/a b", "/a%20b", "/"} {
		if _, err := New(Options{Transport: newNode(t, nil).log, Authorizer: denier{}, Path: path}); err == nil {
			t.Errorf("%q is accepted", path)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a hub without transport is made")
	}
}

// TestPanicInARequest: it is the request's own; the next one is served.
func TestPanicInARequest(t *testing.T) {
	change, book, reg := observed(func(o *Options) {
		o.Authorizer = grenade{}
		o.CORSOrigins = []string{"https://app.example.com"}
		o.MaxConnections = 1
	})
	n := startNode(t, change)
	res := n.get("topic=a", "X-Pull", "1", "Origin", "https://app.example.com")
	body := slurp(t, res)
	if res.StatusCode != http.StatusInternalServerError || strings.Contains(body, "bang") || strings.Contains(body, ".go:") {
		t.Errorf("%d %q, want a 500 that says nothing", res.StatusCode, body)
	}
	if res.Header.Get(allowOrigin) == "" {
		t.Error("the answer cannot be read cross-origin")
	}
	if w := n.post("topic=a", "X-Pull", "1"); w.Code != http.StatusInternalServerError {
		t.Errorf("publishing: %d", w.Code)
	}
	lines := book.all("panic contained")
	if len(lines) != 2 || lines[0].attrs["panic"] != "bang" || !strings.Contains(lines[0].attrs["stack"], "grenade") ||
		lines[0].attrs["request_id"] != res.Header.Get(spec.HeaderRequestID) {
		t.Errorf("log %+v", lines)
	}
	if got := series(t, reg, "cinnabar_panics_total"); got != 2 {
		t.Errorf("%v panics are counted, want 2", got)
	}
	n.wantOpen(reg, 0)
	s := n.subscribe("topic=a")
	n.publish("topic", "a", "data", "x")
	s.want("x")
}

// grenade is an Authorizer that panics on demand.
type grenade struct{}

func (grenade) Authorize(r *http.Request, act spec.Action) (*auth.Grant, error) {
	if r.Header.Get("X-Pull") != "" {
		panic("bang")
	}
	return (&openDoor{}).Authorize(r, act)
}

// TestAbortIsNotAPanic: net/http's own signal passes through.
func TestAbortIsNotAPanic(t *testing.T) {
	change, _, reg := observed(nil)
	n := newNode(t, change)
	defer func() {
		if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // the value itself is the signal
			t.Errorf("recovered %v", v)
		}
		if got := series(t, reg, "cinnabar_panics_total"); got != 0 {
			t.Errorf("%v panics are counted", got)
		}
	}()
	r, w := newExchange(t, http.MethodGet, "/", "")
	n.recoverPanics(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })).ServeHTTP(w, r)
}

// Covers: ERR-11.
func TestUnknownMethodOnUnknownPath(t *testing.T) {
	if w := newNode(t, nil).serve("BREW", "/nothing", ""); w.Code != http.StatusNotFound {
		t.Errorf("status %d", w.Code)
	}
}
