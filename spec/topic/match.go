package topic

import (
	"math/bits"
	"slices"
	"strings"
)

// A template selects a topic when some assignment of its variables expands to it. Instead of a regular
// expression, whose size would grow with prefix lengths and with the square of an expression's
// variables, the topic is read as an automaton would: step by step, keeping the set of places that the
// expansion so far can have reached. That is what RE2 does, so the work is bounded by the number of
// steps times the length of the topic, and prefix lengths are counted exactly. Only a variable that occurs
// twice, which must then have one value, needs a search (tied.go).
//
// More lenient than the letter of RFC 6570: the digits of a triplet may be in either case, and a triplet
// may stand for any byte, also for one that an expansion would not have encoded.

// templateMatcher matches the expansions of a template.
type templateMatcher struct {
	pattern string
	prefix  string // ASCII literal before the first step
	suffix  string // ASCII literal after the last step
	steps   []step
	classes []class // of the runs
	seps    []byte  // single bytes before values
	slots   int     // variables that occur more than once
	simple  bool    // a single step that is one run of characters
}

// step is a literal or one variable of an expression.
type step struct {
	literal string // not empty: a literal, everything else but ascii is unused
	ascii   int    // length of the ASCII text at its start

	begins     bool // the first variable of its expression
	first, sep string
	firstMask  int    // which mask holds the places of first, -1 = nothing is written
	sepMask    int    // likewise of sep
	classMask  int    // likewise of class
	name       string // not empty: ";name", "?name=" and so on
	nameEquals string // the name and an equals sign
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
			m.steps = append(m.steps, step{literal: p.literal, ascii: asciiLen(p.literal), slot: -1})
		}
		for i, v := range p.vars {
			m.steps = append(m.steps, newStep(p.op, v, i == 0))
		}
	}
	m.slots = tie(m.steps, parts)
	m.chooseMasks()
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
		s.name, s.nameEquals = v.name, v.name+"="
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

// chooseMasks lists what an evaluation has to know about each byte of a topic: is it of this class, is
// it this separator.
func (m *templateMatcher) chooseMasks() {
	for i := range m.steps {
		if st := &m.steps[i]; st.literal == "" {
			if st.classMask = slices.Index(m.classes, st.class); st.classMask < 0 {
				st.classMask = len(m.classes)
				m.classes = append(m.classes, st.class)
			}
		}
	}
	sepMask := func(c string) int {
		if c == "" {
			return -1
		}
		i := slices.Index(m.seps, c[0])
		if i < 0 {
			i = len(m.seps)
			m.seps = append(m.seps, c[0])
		}
		return len(m.classes) + i
	}
	for i := range m.steps {
		st := &m.steps[i]
		st.firstMask, st.sepMask = sepMask(st.first), sepMask(st.sep)
	}
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
	if m.slots > 0 {
		s := m.newSearch(rest, nil)
		return s.linear() && s.tied(m.slots)
	}
	var array [72]uint64 // enough for most topics
	s := m.newSearch(rest, array[:])
	return s.linear()
}

// newSearch prepares the evaluation of topic without the matcher's prefix and suffix. buf is zero and
// used if it is large enough.
func (m *templateMatcher) newSearch(topic string, buf []uint64) search {
	s := search{topic: topic, steps: m.steps, words: wordsFor(len(topic))}
	if need := (fixedSets + len(m.classes) + len(m.seps)) * s.words; need > len(buf) {
		buf = make([]uint64, need)
	}
	s.sets, s.masks = buf[:fixedSets*s.words], buf[fixedSets*s.words:]
	m.fillMasks(&s)
	return s
}

// fillMasks reads the topic once per mask.
func (m *templateMatcher) fillMasks(s *search) {
	bounds := s.bounds()
	for i := range bounds {
		bounds[i] = ^uint64(0)
	}
	triplets := s.set(4)
	for p := strings.IndexByte(s.topic, '%'); p >= 0 && p < len(s.topic); p++ {
		if s.topic[p] == '%' && triplet(s.topic[p:]) {
			for i := range 3 {
				triplets.add(p + i)
			}
			bounds[(p+1)>>6] &^= 1 << ((p + 1) & 63)
			bounds[(p+2)>>6] &^= 1 << ((p + 2) & 63)
			p += 2
		}
	}
	for i, c := range m.classes {
		mask := s.mask(i)
		for p := range len(s.topic) {
			if classes[s.topic[p]]&c != 0 {
				mask[p>>6] |= 1 << (p & 63)
			}
		}
		mask.union(triplets)
	}
	for i, c := range m.seps {
		mask := s.mask(len(m.classes) + i)
		for p := strings.IndexByte(s.topic, c); p >= 0 && p < len(s.topic); p++ {
			if s.topic[p] == c {
				mask.add(p)
			}
		}
	}
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

// fixedSets is the number of sets that every evaluation has: four that change, the triplets, and the
// places that are not inside a triplet.
const fixedSets = 6

// search is one evaluation. Every place that is reached is outside triplets: neither a literal nor a
// value ends in one.
type search struct {
	topic string
	steps []step
	words int      // per set
	sets  []uint64 // fixedSets of them
	masks []uint64
	work  int // words and bytes looked at, so that a search can be given up
	tries int // literals compared whose first byte is there

	fewest []uint16 // scratch of limited
	state  []uint8  // scratch of pairs

	values          []value  // of the tied variables
	levels          []uint64 // the sets of every level
	raw, text, want []byte   // scratch of normalize and repeat
}

func (s *search) set(i int) positions  { return s.sets[i*s.words : (i+1)*s.words] }
func (s *search) mask(i int) positions { return s.masks[i*s.words : (i+1)*s.words] }
func (s *search) bounds() positions    { return s.set(5) }

// linear matches as if no variable were tied: e0 holds the places reached so far with nothing written
// by the current expression, e1 those with something.
func (s *search) linear() bool {
	e0, e1, from, to := s.set(0), s.set(1), s.set(2), s.set(3)
	e0.add(0)
	for i := range s.steps {
		s.advance(&s.steps[i], e0, e1, from, to)
		if e0.empty() && e1.empty() || s.tries > maxTries {
			return false
		}
	}
	return e0.has(len(s.topic)) || e1.has(len(s.topic))
}

// advance takes one step from e0 and e1, in place; from and to are scratch.
func (s *search) advance(st *step, e0, e1, from, to positions) {
	if st.literal != "" {
		e0.union(e1)
		clear(e1)
		s.literal(st.literal, st.ascii, e0)
		return
	}
	if st.begins {
		e0.union(e1)
		clear(e1)
	}
	s.starts(st, e0, e1, from)
	clear(to)
	s.span(st, from, to)
	e1.union(to)
}

// literal replaces the places in e by those after text, whose first bytes, that many, are ASCII.
func (s *search) literal(text string, ascii int, e positions) {
	// From the back, so that a place moved forward is not met again.
	for i := len(e) - 1; i >= 0; i-- {
		for w := e[i]; w != 0; {
			bit := 63 - bits.LeadingZeros64(w)
			w &^= 1 << bit
			e[i] &^= 1 << bit
			if end := s.literalEnd(i<<6+bit, text, ascii); end >= 0 {
				e.add(end)
			}
		}
	}
	s.work += len(e)
}

// literalEnd returns where text ends if it is written at p, or -1. Characters beyond ASCII may be written raw
// or percent-encoded (TM-113, TM-114). What comes before them is compared as a whole: a long literal is tried
// at every place of a run. A topic has few places at which both that and the rest begin alike.
func (s *search) literalEnd(p int, text string, ascii int) int {
	s.work += comparing(ascii)
	if ascii > 0 && (p == len(s.topic) || s.topic[p] != text[0]) {
		return -1
	}
	s.tries++
	if !strings.HasPrefix(s.topic[p:], text[:ascii]) {
		return -1
	}
	p += ascii
	for i := ascii; i < len(text); i++ {
		s.work++
		switch c := text[i]; {
		case p < len(s.topic) && s.topic[p] == c:
			p++
		case c >= 0x80 && triplet(s.topic[p:]) && unhex(s.topic[p+1])<<4|unhex(s.topic[p+2]) == c:
			p += 3
		default:
			return -1
		}
	}
	return p
}

// maxTries bounds linear: many variables, each with a literal that begins like most of a long topic, take it hundreds of
// microseconds. Beyond it there is no match (SEC-07). It leaves room for 31 such literals in a topic of 264 bytes, or for
// four in the longest one.
const maxTries = 1 << 13

// comparing returns the work of comparing n bytes at once.
func comparing(n int) int { return 1 + n/32 }

// starts sets from to the places where the variable of st can begin, after its separator.
func (s *search) starts(st *step, e0, e1, from positions) {
	clear(from)
	s.after(st.firstMask, e0, from)
	s.after(st.sepMask, e1, from)
	s.work += len(from)
}

// after adds to `to` the places after the separator of that mask at the places of e.
func (s *search) after(mask int, e, to positions) {
	if mask < 0 {
		to.union(e)
	} else {
		to.addAfter(e, s.mask(mask))
	}
}
