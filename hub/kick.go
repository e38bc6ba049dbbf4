package hub

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// Disconnect tells the streams of this node that b is about to end, after their last whole event, and returns how many.
// For as long as b says, new streams of its subject are answered 204, whereupon an EventSource does not come back
// (SUB-41). A ban that is in force already is not shortened. The error is transport.ErrBan. Safe for concurrent use.
func (h *Hub) Disconnect(_ context.Context, b transport.Ban) (streams int, err error) {
	if err := b.Validate(); err != nil {
		return 0, fmt.Errorf("hub: disconnect: %w", err)
	}
	h.bans.add(b, time.Now()) // first: who is sent away may be quick
	for _, s := range h.fanout.snapshot() {
		if concerns(b, s.memberID(), s.grant.Subject) {
			s.end(endDisconnected)
			streams++
		}
	}
	if h.presence != nil {
		h.presence.disconnect(b)
	}
	h.log.Info("disconnected by an operator", "streams", streams, "for", b.For)
	return streams, nil
}

// Bans are those in force that keep somebody away, each with the time that is left; see transport.NodeControl.
func (h *Hub) Bans() []transport.Ban { return h.bans.list(time.Now()) }

// concerns reports whether b is about a stream.
func concerns(b transport.Ban, subscriber, subject string) bool {
	if b.Subscriber != "" {
		return b.Subscriber == subscriber
	}
	return b.Subject == subject
}

// memberID is the id under which the directory knows a stream, empty if it does not.
func (s *subscriber) memberID() string {
	if m := s.member.Load(); m != nil {
		return m.presence.Subscriber
	}
	return ""
}

// disconnect lets go of those who are only held.
func (p *presence) disconnect(b transport.Ban) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(func(held *member) bool { return concerns(b, held.presence.Subscriber, held.presence.Subject) })
}

// bans are the subjects whose streams are kept away. The zero value is ready.
type bans struct {
	mu  sync.Mutex
	all map[string]ban // by subject; guarded by mu
}

// ban is what is known of one that is in force.
type ban struct {
	subscriber string // empty if one of them was about the whole subject
	until      time.Time
}

// maxBans bounds them: beyond, the one that would be over first is over.
const maxBans = 10_000

func (b *bans) add(o transport.Ban, now time.Time) {
	if o.Subject == "" || o.For <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	one := ban{subscriber: o.Subscriber, until: now.Add(o.For)}
	if former, known := b.all[o.Subject]; known && now.Before(former.until) {
		if former.until.After(one.until) {
			one.until = former.until
		}
		if former.subscriber == "" {
			one.subscriber = ""
		}
	} else if !known && len(b.all) >= maxBans {
		b.makeRoom(now)
	}
	if b.all == nil {
		b.all = map[string]ban{}
	}
	b.all[o.Subject] = one
}

// makeRoom removes those that are over, or else the next one. The lock is held.
func (b *bans) makeRoom(now time.Time) {
	b.expire(now)
	if len(b.all) < maxBans {
		return
	}
	next, at := "", time.Time{}
	for subject, one := range b.all {
		if at.IsZero() || one.until.Before(at) {
			next, at = subject, one.until
		}
	}
	delete(b.all, next)
}

// expire removes those that are over. The lock is held.
func (b *bans) expire(now time.Time) {
	maps.DeleteFunc(b.all, func(_ string, one ban) bool { return !now.Before(one.until) })
}

func (b *bans) list(now time.Time) []transport.Ban {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire(now)
	list := make([]transport.Ban, 0, len(b.all))
	for subject, one := range b.all {
		list = append(list, transport.Ban{Subscriber: one.subscriber, Subject: subject, For: one.until.Sub(now)})
	}
	return list
}

// away reports whether a subject is kept away.
func (b *bans) away(subject string, now time.Time) bool {
	if subject == "" {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	one, ok := b.all[subject]
	return ok && now.Before(one.until)
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
