package topic

import (
	"bytes"
	"strings"
)

// maxWork bounds the search for the values of variables that occur twice: a few times what a topic and a
// template of usual size need, and some tens of microseconds. A search that is given up is no match (MAT-12).
const maxWork = 1 << 14

// solveWork is what one level of the search costs besides the words of its sets.
const solveWork = 16

// value is what has been assumed for a tied variable.
type value struct {
	state valueState
	step  *step  // that wrote text
	text  string // its name included
}

type valueState uint8

const (
	open valueState = iota
	undefined
	defined
)

// level is the sets of one level of the search: the places reached, as in linear, and scratch. A level is
// used again for each value that is tried, so that the search makes nothing.
type level struct{ e0, e1, from, to, one, ends positions }

const levelSets = 6

// level returns the sets of the nth level.
func (s *search) level(n int) level {
	sets := s.levels[n*levelSets*s.words:]
	set := func(i int) positions { return sets[i*s.words : (i+1)*s.words] }
	return level{set(0), set(1), set(2), set(3), set(4), set(5)}
}

// tied looks for an assignment that gives every tied variable one value.
func (s *search) tied(slots int) bool {
	s.values = make([]value, slots)
	s.levels = make([]uint64, (slots+1)*levelSets*s.words) // each level but the first gives one variable a value
	s.work = 0
	s.level(0).e0.add(0)
	return s.solve(0, 0)
}

// solve goes on from step i with the places in the nth level.
func (s *search) solve(i, n int) bool {
	l := s.level(n)
	s.work += solveWork + 4*s.words
	for ; i < len(s.steps); i++ {
		st := &s.steps[i]
		if s.work > maxWork || l.e0.empty() && l.e1.empty() {
			return false
		}
		if st.slot < 0 {
			s.advance(st, l.e0, l.e1, l.from, l.to)
			continue
		}
		if st.begins {
			l.e0.union(l.e1)
			clear(l.e1)
		}
		switch v := s.values[st.slot]; v.state {
		case open:
			return s.choose(i, n)
		case undefined:
		case defined:
			s.starts(st, l.e0, l.e1, l.from)
			clear(l.e0)
			clear(l.e1)
			s.repeat(st, v, l)
		}
	}
	return l.e0.has(len(s.topic)) || l.e1.has(len(s.topic))
}

// choose tries every value of the variable of step i, which is open.
func (s *search) choose(i, n int) bool {
	st := &s.steps[i]
	defer func() { s.values[st.slot] = value{} }()
	l, next := s.level(n), s.level(n+1)
	s.starts(st, l.e0, l.e1, l.from)
	s.values[st.slot] = value{state: undefined}
	copy(next.e0, l.e0)
	copy(next.e1, l.e1)
	if s.solve(i+1, n+1) {
		return true
	}
	for p := l.from.next(0); p >= 0; p = l.from.next(p + 1) {
		s.only(st, p, l)
		for end := l.ends.next(0); end >= 0; end = l.ends.next(end + 1) {
			if s.work > maxWork {
				return false
			}
			if !s.canFollow(i+1, end) {
				continue
			}
			s.values[st.slot] = value{state: defined, step: st, text: s.topic[p:end]}
			clear(next.e0)
			clear(next.e1)
			next.e1.add(end)
			if s.solve(i+1, n+1) {
				return true
			}
		}
	}
	return false
}

// only sets l.ends to the places where a value of st's variable can end that begins at p.
func (s *search) only(st *step, p int, l level) {
	s.work += 2 * s.words
	clear(l.one)
	l.one.add(p)
	clear(l.ends)
	s.span(st, l.one, l.ends)
}

// canFollow reports whether step i can begin at p, as far as that is seen at a glance: most values are ruled
// out by the literal after them.
func (s *search) canFollow(i, p int) bool {
	s.work++
	if i == len(s.steps) {
		return p == len(s.topic)
	}
	st := &s.steps[i]
	return st.literal == "" || s.literalEnd(p, st.literal, st.ascii) >= 0
}

// repeat adds to l.e1 the places after v, written as st writes it, at the places of l.from.
func (s *search) repeat(st *step, v value, l level) {
	head, text, same := st.rewrite(v)
	if same {
		for p := l.from.next(0); p >= 0 && s.work <= maxWork; p = l.from.next(p + 1) {
			s.work += comparing(len(head) + len(text))
			if strings.HasPrefix(s.topic[p:], head) && strings.HasPrefix(s.topic[p+len(head):], text) {
				l.e1.add(p + len(head) + len(text))
			}
		}
		return
	}
	asReserved := st.reserved || v.step.reserved
	s.work += solveWork + 2*len(v.text)
	s.want = s.normalize(s.want, v.step, v.text, asReserved)
	for p := l.from.next(0); p >= 0 && s.work <= maxWork; p = l.from.next(p + 1) {
		s.only(st, p, l)
		for end := l.ends.next(0); end >= 0 && s.work <= maxWork; end = l.ends.next(end + 1) {
			s.work += solveWork + 2*(end-p)
			s.text = s.normalize(s.text, st, s.topic[p:end], asReserved)
			if bytes.Equal(s.text, s.want) {
				l.e1.add(end)
			}
		}
	}
}

// rewrite returns how st writes v, in two parts, if that follows from how v was written.
func (st *step) rewrite(v value) (head, text string, ok bool) {
	w := v.step
	if st.reserved != w.reserved {
		return "", "", false
	}
	if st.explode {
		return "", v.text, st.sep == w.sep && st.name == w.name && st.bareEmpty == w.bareEmpty
	}
	bare := w.bare(v.text)
	switch {
	case st.name == "":
		return "", bare, true
	case bare == "" && st.bareEmpty:
		return st.name, "", true
	default:
		return st.nameEquals, bare, true
	}
}

// bare returns the value in text, as st wrote it, without the name.
func (st *step) bare(text string) string {
	if st.name == "" {
		return text
	}
	return strings.TrimPrefix(text[len(st.name):], "=")
}

// normalize writes over dst the value in text, as st wrote it, in a form in which it can be compared with
// what another operator wrote. asReserved asks for the form that a reserved expansion has. The separators of
// an exploded value are made equal, because a dot or a comma in it cannot always be told from one.
func (s *search) normalize(dst []byte, st *step, text string, asReserved bool) []byte {
	if st.explode {
		s.raw = st.appendItems(s.raw[:0], text)
	} else {
		s.raw = append(s.raw[:0], st.bare(text)...)
	}
	if asReserved && !st.reserved {
		dst = appendReserved(dst[:0], decode(s.raw))
	} else {
		dst = append(dst[:0], s.raw...)
	}
	upperTriplets(dst)
	return dst
}

// appendItems appends an exploded value without the variable's name, its items joined by commas.
func (st *step) appendItems(b []byte, text string) []byte {
	for more := true; more; {
		var item string
		item, text, more = strings.Cut(text, st.sep)
		key, val, found := strings.Cut(item, "=")
		switch {
		case st.name == "":
			b = append(b, item...)
		case key == st.name:
			b = append(b, val...)
		case !found:
			b = append(append(b, key...), '=')
		default:
			b = append(b, item...)
		}
		if more {
			b = append(b, ',')
		}
	}
	for i, c := range b {
		if c == '.' {
			b[i] = ','
		}
	}
	return b
}

// decode replaces triplets by their bytes, in place.
func decode(b []byte) []byte {
	n := 0
	for i := 0; i < len(b); i++ {
		if b[n] = b[i]; triplet(b[i:]) {
			b[n] = unhex(b[i+1])<<4 | unhex(b[i+2])
			i += 2
		}
		n++
	}
	return b[:n]
}

// upperTriplets writes the hexadecimal digits of triplets in capitals, in place.
func upperTriplets(b []byte) {
	for i := range b {
		if triplet(b[i:]) {
			b[i+1], b[i+2] = upperHex(b[i+1]), upperHex(b[i+2])
		}
	}
}

func upperHex(c byte) byte {
	if c >= 'a' {
		c -= 'a' - 'A'
	}
	return c
}

// appendReserved appends text encoded as a reserved expansion does: reserved characters and triplets stay.
func appendReserved(b, text []byte) []byte {
	const hex = "0123456789ABCDEF"
	for i, c := range text {
		if classes[c]&(classUnreserved|classReserved) != 0 || triplet(text[i:]) {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return b
}
