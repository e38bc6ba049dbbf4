package hub

import (
	"net/http"
	"sync"
	"time"
)

// Match says whose streams are meant. Empty fields are not looked at; with both empty, nobody is meant.
type Match struct {
	Subscriber string // id of one connection, as the subscription API shows it
	Subject    string // the token's subject
}

func (m Match) selects(subscriber, subject string) bool {
	return m != Match{} && (m.Subscriber == "" || m.Subscriber == subscriber) && (m.Subject == "" || m.Subject == subject)
}

// Disconnect ends the streams of this node that m means, after their last whole event, and returns how many. For as
// long as `away` says (0 = not at all), new streams of the subject are answered 204, whereupon an EventSource does not come
// back (SUB-41). The subject is m's, whether or not it has a stream here, or else that of the stream that was ended; without
// one, as anonymous clients have none, nobody can be kept away. Safe for concurrent use.
func (h *Hub) Disconnect(m Match, away time.Duration) int {
	now := time.Now()
	h.bans.add(m.Subject, now, away) // first: who is sent away may be quick
	n := 0
	for _, s := range h.fanout.snapshot() {
		if !m.selects(s.memberID(), s.grant.Subject) {
			continue
		}
		h.bans.add(s.grant.Subject, now, away)
		s.end(endDisconnected)
		n++
	}
	if h.presence != nil {
		h.presence.disconnect(m)
	}
	h.log.Info("disconnected by an operator", "streams", n, "away", away)
	return n
}

// memberID is the id under which the directory knows a stream, empty if it does not.
func (s *subscriber) memberID() string {
	if m := s.member.Load(); m != nil {
		return m.presence.Subscriber
	}
	return ""
}

// disconnect lets go of those who are only held.
func (p *presence) disconnect(m Match) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(func(held *member) bool { return m.selects(held.presence.Subscriber, held.presence.Subject) })
}

// bans are the subjects whose streams are kept away. The zero value is ready.
type bans struct {
	mu    sync.Mutex
	until map[string]time.Time // guarded by mu
}

// maxBans bounds them: beyond, the one that would be over first is over.
const maxBans = 10_000

func (b *bans) add(subject string, now time.Time, d time.Duration) {
	if subject == "" || d <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.until[subject]; !known && len(b.until) >= maxBans {
		b.makeRoom(now)
	}
	if b.until == nil {
		b.until = map[string]time.Time{}
	}
	b.until[subject] = now.Add(d)
}

// makeRoom removes the bans that are over, or else the next one. The lock is held.
func (b *bans) makeRoom(now time.Time) {
	next, at := "", time.Time{}
	for s, until := range b.until {
		if !now.Before(until) {
			delete(b.until, s)
		} else if at.IsZero() || until.Before(at) {
			next, at = s, until
		}
	}
	if len(b.until) >= maxBans {
		delete(b.until, next)
	}
}

// away reports whether a subject is kept away.
func (b *bans) away(subject string, now time.Time) bool {
	if subject == "" {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	until, ok := b.until[subject]
	if ok && !now.Before(until) {
		delete(b.until, subject)
		return false
	}
	return ok
}

// sendAway is the answer to a client that must not come back (SUB-41).
func (h *Hub) sendAway(w http.ResponseWriter, r *http.Request) error {
	h.metrics.Disconnected.Inc()
	h.log.InfoContext(r.Context(), "stream of a disconnected client refused", "request_id", requestID(r.Context()))
	w.Header().Set("Cache-Control", "no-store")
	harden(w.Header())
	w.WriteHeader(http.StatusNoContent)
	return nil
}
