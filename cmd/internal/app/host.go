package app

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// guardHost keeps foreign pages out of a listener of this machine. The owner of a domain can make its name
// resolve to 127.0.0.1; to the browser a page from there is then of the same origin as the listener, and
// neither CORS nor a firewall stands in its way. What gives it away is the Host it sends. Answered are an address,
// localhost and names below it, and the host of --public-url; others get 421. everywhere is for a listener
// that is guarded on any address, others are on loopback ones alone.
func guardHost(next http.Handler, public *url.URL, everywhere bool) http.Handler {
	name := ""
	if public != nil {
		name = public.Hostname()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (everywhere || onLoopback(r.Context())) && !ownName(r.Host, name) {
			misdirected(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func misdirected(w http.ResponseWriter) {
	p := spec.Problem{
		Status: http.StatusMisdirectedRequest, Reason: "foreign_host",
		Detail: "this listener goes by localhost, an IP address or the host of --public-url",
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write([]byte(p.Detail + "\n")) // the client is gone, which is its own business
}

// onLoopback reports whether the connection of a request came in at a loopback address.
func onLoopback(ctx context.Context) bool {
	a, ok := ctx.Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// ownName reports whether hostport, a Host header, names this machine or public. HTTP/1.0 has none.
func ownName(hostport, public string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || public != "" && strings.EqualFold(host, public) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}
