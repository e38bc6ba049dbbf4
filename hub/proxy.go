package hub

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

type clientKey struct{}

// resolveClient finds out who sent the request and how the client sees the hub: the peer itself, or what
// trusted proxies say of it. It sets r.URL.Scheme and r.Host accordingly, which the origin check needs (CORS-07).
func (h *Hub) resolveClient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer := peerAddr(r)
		addr, scheme, host := peer, "http", r.Host
		if r.TLS != nil {
			scheme = "https"
		}
		if h.trusts(peer) {
			addr, scheme, host = h.forwarded(r, addr, scheme, host)
		}
		r = r.WithContext(context.WithValue(r.Context(), clientKey{}, perClient(addr)))
		u := *r.URL
		u.Scheme = scheme
		r.URL, r.Host = &u, host
		next.ServeHTTP(w, r)
	})
}

// clientAddr is who the caps count: the client's address, an IPv6 one without its lower half.
func clientAddr(r *http.Request) netip.Addr {
	a, _ := r.Context().Value(clientKey{}).(netip.Addr)
	return a
}

// perClient drops the half of an IPv6 address that its owner chooses at will.
func perClient(a netip.Addr) netip.Addr {
	if a.Is4() || !a.IsValid() {
		return a
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}

// peerAddr is the connection's other end, invalid for a unix socket.
func peerAddr(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// trusts reports whether a is a trusted proxy. A peer on a unix socket is one as soon as any is configured:
// only a local proxy connects there.
func (h *Hub) trusts(a netip.Addr) bool {
	if !a.IsValid() {
		return len(h.o.TrustedProxies) > 0
	}
	for _, p := range h.o.TrustedProxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// forwarded reads Forwarded (RFC 7239) or, without it, X-Forwarded-*. The chain of addresses is walked
// from the nearest: the first that is no trusted proxy is the client, whatever stands before it.
func (h *Hub) forwarded(r *http.Request, addr netip.Addr, scheme, host string) (netip.Addr, string, string) {
	var chain []string
	if f := strings.Join(r.Header.Values("Forwarded"), ","); f != "" {
		for element := range strings.SplitSeq(f, ",") {
			for pair := range strings.SplitSeq(element, ";") {
				name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
				value = strings.Trim(value, `"`)
				switch strings.ToLower(name) {
				case "for":
					chain = append(chain, value)
				case "proto":
					scheme = knownScheme(value, scheme)
				case "host":
					host = value
				}
			}
		}
	} else {
		chain = strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		scheme = knownScheme(last(r.Header.Get("X-Forwarded-Proto")), scheme)
		if v := last(r.Header.Get("X-Forwarded-Host")); v != "" {
			host = v
		}
	}
	for i := len(chain) - 1; i >= 0; i-- {
		a, ok := parseHop(chain[i])
		if !ok {
			break
		}
		addr = a
		if !h.trusts(a) {
			break
		}
	}
	return addr, scheme, host
}

func last(list string) string {
	return strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
}

func knownScheme(value, fallback string) string {
	switch v := strings.ToLower(value); v {
	case "http", "https":
		return v
	}
	return fallback
}

// parseHop reads an address with or without a port.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}
