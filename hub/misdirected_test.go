package hub

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// Covers: DIS-06, ERR-12, CORS-05.
func TestMisdirectedRequests(t *testing.T) {
	const page = "https://app.example.com"
	change, _, reg := observed(func(o *Options) {
		o.PublicOrigins = []string{"https://hub.example.com", "http://Inside.example:3000/"}
		o.PublicURL = mustParse(t, "https://public.example/.well-known/mercure")
		o.TrustedProxies, o.CORSOrigins = prefixes("10.0.0.0/8"), []string{page}
		o.Metadata, o.Directory, o.Authorizer = &spec.ResourceMetadata{}, newDirectory(), grenade{}
	})
	n := newNode(t, change)
	const proxy, stranger = "10.0.0.1:4711", "198.51.100.9:4711"
	refused := 0
	for name, c := range map[string]struct {
		peer, host string
		headers    []string
		listed     bool
	}{
		"listed":                        {stranger, "inside.example:3000", nil, true},
		"listed, in capitals":           {stranger, "INSIDE.EXAMPLE:3000", nil, true},
		"another port":                  {stranger, "inside.example:3001", nil, false},
		"no port":                       {stranger, "inside.example", nil, false},
		"another host":                  {stranger, "evil.test", nil, false},
		"a longer host":                 {stranger, "inside.example.evil.test:3000", nil, false},
		"no host":                       {stranger, "", nil, false},
		"a host that is none":           {stranger, "u@inside.example:3000", nil, false},
		"listed under TLS alone":        {stranger, "hub.example.com", nil, false},
		"what a stranger says":          {stranger, "evil.test", []string{"X-Forwarded-Host", "hub.example.com", "X-Forwarded-Proto", "https", "X-Forwarded-For", "1.2.3.4"}, false},
		"what a stranger says, new":     {stranger, "evil.test", []string{"Forwarded", "for=1.2.3.4;host=hub.example.com;proto=https"}, false},
		"what a proxy says":             {proxy, "evil.test", []string{"X-Forwarded-Host", "hub.example.com", "X-Forwarded-Proto", "https", "X-Forwarded-For", "1.2.3.4"}, true},
		"the default port":              {proxy, "evil.test", []string{"X-Forwarded-Host", "hub.example.com:443", "X-Forwarded-Proto", "https", "X-Forwarded-For", "1.2.3.4"}, true},
		"the public URL":                {proxy, "evil.test", []string{"X-Forwarded-Host", "public.example", "X-Forwarded-Proto", "https", "X-Forwarded-For", "1.2.3.4"}, true},
		"what a proxy passes on":        {proxy, "inside.example:3000", []string{"X-Forwarded-Host", "evil.test", "X-Forwarded-For", "1.2.3.4"}, false},
		"a proxy that says nothing":     {proxy, "inside.example:3000", nil, true},
		"a proxy's client speaks plain": {proxy, "hub.example.com", []string{"X-Forwarded-Proto", "http", "X-Forwarded-For", "1.2.3.4"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{
				spec.DefaultHubPath + "?topic=a", spec.DefaultHubPath + "/subscriptions", spec.ResourceMetadataPath + spec.DefaultHubPath, "/nothing",
			} {
				for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions, spec.MethodQuery, "BREW"} {
					r, w := newExchange(t, method, path, "")
					r.Host, r.RemoteAddr = c.host, c.peer
					r.Header.Set("Origin", page)
					r.Header.Set("Access-Control-Request-Method", "GET")
					r.Header.Set("X-Pull", "1") // the authorizer panics: nothing may be looked at
					for i := 0; i+1 < len(c.headers); i += 2 {
						r.Header.Set(c.headers[i], c.headers[i+1])
					}
					n.Handler().ServeHTTP(w, r)
					if listed := w.Code != http.StatusMisdirectedRequest; listed != c.listed {
						t.Errorf("%s %s: %d", method, path, w.Code)
					}
					if c.listed {
						continue
					}
					refused++
					if w.Header().Get(allowOrigin) != page || w.Header().Get("Cache-Control") != "no-store" || !strings.HasPrefix(w.Body.String(), "Misdirected Request: ") {
						t.Errorf("%s %s: %v %s", method, path, w.Header(), w.Body)
					}
				}
			}
		})
	}
	if got := series(t, reg, "cinnabar_refused_total", "action", "other", "reason", "misdirected"); got != float64(refused) || refused == 0 {
		t.Errorf("%v are counted, want %d", got, refused)
	}
}

// TestOldRequestWithoutHost: HTTP/1.0 need not say where it wants to go.
//
// Covers: DIS-06.
func TestOldRequestWithoutHost(t *testing.T) {
	for listed, status := range map[string]int{"": http.StatusOK, "https://hub.example.com": http.StatusMisdirectedRequest} {
		n := startNode(t, func(o *Options) {
			if listed != "" {
				o.PublicOrigins = []string{listed}
			}
		})
		conn := n.dial()
		fmt.Fprintf(conn, "HEAD %s?topic=a HTTP/1.0\r\n\r\n", spec.DefaultHubPath)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != status {
			t.Errorf("listed %q: %d, want %d", listed, res.StatusCode, status)
		}
	}
}

func TestPublicOriginsThatCannotBe(t *testing.T) {
	for _, origin := range []string{"", "hub.example.com", "https://", "ftp://hub.example.com", "https://hub.example.com/x", "https://u@hub.example.com", "https://hub.example.com?x", "https://[::1", "*", "null"} {
		if _, err := New(Options{Transport: newNode(t, nil).log, Authorizer: denier{}, PublicOrigins: []string{origin}}); err == nil {
			t.Errorf("%q is accepted", origin)
		}
	}
}
