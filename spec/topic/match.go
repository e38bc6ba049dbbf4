package topic

import "strings"

// A template selects a topic when some assignment of its variables expands to it. Instead of a regular
// expression, whose size would grow with prefix lengths and with the square of an expression's
// variables, the topic is read as an automaton would: step by step, keeping the set of places that the
// expansion so far can have reached. That is what RE2 does, so the work is bounded by the number of
// steps times the length of the topic, and prefix lengths are counted exactly. Only a variable that occurs
// twice, which must then have one value, needs a search (tied.go).

// templateMatcher matches the expansions of a template.
type templateMatcher struct {
	pattern string
	prefix  string // ASCII literal before the first step
	suffix  string // ASCII literal after the last step
	steps   []step
	slots   int  // variables that occur more than once
	simple  bool // a single step that is one run of characters
}

// step is a literal or one variable of an expression.
type step struct {
	literal string // not empty: a literal, everything else is unused

	begins     bool // the first variable of its expression
	first, sep string
	name       string // not empty: ";name", "?name=" and so on
	bareEmpty  bool
	explode    bool
	reserved   bool
	prefix     int   // largest number of characters, 0 = no limit
	class      class // of the characters of a value that is one run
	slot       int   // which tied variable, -1 = none
}

func newTemplateMatcher(pattern string, t template) *templateMatcher {
	m := &templateMatcher{pattern: pattern}
	parts := t.parts
	if first := parts[0].literal; first != "" {
		n := asciiLen(first)
		m.prefix = first[:n]
		if n == len(first) {
			parts = parts[1:]
		} else {
			parts = append([]part{{literal: first[n:]}}, parts[1:]...)
		}
	}
	if n := len(parts) - 1; n >= 0 && parts[n].literal != "" && isASCII(parts[n].literal) {
		m.suffix, parts = parts[n].literal, parts[:n]
	}
	for _, p := range parts {
		if p.literal != "" {
			m.steps = append(m.steps, step{literal: p.literal, slot: -1})
		}
		for i, v := range p.vars {
			m.steps = append(m.steps, newStep(p.op, v, i == 0))
		}
	}
	m.slots = tie(m.steps, parts)
	if len(m.steps) == 1 {
		s := &m.steps[0]
		m.simple = s.literal == "" && s.name == "" && !s.explode && s.prefix == 0
	}
	return m
}

func newStep(op operator, v variable, begins bool) step {
	s := step{
		begins: begins, first: op.first, sep: op.sep, bareEmpty: op.bareEmpty,
		explode: v.explode, reserved: op.reserved, prefix: v.prefix, class: classUnreserved, slot: -1,
	}
	if op.named {
		s.name = v.name
	}
	switch {
	case op.reserved:
		s.class |= classReserved
	case v.prefix > 0: // a string, never a list
	case !v.explode || op.sep == ",":
		s.class |= classComma
	case op.sep == "/":
		s.class |= classSlash
	}
	return s
}

// tie gives every variable that occurs again with the same modifier a slot, and returns their number.
func tie(steps []step, parts []part) int {
	type key struct {
		name    string
		prefix  int
		explode bool
	}
	var keys []key // of the steps, in order
	count := map[key]int{}
	for _, p := range parts {
		if p.literal != "" {
			keys = append(keys, key{})
		}
		for _, v := range p.vars {
			k := key(v)
			keys = append(keys, k)
			count[k]++
		}
	}
	slots := map[key]int{}
	for i, k := range keys {
		if count[k] < 2 {
			continue
		}
		if _, ok := slots[k]; !ok {
			slots[k] = len(slots)
		}
		steps[i].slot = slots[k]
	}
	return len(slots)
}

// Prefix returns the literal with which the template starts, as far as it is ASCII.
func (m *templateMatcher) Prefix() (string, bool) { return m.prefix, false }

// Match reports whether the template equals topic or can expand to it.
func (m *templateMatcher) Match(topic string) bool {
	if topic == m.pattern {
		return true
	}
	if len(topic) < len(m.prefix)+len(m.suffix) || !strings.HasPrefix(topic, m.prefix) || !strings.HasSuffix(topic, m.suffix) {
		return false
	}
	rest := topic[len(m.prefix) : len(topic)-len(m.suffix)]
	if m.simple {
		return m.steps[0].matchesRun(rest)
	}
	s := search{topic: rest, steps: m.steps}
	if !s.linear() {
		return false
	}
	return m.slots == 0 || s.tied(m.slots)
}

// matchesRun is the common case of a single unnamed variable.
func (st *step) matchesRun(s string) bool {
	if s == "" {
		return true // undefined
	}
	if !strings.HasPrefix(s, st.first) {
		return false
	}
	for p := len(st.first); p < len(s); {
		n := st.class.unit(s, p)
		if n == 0 {
			return false
		}
		p += n
	}
	return true
}

// search is one evaluation.
type search struct {
	topic string
	steps []step
	work  int // places looked at, so that a search can be given up

	values []value // of the tied variables
}

// linear matches as if no variable were tied: e0 holds the places reached so far with nothing written
// by the current expression, e1 those with something.
func (s *search) linear() bool {
	const short = 8 // words; 511 bytes
	var array [4 * short]uint64
	buf, n := array[:], positionsFor(len(s.topic))
	if n > short {
		buf = make([]uint64, 4*n)
	}
	e0, e1 := positions(buf[:n]), positions(buf[n:2*n])
	from, to := positions(buf[2*n:3*n]), positions(buf[3*n:4*n])
	e0.add(0)
	for i := range s.steps {
		s.advance(&s.steps[i], e0, e1, from, to)
		if e0.empty() && e1.empty() {
			return false
		}
	}
	return e0.has(len(s.topic)) || e1.has(len(s.topic))
}

// advance takes one step from e0 and e1, in place; from and to are scratch.
func (s *search) advance(st *step, e0, e1, from, to positions) {
	if st.literal != "" {
		e0.union(e1)
		e1.clear()
		s.literal(st.literal, e0)
		return
	}
	if st.begins {
		e0.union(e1)
		e1.clear()
	}
	s.starts(st, e0, e1, from)
	to.clear()
	s.span(st, from, to)
	e1.union(to)
}

// literal replaces the places in e by those after text.
func (s *search) literal(text string, e positions) {
	// From the back, so that a place moved forward is not met again.
	for w := len(e) - 1; w >= 0; w-- {
		if e[w] == 0 {
			continue
		}
		for p := min(w<<6+63, len(s.topic)); p >= w<<6; p-- {
			if !e.has(p) {
				continue
			}
			e[w] &^= 1 << (p & 63)
			if end := matchLiteral(s.topic, p, text); end >= 0 {
				e.add(end)
			}
		}
	}
	s.work += len(e)
}

// matchLiteral returns where text ends in s if it is written at p, or -1. Characters beyond ASCII may be
// written raw or percent-encoded (TM-113, TM-114).
func matchLiteral(s string, p int, text string) int {
	for i := range len(text) {
		switch c := text[i]; {
		case p < len(s) && s[p] == c:
			p++
		case c >= 0x80 && triplet(s[p:]) && unhex(s[p+1])<<4|unhex(s[p+2]) == c:
			p += 3
		default:
			return -1
		}
	}
	return p
}

// starts sets from to the places where the variable of st can begin, after its separator.
func (s *search) starts(st *step, e0, e1, from positions) {
	from.clear()
	s.after(st.first, e0, from)
	s.after(st.sep, e1, from)
}

// after adds to `to` the places after c, a single byte or nothing, at the places of e.
func (s *search) after(c string, e, to positions) {
	if c == "" {
		to.union(e)
		return
	}
	for p := e.next(0); p >= 0 && p < len(s.topic); p = e.next(p + 1) {
		if s.topic[p] == c[0] {
			to.add(p + 1)
		}
	}
}
