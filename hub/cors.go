package hub

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// What browsers may send and scripts may read. Source: CORS-03, CORS-04.
const (
	corsMethods = "GET, HEAD, POST, OPTIONS"
	corsHeaders = "authorization, cache-control, content-type, if-none-match, last-event-id"
	corsExposed = "Link, Last-Event-ID, Mercure-Last-Event-ID, ETag, WWW-Authenticate, Retry-After, X-Request-Id"
	corsMaxAge  = "7200" // seconds a preflight is remembered; browsers cap it themselves
)

// cors adds the cross-origin headers, on errors too (CORS-05), and answers preflights.
func (h *Hub) cors(next http.Handler) http.Handler {
	if len(h.o.CORSOrigins) == 0 && !h.o.LocalhostCORS {
		return next
	}
	anyOrigin := slices.Contains(h.o.CORSOrigins, "*")
	listed := make(map[string]bool, len(h.o.CORSOrigins))
	for _, o := range h.o.CORSOrigins {
		listed[canonicalOrigin(o)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		head := w.Header()
		var allowed bool
		switch {
		case anyOrigin: // never with credentials (CORS-02)
			head.Set("Access-Control-Allow-Origin", "*")
			allowed = origin != ""
		default:
			head.Add("Vary", "Origin")
			allowed = origin != "" && (listed[canonicalOrigin(origin)] || h.o.LocalhostCORS && isLocalhost(origin))
			if allowed {
				head.Set("Access-Control-Allow-Origin", origin)
				head.Set("Access-Control-Allow-Credentials", "true")
			}
		}
		if allowed {
			head.Set("Access-Control-Expose-Headers", corsExposed)
		}
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		if allowed {
			head.Set("Access-Control-Allow-Methods", corsMethods)
			head.Set("Access-Control-Allow-Headers", corsHeaders)
			head.Set("Access-Control-Max-Age", corsMaxAge)
		}
		head.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
		w.WriteHeader(http.StatusNoContent)
	})
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
