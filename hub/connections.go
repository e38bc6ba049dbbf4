package hub

import (
	"fmt"
	"net/http"
	"net/netip"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

// openStreams counts streams for the caps. Its maps hold only addresses and subjects of open streams.
type openStreams struct {
	total      int
	perIP      map[netip.Addr]int
	perSubject map[auth.Holder]int
}

// Connections is how many streams are open now.
func (h *Hub) Connections() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open.total
}

// admit counts a stream in, or says which cap is reached.
func (h *Hub) admit(addr netip.Addr, holder auth.Holder) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	over := func(n, limit int, reason, whose string) error {
		if limit <= 0 || n < limit {
			return nil
		}
		return &spec.Problem{
			Status: http.StatusTooManyRequests, Reason: reason, RetryAfter: softRetry(h.o.Retry),
			Detail: fmt.Sprintf("too many connections %s: the limit is %d", whose, limit),
		}
	}
	if err := over(h.open.total, h.o.MaxConnections, "max_connections", "to this hub"); err != nil {
		return err
	}
	if addr.IsValid() { // a peer on a unix socket that no proxy speaks for has none
		if err := over(h.open.perIP[addr], h.o.MaxConnectionsPerIP, "max_connections_per_ip", "from this address"); err != nil {
			return err
		}
	}
	if holder.Subject != "" {
		if err := over(h.open.perSubject[holder], h.o.MaxConnectionsPerSubject, "max_connections_per_subject", "with this token's subject"); err != nil {
			return err
		}
		h.open.perSubject[holder]++
	}
	h.open.perIP[addr]++
	h.open.total++
	h.metrics.Subscribers.Inc()
	return nil
}

// dismiss counts a stream out.
func (h *Hub) dismiss(addr netip.Addr, holder auth.Holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open.perIP[addr]--; h.open.perIP[addr] <= 0 {
		delete(h.open.perIP, addr)
	}
	if holder.Subject != "" {
		if h.open.perSubject[holder]--; h.open.perSubject[holder] <= 0 {
			delete(h.open.perSubject, holder)
		}
	}
	h.open.total--
	h.metrics.Subscribers.Dec()
	if h.open.total == 0 && h.drain.idle != nil {
		close(h.drain.idle)
		h.drain.idle = nil
	}
}

// forget removes a stream whose sink has been closed.
func (h *Hub) forget(s *subscriber, why endReason) {
	h.fanout.leave(s)
	h.removeInterest(s.selectors)
	if h.presence != nil {
		h.presence.leave(s, why)
	}
	h.dismiss(s.addr, s.grant.Holder())
	if why == endLate {
		h.log.Error("stream cut, too many late entries wait for it: some are lost to its client", "request_id", s.requestID)
	}
	h.metrics.SubscribersEnded.WithLabelValues(why.String()).Inc()
	h.log.Debug("stream ended", "request_id", s.requestID, "reason", why.String())
}
