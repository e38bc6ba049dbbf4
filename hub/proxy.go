package hub

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

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
		r, in := receive(r)
		in.client = perClient(addr)
		r.URL.Scheme, r.Host = scheme, host
		next.ServeHTTP(w, r)
	})
}

// clientAddr is who the caps count: the client's address, an IPv6 one without its lower half.
func clientAddr(r *http.Request) netip.Addr {
	if in := incomingOf(r.Context()); in != nil {
		return in.client
	}
	return netip.Addr{}
}

// clientName is clientAddr for the log.
func clientName(r *http.Request) string {
	if a := clientAddr(r); a.IsValid() {
		return a.String()
	}
	return "unix socket"
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
		if p.Contains(a.WithZone("")) {
			return true
		}
	}
	return false
}

// hop is what one proxy says of the request it received.
type hop struct{ addr, scheme, host string }

// forwarded reads X-Forwarded-* or, without X-Forwarded-For, Forwarded (RFC 7239). The hops are walked from
// the nearest: the first that is no trusted proxy is the client. What stands before it was sent by the
// client and is not read; a proxy that writes one family of headers must drop the other.
func (h *Hub) forwarded(r *http.Request, addr netip.Addr, scheme, host string) (netip.Addr, string, string) {
	hops := forwardedHops(r)
	for _, nearest := range slices.Backward(hops) {
		scheme = knownScheme(nearest.scheme, scheme)
		if nearest.host != "" {
			host = nearest.host
		}
		a, ok := parseHop(nearest.addr)
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

// forwardedHops lists the hops, the nearest last. X-Forwarded-Proto and -Host are no chains: they count for
// the nearest hop.
func forwardedHops(r *http.Request) []hop {
	all := func(name string) string { return strings.Join(r.Header.Values(name), ",") }
	var hops []hop
	if f := all("Forwarded"); f != "" && all("X-Forwarded-For") == "" {
		for element := range strings.SplitSeq(f, ",") {
			var e hop
			for pair := range strings.SplitSeq(element, ";") {
				name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
				value = strings.Trim(value, `"`)
				switch strings.ToLower(name) {
				case "for":
					e.addr = value
				case "proto":
					e.scheme = value
				case "host":
					e.host = value
				}
			}
			hops = append(hops, e)
		}
		return hops
	}
	for a := range strings.SplitSeq(all("X-Forwarded-For"), ",") {
		hops = append(hops, hop{addr: a})
	}
	nearest := &hops[len(hops)-1]
	nearest.scheme, nearest.host = last(all("X-Forwarded-Proto")), last(all("X-Forwarded-Host"))
	return hops
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
