package hub

import (
	"cmp"
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// Whoever comes back within the rejoin grace, to this node, with the same subject of the same issuer, selectors and payloads, was never
// away: its entry stays in the directory, under the same subscriber id, and nobody is told anything.

// rejoinKey is a digest of who somebody is and what they are subscribed to.
type rejoinKey [sha256.Size]byte

// hold is a member's place among the held.
type hold struct {
	key   rejoinKey
	until time.Time
	place *list.Element
}

// heldMembers are those whose stream has ended and who may come back. Guarded by presence.mu.
type heldMembers struct {
	byKey map[rejoinKey][]*member
	order *list.List // of *member, the first to go first: the grace is the same for all
}

// maxHeld bounds them; whoever leaves beyond is gone at once.
const maxHeld = 1 << 16

func newHeldMembers() heldMembers {
	return heldMembers{byKey: map[rejoinKey][]*member{}, order: list.New()}
}

func keyOf(p *transport.Presence, issuer string) rejoinKey {
	order := make([]int, len(p.Selectors))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := p.Selectors[i], p.Selectors[j]
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Pattern, b.Pattern))
	})
	var b []byte
	part := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	payloads, which := p.DistinctPayloads()
	numbers, last := make([]uint64, len(payloads)), uint64(0) // given at their first use; 0 is no payload
	part(issuer)
	part(p.Subject)
	for _, i := range order {
		b = append(b, byte(p.Selectors[i].Kind))
		part(p.Selectors[i].Pattern)
		switch w := which[i]; {
		case w < 0:
			b = binary.AppendUvarint(b, 0)
		case numbers[w] > 0:
			b = binary.AppendUvarint(b, numbers[w])
		default:
			last++
			numbers[w] = last
			b = binary.AppendUvarint(b, last)
			part(string(payloads[w]))
		}
	}
	return sha256.Sum256(b)
}

// add holds m until then.
func (h *heldMembers) add(m *member, until time.Time) {
	m.hold = &hold{key: keyOf(&m.presence, m.issuer), until: until, place: h.order.PushBack(m)}
	h.byKey[m.hold.key] = append(h.byKey[m.hold.key], m)
}

// drop holds m no longer.
func (h *heldMembers) drop(m *member) {
	h.order.Remove(m.hold.place)
	if rest := without(h.byKey[m.hold.key], m); len(rest) > 0 {
		h.byKey[m.hold.key] = rest
	} else {
		delete(h.byKey, m.hold.key)
	}
	m.hold = nil
}

// holds reports whether a stream that ended for this reason may be expected back here.
func (r endReason) holds() bool { return r != endDrain && r != endDisconnected }

// keep holds m if it may come back. The lock is held.
func (p *presence) keep(m *member, why endReason) bool {
	grace := p.hub.o.RejoinGrace
	if grace <= 0 || m.presence.Subject == "" || !why.holds() || p.leaving() || p.held.order.Len() >= maxHeld {
		return false
	}
	p.held.add(m, time.Now().Add(grace))
	p.poke() // the dispatcher has a time to look at
	return true
}

// rejoin finds a held member that one continues. The lock is held.
func (p *presence) rejoin(one *transport.Presence, issuer string) *member {
	if p.hub.o.RejoinGrace <= 0 || one.Subject == "" || p.held.order.Len() == 0 {
		return nil
	}
	same := p.held.byKey[keyOf(one, issuer)]
	if len(same) == 0 {
		return nil
	}
	m := same[len(same)-1]
	p.held.drop(m)
	p.hub.metrics.Rejoins.Inc()
	return m
}

// expire lets go of whoever was held long enough, and returns when to look again. The lock is held.
func (p *presence) expire(now time.Time) time.Duration {
	for e := p.held.order.Front(); e != nil; e = p.held.order.Front() {
		m := e.Value.(*member)
		if wait := m.hold.until.Sub(now); wait > 0 {
			return wait
		}
		p.held.drop(m)
		p.part(m)
	}
	return time.Hour
}

// release lets go at once of the held members that which picks. The lock is held.
func (p *presence) release(which func(*member) bool) {
	var next *list.Element
	for e := p.held.order.Front(); e != nil; e = next {
		next = e.Next()
		if m := e.Value.(*member); which(m) {
			p.held.drop(m)
			p.part(m)
		}
	}
}
