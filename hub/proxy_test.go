package hub

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// seen is what the handlers behind resolveClient are told.
type seen struct{ client, scheme, host string }

// resolve sends a request from peer through the wrapper; headers alternate names and values.
func resolve(t testing.TB, h *Hub, peer string, secure bool, headers ...string) seen {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/hub?topic=a", nil)
	r.Host, r.RemoteAddr = "internal:3000", peer
	if secure {
		r.TLS = &tls.ConnectionState{}
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	var s seen
	h.resolveClient(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s = seen{clientAddr(r).String(), r.URL.Scheme, r.Host}
	})).ServeHTTP(httptest.NewRecorder(), r)
	if r.URL.Scheme != "" || r.Host != "internal:3000" {
		t.Error("the caller's request was changed")
	}
	return s
}

func prefixes(list ...string) []netip.Prefix {
	p := make([]netip.Prefix, len(list))
	for i, s := range list {
		p[i] = netip.MustParsePrefix(s)
	}
	return p
}

// Covers: CORS-07, LIM-10.
func TestResolveClient(t *testing.T) {
	const (
		proxy    = "10.0.0.1:4711"
		stranger = "198.51.100.9:4711"
		internal = "internal:3000"
	)
	trusted := prefixes("10.0.0.0/8", "fd00::/8")
	for name, c := range map[string]struct {
		trusted []netip.Prefix
		peer    string
		secure  bool
		headers []string
		want    seen
	}{
		"nobody in between": {trusted, stranger, false, nil, seen{"198.51.100.9", "http", internal}},
		"TLS":               {trusted, stranger, true, nil, seen{"198.51.100.9", "https", internal}},
		"a proxy that says nothing": {
			trusted, proxy, true, nil, seen{"10.0.0.1", "https", internal},
		},

		"a stranger's X-Forwarded": {
			trusted, stranger, false,
			[]string{"X-Forwarded-For", "203.0.113.7", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "hub.test"},
			seen{"198.51.100.9", "http", internal},
		},
		"a stranger's Forwarded": {
			trusted, stranger, false,
			[]string{"Forwarded", `for=203.0.113.7;proto=https;host=hub.test`},
			seen{"198.51.100.9", "http", internal},
		},
		"no proxies configured": {
			nil, proxy, false,
			[]string{"X-Forwarded-For", "203.0.113.7", "X-Forwarded-Proto", "https"},
			seen{"10.0.0.1", "http", internal},
		},

		"X-Forwarded": {
			trusted, proxy, false,
			[]string{"X-Forwarded-For", "203.0.113.7", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "hub.test"},
			seen{"203.0.113.7", "https", "hub.test"},
		},
		"X-Forwarded from a proxy with TLS to us and without to the client": {
			trusted, proxy, true, []string{"X-Forwarded-Proto", "http"}, seen{"10.0.0.1", "http", internal},
		},
		"X-Forwarded-Proto in capitals": {
			trusted, proxy, false, []string{"X-Forwarded-Proto", "HTTPS"}, seen{"10.0.0.1", "https", internal},
		},
		"X-Forwarded-Proto that is no scheme of ours": {
			trusted, proxy, false, []string{"X-Forwarded-Proto", "javascript"}, seen{"10.0.0.1", "http", internal},
		},
		"X-Forwarded-Proto and -Host: the nearest counts": {
			trusted, proxy, false,
			[]string{"X-Forwarded-Proto", "http, https", "X-Forwarded-Host", "evil.test, hub.test"},
			seen{"10.0.0.1", "https", "hub.test"},
		},
		"spoofed left entries": {
			trusted, proxy, false,
			[]string{"X-Forwarded-For", "127.0.0.1, 10.9.9.9, 203.0.113.7"},
			seen{"203.0.113.7", "http", internal},
		},
		"two proxies": {
			trusted, proxy, false,
			[]string{"X-Forwarded-For", "1.1.1.1, 203.0.113.7, 10.0.0.2"},
			seen{"203.0.113.7", "http", internal},
		},
		"two proxies, a line each": {
			trusted, proxy, false,
			[]string{"X-Forwarded-For", "1.1.1.1, 203.0.113.7", "X-Forwarded-For", "10.0.0.2"},
			seen{"203.0.113.7", "http", internal},
		},
		"nothing but proxies": {
			trusted, proxy, false, []string{"X-Forwarded-For", "10.0.0.3,10.0.0.2"}, seen{"10.0.0.3", "http", internal},
		},
		"garbage at the right end": {
			trusted, proxy, false, []string{"X-Forwarded-For", "203.0.113.7, unknown"}, seen{"10.0.0.1", "http", internal},
		},
		"garbage in the middle hides what is left of it": {
			trusted, proxy, false, []string{"X-Forwarded-For", "203.0.113.7, <script>, 10.0.0.2"}, seen{"10.0.0.2", "http", internal},
		},
		"an empty header": {trusted, proxy, false, []string{"X-Forwarded-For", ""}, seen{"10.0.0.1", "http", internal}},

		"with a port": {
			trusted, proxy, false, []string{"X-Forwarded-For", "203.0.113.7:1234"}, seen{"203.0.113.7", "http", internal},
		},
		"IPv6 in brackets with a port": {
			trusted, proxy, false, []string{"X-Forwarded-For", "[2001:db8:1:2:3:4:5:6]:1234"}, seen{"2001:db8:1:2::", "http", internal},
		},
		"IPv6 bare": {
			trusted, proxy, false, []string{"X-Forwarded-For", "2001:db8:1:2:3:4:5:6"}, seen{"2001:db8:1:2::", "http", internal},
		},
		"IPv4 in IPv6": {
			trusted, "[::ffff:10.0.0.1]:4711", false, []string{"X-Forwarded-For", "::ffff:203.0.113.7"}, seen{"203.0.113.7", "http", internal},
		},
		"an IPv6 peer is its /64": {trusted, "[2001:db8:1:2:aaaa::1]:4711", false, nil, seen{"2001:db8:1:2::", "http", internal}},
		"a link-local peer":       {trusted, "[fe80::1%eth0]:4711", false, nil, seen{"fe80::", "http", internal}},
		"an IPv6 proxy": {
			trusted, "[fd00::1]:4711", false, []string{"X-Forwarded-For", "203.0.113.7"}, seen{"203.0.113.7", "http", internal},
		},

		"Forwarded": {
			trusted, proxy, false,
			[]string{"Forwarded", `for=203.0.113.7;proto=https;host=hub.test;by=10.0.0.1`},
			seen{"203.0.113.7", "https", "hub.test"},
		},
		"Forwarded, quoted, odd case and spaces": {
			trusted, proxy, false,
			[]string{"Forwarded", `For="[2001:db8:1:2::17]:4711" ; PROTO=HTTPS ; Host="hub.test:8443"`},
			seen{"2001:db8:1:2::", "https", "hub.test:8443"},
		},
		"Forwarded, spoofed left entries": {
			trusted, proxy, false,
			[]string{"Forwarded", `for=127.0.0.1, for=10.9.9.9, for=203.0.113.7`},
			seen{"203.0.113.7", "http", internal},
		},
		"Forwarded by two proxies, a line each": {
			trusted, proxy, false,
			[]string{"Forwarded", `for=203.0.113.7;proto=https`, "Forwarded", `for=10.0.0.2`},
			seen{"203.0.113.7", "https", internal},
		},
		"Forwarded, hidden client": {
			trusted, proxy, false, []string{"Forwarded", `for=_hidden;proto=https`}, seen{"10.0.0.1", "https", internal},
		},
		"Forwarded, garbage": {
			trusted, proxy, false, []string{"Forwarded", `;;=,"for=,for`}, seen{"10.0.0.1", "http", internal},
		},

		"a unix socket without proxies": {
			nil, "@", false, []string{"X-Forwarded-For", "203.0.113.7"}, seen{"invalid IP", "http", internal},
		},
		"a unix socket with proxies": {
			trusted, "@", false,
			[]string{"X-Forwarded-For", "203.0.113.7", "X-Forwarded-Proto", "https"},
			seen{"203.0.113.7", "https", internal},
		},
		"a unix socket with proxies that say nothing": {trusted, "", false, nil, seen{"invalid IP", "http", internal}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, func(o *Options) { o.TrustedProxies = c.trusted })
			if got := resolve(t, n.Hub, c.peer, c.secure, c.headers...); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// FuzzForwarded sends arbitrary headers through a trusted proxy that adds the true client to the right.
func FuzzForwarded(f *testing.F) {
	f.Add("203.0.113.9", "https", "hub.test")
	f.Add("1.2.3.4, [::1]:80,,\"", "http,javascript:", "a,b")
	f.Add(`for="x;y,z";proto=https;host="`, "\x00", "\xff")
	h := newNode(f, func(o *Options) { o.TrustedProxies = prefixes("10.0.0.0/8") }).Hub
	f.Fuzz(func(t *testing.T, chain, proto, host string) {
		for name, headers := range map[string][]string{
			"X-Forwarded": {"X-Forwarded-For", chain + ",203.0.113.7", "X-Forwarded-Proto", proto, "X-Forwarded-Host", host},
			"Forwarded":   {"Forwarded", chain + ";proto=" + proto + ";host=" + host + ", for=203.0.113.7"},
		} {
			got := resolve(t, h, "10.0.0.1:1", false, headers...)
			if got.client != "203.0.113.7" {
				t.Errorf("%s: the client is %s", name, got.client)
			}
			if got.scheme != "http" && got.scheme != "https" {
				t.Errorf("%s: the scheme is %q", name, got.scheme)
			}
		}
		if got := resolve(t, h, "10.0.0.1:1", false, "X-Forwarded-For", chain, "Forwarded", proto); got.client == "" {
			t.Error("no client")
		}
		if got := resolve(t, h, "198.51.100.9:1", false, "X-Forwarded-For", chain, "Forwarded", proto, "X-Forwarded-Host", host); got != (seen{"198.51.100.9", "http", "internal:3000"}) {
			t.Errorf("a stranger is believed: %+v", got)
		}
	})
}

// What a client makes up must not pass for what a trusted proxy says.
//
// Covers: CORS-07, SUB-24, LIM-10.
func TestSpoofedForwarding(t *testing.T) {
	const proxy = "10.0.0.1:4711"
	for name, c := range map[string]struct {
		headers []string
		want    seen
	}{
		"Forwarded passed through by a proxy that writes X-Forwarded": {
			[]string{"Forwarded", "for=192.0.2.66;proto=https;host=evil.test", "X-Forwarded-For", "203.0.113.7", "X-Forwarded-Proto", "http"},
			seen{"203.0.113.7", "http", "internal:3000"},
		},
		"Forwarded, proto and host of a spoofed left entry": {
			[]string{"Forwarded", "for=192.0.2.66;proto=https;host=evil.test, for=203.0.113.7"},
			seen{"203.0.113.7", "http", "internal:3000"},
		},
		"Forwarded, an entry of the nearest proxy without for": {
			[]string{"Forwarded", "for=192.0.2.66, proto=https"},
			seen{"10.0.0.1", "https", "internal:3000"},
		},
		"X-Forwarded-Proto and -Host, a line each": {
			[]string{"X-Forwarded-Proto", "https", "X-Forwarded-Proto", "http", "X-Forwarded-Host", "evil.test", "X-Forwarded-Host", "hub.test"},
			seen{"10.0.0.1", "http", "hub.test"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, func(o *Options) { o.TrustedProxies = prefixes("10.0.0.0/8") })
			if got := resolve(t, n.Hub, proxy, false, c.headers...); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
