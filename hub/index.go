package hub

import (
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// index finds the subscribers whose selectors match a topic. Its cost depends on the selectors that can
// match, not on the number of subscribers: equal selectors are one entry however many share it, exact
// ones are looked up by hash, templates and URL patterns are found by the literal text they begin with, and each
// distinct one is evaluated once per topic (LIM-14, MAT-21). Guarded by the fan-out lock.
type index struct {
	every    []*watchers                  // `*`, one for each kind of selector
	exact    map[string][]*watchers       // by topic; several kinds of selector may name one topic
	byPrefix prefixTree                   // those that match topics as they stand
	byURL    prefixTree                   // those that match the resolved topic, by its key
	resolve  func(string) *topic.URL      // of one of byURL, which all have the hub's base; nil = there are none
	urls     int                          // how many are in byURL
	known    map[topic.Selector]*watchers // all of the above, to share and to remove
}

// watchers is one distinct selector and everyone who uses it.
type watchers struct {
	selector topic.Selector
	matcher  topic.Matcher
	url      topic.URLMatcher // the matcher, if it is one
	refs     []watchRef
}

// watchRef is one subscriber's use of a selector; slot is where that subscriber remembers it.
type watchRef struct {
	s    *subscriber
	slot int
}

// watchSlot is where in the index a subscriber stands, so that leaving needs no search.
type watchSlot struct {
	w   *watchers
	pos int
}

func newIndex() *index {
	return &index{exact: map[string][]*watchers{}, known: map[topic.Selector]*watchers{}}
}

// add enters s for each of its selectors.
func (x *index) add(s *subscriber) {
	s.slots = make([]watchSlot, len(s.selectors))
	for i, sel := range s.selectors {
		w := x.known[sel]
		if w == nil {
			w = &watchers{selector: sel, matcher: s.matchers[i]}
			w.url, _ = w.matcher.(topic.URLMatcher)
			x.known[sel] = w
			x.link(w)
		}
		s.slots[i] = watchSlot{w: w, pos: len(w.refs)}
		w.refs = append(w.refs, watchRef{s: s, slot: i})
	}
}

// remove undoes add.
func (x *index) remove(s *subscriber) {
	for _, slot := range s.slots {
		w := slot.w
		last := len(w.refs) - 1
		moved := w.refs[last]
		w.refs[slot.pos] = moved
		moved.s.slots[moved.slot].pos = slot.pos
		w.refs[last] = watchRef{}
		w.refs = w.refs[:last]
		if last == 0 {
			delete(x.known, w.selector)
			x.unlink(w)
		} else if cap(w.refs) > 64 && last < cap(w.refs)/4 {
			w.refs = append(make([]watchRef, 0, cap(w.refs)/2), w.refs...)
		}
	}
	s.slots = nil
}

func (x *index) link(w *watchers) {
	prefix, exact := w.matcher.Prefix()
	switch {
	case w.selector.Pattern == spec.Wildcard:
		x.every = append(x.every, w)
	case w.url != nil:
		x.byURL.insert(w.url.URLPrefix(), w)
		x.urls++
		x.resolve = w.url.Resolve
	case exact:
		x.exact[prefix] = append(x.exact[prefix], w)
	default:
		x.byPrefix.insert(prefix, w)
	}
}

func (x *index) unlink(w *watchers) {
	prefix, exact := w.matcher.Prefix()
	switch {
	case w.selector.Pattern == spec.Wildcard:
		x.every = without(x.every, w)
	case w.url != nil:
		x.byURL.remove(w.url.URLPrefix(), w)
		if x.urls--; x.urls == 0 {
			x.resolve = nil
		}
	case exact:
		rest := without(x.exact[prefix], w)
		if len(rest) == 0 {
			delete(x.exact, prefix)
		} else {
			x.exact[prefix] = rest
		}
	default:
		x.byPrefix.remove(prefix, w)
	}
}

// match calls yield for every distinct selector that matches one of topics. A selector that matches
// several topics is handed out once for each; the caller drops repeated subscribers.
func (x *index) match(topics []string, yield func(*watchers)) {
	for _, w := range x.every {
		yield(w)
	}
	for _, t := range topics {
		for _, w := range x.exact[t] {
			yield(w)
		}
		x.byPrefix.walk(t, func(w *watchers) {
			if w.matcher.Match(t) {
				yield(w)
			}
		})
		x.matchURL(t, yield)
	}
}

// matchURL is match for the URL patterns, which share one parsing of the topic (MAT-08, MAT-20).
func (x *index) matchURL(t string, yield func(*watchers)) {
	if x.resolve == nil {
		return
	}
	u := x.resolve(t)
	if u == nil {
		return
	}
	x.byURL.walk(u.Key(), func(w *watchers) {
		if w.url.MatchURL(u) {
			yield(w)
		}
	})
}

// prefixTree is a compressed trie from literal prefixes to selectors. The zero value is empty.
type prefixTree struct{ root prefixNode }

type prefixNode struct {
	label    string // what this node adds to its parent's prefix
	here     []*watchers
	children []*prefixNode // at most one per first byte
}

func (n *prefixNode) child(b byte) *prefixNode {
	for _, c := range n.children {
		if c.label[0] == b {
			return c
		}
	}
	return nil
}

// walk calls yield for every selector stored under a prefix of t.
func (p *prefixTree) walk(t string, yield func(*watchers)) {
	for n := &p.root; n != nil; {
		if !strings.HasPrefix(t, n.label) {
			return
		}
		t = t[len(n.label):]
		for _, w := range n.here {
			yield(w)
		}
		if t == "" {
			return
		}
		n = n.child(t[0])
	}
}

func (p *prefixTree) insert(prefix string, w *watchers) {
	n := &p.root
	for {
		if prefix == "" {
			n.here = append(n.here, w)
			return
		}
		c := n.child(prefix[0])
		if c == nil {
			n.children = append(n.children, &prefixNode{label: prefix, here: []*watchers{w}})
			return
		}
		k := commonPrefix(c.label, prefix)
		if k < len(c.label) { // the child's label leaves the path half way: split it
			tail := &prefixNode{label: c.label[k:], here: c.here, children: c.children}
			*c = prefixNode{label: c.label[:k], children: []*prefixNode{tail}}
		}
		n, prefix = c, prefix[k:]
	}
}

func (p *prefixTree) remove(prefix string, w *watchers) {
	path := []*prefixNode{&p.root}
	for n := &p.root; prefix != ""; {
		c := n.child(prefix[0])
		if c == nil || !strings.HasPrefix(prefix, c.label) {
			return
		}
		prefix = prefix[len(c.label):]
		path = append(path, c)
		n = c
	}
	n := path[len(path)-1]
	n.here = without(n.here, w)
	for i := len(path) - 1; i > 0; i-- { // drop what became empty, join what became a mere link
		n, parent := path[i], path[i-1]
		switch {
		case len(n.here) > 0:
			return
		case len(n.children) == 0:
			parent.children = without(parent.children, n)
		case len(n.children) == 1:
			c := n.children[0]
			*n = prefixNode{label: n.label + c.label, here: c.here, children: c.children}
			return
		default:
			return
		}
	}
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// without returns list less the first v, order not kept.
func without[T comparable](list []T, v T) []T {
	for i := range list {
		if list[i] == v {
			last := len(list) - 1
			list[i] = list[last]
			var zero T
			list[last] = zero
			return list[:last]
		}
	}
	return list
}
