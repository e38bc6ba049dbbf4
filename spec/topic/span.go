package topic

import (
	"strings"
	"unicode/utf8"
)

// class is a set of characters, apart from percent-encoded triplets, which belong to every class.
type class uint8

const (
	classUnreserved class = 1 << iota
	classReserved
	classComma
	classSlash
)

// classes says for each byte which classes it belongs to. Read only. RFC 3986 §2.2, §2.3.
var classes = func() (t [256]class) {
	for c := range 128 {
		if isAlnum(byte(c)) || strings.IndexByte("-._~", byte(c)) >= 0 {
			t[c] = classUnreserved
		}
		if strings.IndexByte(":/?#[]@!$&'()*+,;=", byte(c)) >= 0 {
			t[c] = classReserved
		}
	}
	t[','] |= classComma
	t['/'] |= classSlash
	return t
}()

// unit returns the length of the character or triplet of the class at p in s, 0 if there is none.
func (c class) unit(s string, p int) int {
	switch {
	case p >= len(s):
		return 0
	case classes[s[p]]&c != 0:
		return 1
	case triplet(s[p:]):
		return 3
	default:
		return 0
	}
}

// character is like unit, but takes the triplets of one UTF-8 character together.
func (c class) character(s string, p int) int {
	n := c.unit(s, p)
	if n != 3 || s[p+1] < '8' {
		return n
	}
	var b [utf8.UTFMax]byte
	k := 0
	for ; k < len(b) && triplet(s[p+3*k:]); k++ {
		b[k] = unhex(s[p+3*k+1])<<4 | unhex(s[p+3*k+2])
	}
	_, size := utf8.DecodeRune(b[:k])
	return 3 * size
}

// span adds to `to` every place where a defined value of st's variable can end that begins at a place of
// from; from may be changed.
func (s *search) span(st *step, from, to positions) {
	switch {
	case st.explode && (st.name != "" || !st.reserved):
		if st.name == "" {
			s.run(st.class, false, from, to)
		}
		s.pairs(st, from, to)
	case st.name == "":
		s.value(st, false, from, to)
	default:
		s.literal(st.name, from)
		if !st.bareEmpty {
			s.follow('=', from)
			s.value(st, false, from, to)
			return
		}
		bare := append(make(positions, 0, 8), from...)
		s.follow('=', from)
		s.value(st, true, from, to)
		to.union(bare)
	}
}

// follow replaces the places in e by those after c.
func (s *search) follow(c byte, e positions) {
	var text [1]byte
	text[0] = c
	s.literal(string(text[:]), e)
}

func (s *search) value(st *step, notEmpty bool, from, to positions) {
	if st.prefix > 0 {
		s.limited(st, notEmpty, from, to)
	} else {
		s.run(st.class, notEmpty, from, to)
	}
}

// run reads characters of class c. `to` must be empty.
func (s *search) run(c class, notEmpty bool, from, to positions) {
	for start := from.next(0); start >= 0; start = from.next(start + 1) {
		if !notEmpty {
			to.add(start)
		}
		for p := start; ; {
			n := c.unit(s.topic, p)
			p += n
			if n == 0 || to.has(p) {
				break // what follows a place that was reached has been read already
			}
			to.add(p)
			s.work++
		}
	}
}

// limited reads at most st.prefix characters. To reach a place it is enough to know the fewest
// characters with which it can be reached.
func (s *search) limited(st *step, notEmpty bool, from, to positions) {
	const unreached = 1 << 15
	var array [128]uint16
	fewest := array[:]
	if n := len(s.topic) + 1; n > len(fewest) {
		fewest = make([]uint16, n)
	}
	for i := range fewest {
		fewest[i] = unreached
	}
	for p := from.next(0); p >= 0 && p <= len(s.topic); p++ {
		if from.has(p) {
			fewest[p] = 0
		}
		used := fewest[p]
		if used == unreached {
			continue
		}
		s.work++
		if used > 0 || !notEmpty {
			to.add(p)
		}
		if n := st.class.character(s.topic, p); n > 0 && int(used) < st.prefix {
			fewest[p+n] = min(fewest[p+n], used+1)
		}
	}
}

// pairs reads what an exploded associative array expands to, key=value joined by the separator, and
// with it, for a named operator, exploded lists. Keys are taken to be encoded like values; a named key is
// not empty.
func (s *search) pairs(st *step, from, to positions) {
	const short = 4
	var array [4 * short]uint64
	buf, n := array[:], positionsFor(len(s.topic))
	if n > short {
		buf = make([]uint64, 4*n)
	}
	start, key := positions(buf[:n]), positions(buf[n:2*n])
	equals, val := positions(buf[2*n:3*n]), positions(buf[3*n:4*n])
	reading := 0 // the last place that has been reached
	for p := from.next(0); p >= 0 && p < len(s.topic)+1; p++ {
		if from.has(p) {
			start.add(p)
			reading = max(reading, p)
		} else if p > reading {
			if p = from.next(p) - 1; p < 0 {
				break
			}
			continue
		}
		s.work++
		if start.has(p) && st.name == "" {
			key.add(p)
		}
		if val.has(p) || key.has(p) && st.bareEmpty {
			to.add(p)
		}
		if p == len(s.topic) {
			break
		}
		unit := classUnreserved.unit(s.topic, p)
		if unit > 0 {
			reached := false
			if start.has(p) || key.has(p) {
				key.add(p + unit)
				reached = true
			}
			if equals.has(p) || val.has(p) {
				val.add(p + unit)
				reached = true
			}
			if reached {
				reading = max(reading, p+unit)
			}
		}
		if s.topic[p] == '=' && key.has(p) {
			if st.bareEmpty {
				equals.add(p + 1)
			} else {
				val.add(p + 1)
			}
			reading = max(reading, p+1)
		}
		if s.topic[p] == st.sep[0] && (val.has(p) || key.has(p) && st.bareEmpty) {
			start.add(p + 1)
			reading = max(reading, p+1)
		}
	}
}
