package hub

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// payloads returns what a token attaches to the subscriptions of these selectors: one payload for all, or else one each.
func payloads(g *auth.Grant, selectors []topic.Selector) (one json.RawMessage, each []json.RawMessage) {
	if len(g.Payloads) == 0 {
		return compact(g.Payload), nil
	}
	each = make([]json.RawMessage, len(selectors))
	same := true
	known := map[*byte]json.RawMessage{} // many selectors share the payload of one detail
	for i, s := range selectors {
		if raw := g.PayloadFor(s); len(raw) > 0 {
			c, ok := known[&raw[0]]
			if !ok {
				c = compact(raw)
				known[&raw[0]] = c
			}
			each[i] = c
		}
		same = same && bytes.Equal(each[i], each[0])
	}
	if same {
		return each[0], nil
	}
	return nil, each
}

// compact takes the white space out of a payload, whose lines would each become a field of the event.
func compact(payload json.RawMessage) json.RawMessage {
	if len(payload) == 0 {
		return nil
	}
	var b bytes.Buffer
	if json.Compact(&b, payload) != nil { // it comes from a token that was parsed
		return nil
	}
	return b.Bytes()
}

// counterpart is a subscription in the form of the generation that it is not of.
type counterpart struct {
	of       int // place among the selectors
	selector topic.Selector
}

// counterparts returns the subscriptions of one that are told of in both forms: those for which the other generation has a
// selector, unless the connection has a subscription of that one, too, which is told of itself (G-15).
func (p *presence) counterparts(one *transport.Presence) []counterpart {
	if !p.hub.o.BothEvents || p.hub.o.NoClassic {
		return nil
	}
	var others []counterpart
	for i, s := range one.Selectors {
		other, ok := topic.Counterpart(s)
		if !ok || slices.Contains(one.Selectors, other) {
			continue
		}
		if !slices.ContainsFunc(others, func(c counterpart) bool { return c.selector == other }) { // the wildcard of two kinds
			others = append(others, counterpart{i, other})
		}
	}
	return others
}

// event is the i-th event of a presence: first each subscription in the form of its own generation, then in the
// other one. It is nil for a subscription of a kind that is not known here.
func (p *presence) event(one *transport.Presence, others []counterpart, i int, active bool) *spec.Update {
	of := i
	s := spec.Subscription{Subscriber: one.Subscriber, Active: active}
	if n := len(one.Selectors); i < n {
		s.Selector = one.Selectors[i]
	} else {
		of, s.Selector = others[i-n].of, others[i-n].selector
	}
	s.Payload = one.PayloadOf(of)
	generation := spec.GenerationOf(s.Selector.Kind)
	if generation == nil {
		return nil
	}
	return generation.Describe.Event(p.hub.o.Path, s)
}

// gone makes the inactive events of a presence that a dead node has left behind, which may be of another version.
func (p *presence) gone(one transport.Presence) []*spec.Update {
	others := p.counterparts(&one)
	events := make([]*spec.Update, 0, len(one.Selectors)+len(others))
	for i := range cap(events) {
		if u := p.event(&one, others, i, false); u != nil {
			events = append(events, u)
		}
	}
	return events
}
