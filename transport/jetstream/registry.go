package jetstream

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// fewOfAll is which part of all filters an origin must have to be worth the search for it.
const fewOfAll = 64

// registry knows which selectors are followed and what is subscribed to for them. Its methods are called with
// interestFollower.mu held.
type registry struct {
	watched map[topic.Selector]*watch
	filters map[string]*filter             // by name, those that are being left included
	subs    map[*nats.Subscription]*filter // those subscribed
	wide    map[string]bool                // filters that stand for the narrow ones they cover
	leaving map[*filter]struct{}           // without users

	next  *round    // collects filters for the next fence; nil while none waits
	fresh []*filter // wait for the follower to be sure of the log again
}

// watch is a selector in use.
type watch struct {
	count   int
	filters []string // as narrow as they may be
}

// filter is a live subject in use.
type filter struct {
	name      string
	users     int
	leaveAt   time.Time // when users is 0
	insteadBy *filter   // the wide filter that took its users; it must stand before this one is left

	sub    *nats.Subscription
	fenced bool               // all that is stored after fence comes through it
	fence  transport.Position // counts what was proposed, and may not be stored

	round     *round             // confirms it; read while it is not confirmed
	confirmed bool               // it is known from where on it can be relied on
	since     transport.Position // that is: what comes later comes through it, and this is stored
}

// fence notes the answer to a fence that was sent after the filters' subscriptions.
func fence(filters []*filter, answer transport.Position) {
	for _, flt := range filters {
		flt.fenced, flt.fence = true, answer
	}
}

// confirm notes from where on fenced filters can be relied on.
func confirm(filters []*filter, since transport.Position) {
	for _, flt := range filters {
		flt.confirmed, flt.since, flt.round = true, since, nil
	}
}

func newRegistry() registry {
	return registry{
		watched: map[topic.Selector]*watch{}, filters: map[string]*filter{}, subs: map[*nats.Subscription]*filter{},
		wide: map[string]bool{}, leaving: map[*filter]struct{}{},
	}
}

// standsFor returns the name of the filter that is used for a narrow one.
func (r *registry) standsFor(name string) string {
	if r.wide[everything] {
		return everything
	}
	if w, ok := wider(name); ok && r.wide[w] {
		return w
	}
	return name
}

// filter returns what is used for a narrow filter that has users.
func (r *registry) filter(name string) *filter { return r.filters[r.standsFor(name)] }

// covers reports whether an update of that subject, without its prefix, comes through one of the filters.
func (r *registry) covers(subject string) bool {
	if r.filters[subject] != nil || r.filters[everything] != nil {
		return true
	}
	for i := range len(subject) {
		if subject[i] == '.' && r.filters[subject[:i+1]+everything] != nil {
			return true
		}
	}
	return false
}

// use counts a user of a narrow filter.
func (r *registry) use(name string) { r.obtain(r.standsFor(name)).users++ }

// obtain returns the filter of that name, one that has yet to be subscribed if it is new.
func (r *registry) obtain(name string) *filter {
	flt := r.filters[name]
	if flt == nil {
		flt = &filter{name: name}
		r.filters[name] = flt
		r.fresh = append(r.fresh, flt)
	}
	flt.insteadBy = nil
	delete(r.leaving, flt)
	return flt
}

// disuse counts one user less.
func (r *registry) disuse(name string, leaveAt time.Time) {
	flt := r.filter(name)
	if flt.users--; flt.users == 0 {
		flt.leaveAt = leaveAt
		r.leaving[flt] = struct{}{}
	}
}

// collect puts the fresh filters into a round.
func (r *registry) collect() {
	if len(r.fresh) == 0 {
		return
	}
	if r.next == nil {
		r.next = newRound()
	}
	for _, flt := range r.fresh {
		flt.round = r.next
	}
	r.next.filters = append(r.next.filters, r.fresh...)
	r.fresh = nil
}

// due returns the subscriptions of the filters whose time to be left has come, and forgets them. Only while the whole
// log is read may a filter be left that is not confirmed, or that no other stands for yet.
func (r *registry) due(now time.Time, reading bool) (subs []*nats.Subscription) {
	for flt := range r.leaving {
		stands := flt.confirmed && (flt.insteadBy == nil || flt.insteadBy.confirmed)
		if now.Before(flt.leaveAt) || (!stands && !reading) {
			continue
		}
		delete(r.leaving, flt)
		delete(r.filters, flt.name)
		delete(r.subs, flt.sub)
		delete(r.wide, flt.name)
		subs = append(subs, flt.sub)
	}
	return subs
}

// widen keeps the number of filters in use within limit: first those of the origins that have most, then, when
// none has many, all make way for one that covers them.
func (r *registry) widen(limit int) {
	for len(r.filters)-len(r.leaving) > limit && !r.wide[everything] {
		count := map[string]int{}
		most, least := everything, max(2, limit/fewOfAll)
		for name, flt := range r.filters {
			if w, ok := wider(name); ok && w != name && flt.users > 0 {
				if count[w]++; count[w] >= max(count[most], least) {
					most = w
				}
			}
		}
		r.replaceBy(most)
	}
}

// replaceBy lets one filter take the users of all that it covers.
func (r *registry) replaceBy(name string) {
	wide := r.obtain(name)
	r.wide[name] = true
	for _, flt := range r.filters {
		w, ok := wider(flt.name)
		if flt == wide || flt.users == 0 || (name != everything && (!ok || w != name)) {
			continue
		}
		wide.users += flt.users
		flt.users, flt.insteadBy = 0, wide
		flt.leaveAt = time.Now().Add(minLeave)
		r.leaving[flt] = struct{}{}
	}
}
