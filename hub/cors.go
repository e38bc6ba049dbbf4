package hub

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// What browsers may send and scripts may read. Source: CORS-03, CORS-04.
const (
	corsMethods = "GET, HEAD, POST, QUERY, OPTIONS"
	corsHeaders = "authorization, cache-control, content-type, if-none-match, last-event-id"
	corsExposed = "Link, Last-Event-ID, Mercure-Last-Event-ID, ETag, WWW-Authenticate, Retry-After, X-Request-Id"
	corsMaxAge  = "7200" // seconds a preflight is remembered; browsers cap it themselves
)

// corsRules is who may read the hub's answers from another origin.
type corsRules struct {
	on, any, localhost bool
	listed             map[string]bool
}

func newCORSRules(o *Options) corsRules {
	c := corsRules{
		on: len(o.CORSOrigins) > 0 || o.LocalhostCORS, any: slices.Contains(o.CORSOrigins, "*"), localhost: o.LocalhostCORS,
		listed: make(map[string]bool, len(o.CORSOrigins)),
	}
	for _, one := range o.CORSOrigins {
		c.listed[canonicalOrigin(one)] = true
	}
	return c
}

// cors adds the cross-origin headers, on errors too (CORS-05), and answers preflights.
func (h *Hub) cors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		public := h.isMetadata(r)
		if !public && !h.crossOrigin.on {
			next.ServeHTTP(w, r)
			return
		}
		head, methods := w.Header(), corsMethods
		var allowed bool
		if public {
			allowed, methods = true, metadataMethods
			head.Set("Access-Control-Allow-Origin", "*")
			head.Set("Access-Control-Expose-Headers", corsExposed)
		} else {
			allowed = h.allowOrigin(head, r)
		}
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		if allowed {
			head.Set("Access-Control-Allow-Methods", methods)
			head.Set("Access-Control-Allow-Headers", corsHeaders)
			head.Set("Access-Control-Max-Age", corsMaxAge)
		}
		head.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
		w.WriteHeader(http.StatusNoContent)
	})
}

// allowOrigin sets what lets the page that sent r read the answer, and reports whether there is such a page.
func (h *Hub) allowOrigin(head http.Header, r *http.Request) bool {
	c, origin := &h.crossOrigin, r.Header.Get("Origin")
	var allowed bool
	switch {
	case !c.on:
		return false
	case c.any: // never with credentials (CORS-02)
		head.Set("Access-Control-Allow-Origin", "*")
		allowed = origin != ""
	default:
		head.Add("Vary", "Origin")
		allowed = origin != "" && (c.listed[canonicalOrigin(origin)] || c.localhost && isLocalhost(origin))
		if allowed {
			head.Set("Access-Control-Allow-Origin", origin)
			head.Set("Access-Control-Allow-Credentials", "true")
		}
	}
	if allowed {
		head.Set("Access-Control-Expose-Headers", corsExposed)
	}
	return allowed
}

// canonicalOrigin lower-cases what is not case-sensitive: scheme and host are all there is.
func canonicalOrigin(o string) string { return strings.ToLower(strings.TrimSuffix(o, "/")) }

// isLocalhost reports whether an origin is this machine under its own name, on any port.
func isLocalhost(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	switch u.Hostname() {
	case "localhost", "127.0.0.1", "::1":
		return true
	}
	return false
}
