package hub

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// publicOrigins are the origins that a hub answers for, in comparable form; nil = all.
type publicOrigins map[string]bool

// parsePublicOrigins reads the list; the public URL's own origin belongs to it, if there is one.
func parsePublicOrigins(list []string, public *url.URL) (publicOrigins, error) {
	if len(list) == 0 {
		return nil, nil
	}
	origins := make(publicOrigins, len(list)+1)
	for _, entry := range list {
		scheme, host, ok := strings.Cut(strings.TrimSuffix(entry, "/"), "://")
		one := comparableOrigin(scheme, host)
		if !ok || one == "" {
			return nil, fmt.Errorf("hub: public origin %q: want http or https://host[:port]", entry)
		}
		origins[one] = true
	}
	if public != nil {
		origins[comparableOrigin(public.Scheme, public.Host)] = true
	}
	delete(origins, "") // what no origin is compared as
	return origins, nil
}

// comparableOrigin is an origin in lower case with its port spelled out, empty if it is none. host may have a port.
func comparableOrigin(scheme, host string) string {
	scheme = strings.ToLower(scheme)
	port := map[string]string{"http": "80", "https": "443"}[scheme]
	u, err := url.Parse(scheme + "://" + host)
	if err != nil || port == "" || u.Hostname() == "" || u.Host != host || u.User != nil {
		return ""
	}
	if p := u.Port(); p != "" {
		port = p
	}
	return scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// onlyPublic refuses what was sent to an origin that is not the hub's, as resolveClient sees it: whoever makes a name
// of their own resolve to this machine gets nothing from it (DIS-06).
func (h *Hub) onlyPublic(next http.Handler) http.Handler {
	if h.public == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.public[comparableOrigin(r.URL.Scheme, r.Host)] {
			next.ServeHTTP(w, r)
			return
		}
		h.allowOrigin(w.Header(), r)
		h.refuse(w, r, "other", &spec.Problem{
			Status: http.StatusMisdirectedRequest, Reason: "misdirected",
			Detail: "this hub does not answer for the scheme and host that the request was sent to",
			Cause:  fmt.Errorf("it was sent to %.200q", r.URL.Scheme+"://"+r.Host),
		})
	})
}
