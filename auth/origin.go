package auth

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// origin is a web origin in comparable form: lower case, with its port spelled out (RFC 6454 §4).
type origin struct{ scheme, host, port string }

// origins are the ones whose pages may publish with a cookie.
type origins struct {
	own    *origin // the hub's; nil = whatever the request was sent to
	listed map[origin]bool
	any    bool // "*"
	opaque bool // "null"
}

// parseOrigins reads the configuration; its error names the entry that is not an origin.
func parseOrigins(public *url.URL, listed []string) (origins, error) {
	o := origins{listed: make(map[origin]bool, len(listed))}
	if public != nil {
		own, ok := originOf(public)
		if !ok {
			return origins{}, fmt.Errorf("public URL %q has no origin", public.Redacted())
		}
		o.own = &own
	}
	for _, entry := range listed {
		switch entry {
		case "*":
			o.any = true
		case "null":
			o.opaque = true
		default:
			one, ok := parseOrigin(strings.TrimSuffix(entry, "/"))
			if !ok {
				return origins{}, fmt.Errorf("publish origin %q: want scheme://host[:port], null or *", entry)
			}
			o.listed[one] = true
		}
	}
	return o, nil
}

// allow reports whether the page that sent r may use the cookie to publish: its Origin, else the origin of its
// Referer, must be the hub's own or a listed one (CORS-06, CORS-07). "*" stands for every origin that has a
// name; an opaque one only passes if "null" is listed. It returns the reason of a refusal.
func (o *origins) allow(r *http.Request) (string, bool) {
	sent := r.Header.Values("Origin")
	switch {
	case len(sent) > 1:
		return "more than one Origin header", false
	case len(sent) == 1 && sent[0] == "null":
		if o.opaque {
			return "", true
		}
		return "the opaque origin null may not publish with the cookie", false
	case len(sent) == 1:
		from, ok := parseOrigin(sent[0])
		if !ok {
			return "the Origin header is not an origin", false
		}
		return o.named(r, from)
	}
	referer := r.Header.Values("Referer")
	if len(referer) != 1 {
		return "publishing with a cookie needs an Origin or Referer header", false
	}
	u, err := url.Parse(referer[0])
	if err != nil {
		return "the Referer header is not a URL", false
	}
	from, ok := originOf(u)
	if !ok {
		return "the Referer header has no origin", false
	}
	return o.named(r, from)
}

// seen tells the operator which origin was compared with which, for the log alone. Of a Referer no more than the origin
// is told: the rest may hold secrets.
func (o *origins) seen(r *http.Request) error {
	what := "neither header"
	if sent := r.Header.Values("Origin"); len(sent) > 0 {
		what = fmt.Sprintf("Origin %.200q", sent[0])
	} else if u, err := url.Parse(r.Header.Get("Referer")); err == nil && u.Host != "" {
		what = fmt.Sprintf("Referer of %.200q", u.Scheme+"://"+u.Host)
	}
	own := o.self(r)
	return fmt.Errorf("%s; the hub's own origin is %s://%s:%s, and %d are listed", what, own.scheme, own.host, own.port, len(o.listed))
}

// named decides about an origin that has a name.
func (o *origins) named(r *http.Request, from origin) (string, bool) {
	if o.any || o.listed[from] || from == o.self(r) {
		return "", true
	}
	return "pages of this origin may not publish with the cookie", false
}

// self is the hub's own origin. Without a public URL it is what the request was sent to: a browser does not
// let a page forge Host.
func (o *origins) self(r *http.Request) origin {
	if o.own != nil {
		return *o.own
	}
	scheme := r.URL.Scheme
	if scheme == "" {
		scheme = "http"
		if r.TLS != nil {
			scheme = "https"
		}
	}
	self, _ := parseOrigin(scheme + "://" + r.Host)
	return self
}

// parseOrigin reads exactly scheme://host[:port].
func parseOrigin(s string) (origin, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil ||
		strings.HasSuffix(s, "#") {
		return origin{}, false
	}
	return originOf(u)
}

// originOf returns the origin of u, with the default port of its scheme.
func originOf(u *url.URL) (origin, bool) {
	o := origin{scheme: strings.ToLower(u.Scheme), host: strings.ToLower(u.Hostname()), port: u.Port()}
	if o.scheme == "" || o.host == "" {
		return origin{}, false
	}
	if o.port == "" {
		switch o.scheme {
		case "http":
			o.port = "80"
		case "https":
			o.port = "443"
		}
	}
	return o, true
}
