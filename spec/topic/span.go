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
			s.run(st, false, from, to)
		}
		s.pairs(st, from, to)
	case st.name == "":
		s.value(st, false, from, to)
	default:
		s.literal(st.name, len(st.name), from)
		if !st.bareEmpty {
			s.literal("=", 1, from)
			s.value(st, false, from, to)
			return
		}
		to.union(from) // bare
		s.literal("=", 1, from)
		s.value(st, true, from, to)
	}
}

func (s *search) value(st *step, notEmpty bool, from, to positions) {
	// A character has at least one byte, so a larger prefix is none.
	if st.prefix > 0 && st.prefix < len(s.topic) {
		s.limited(st, notEmpty, from, to)
	} else {
		s.run(st, notEmpty, from, to)
	}
}

// run reads characters of st's class; from is changed when at least one is asked for.
func (s *search) run(st *step, notEmpty bool, from, to positions) {
	mask := s.mask(st.classMask)
	if notEmpty {
		// The first byte; the rest of a triplet is part of the run.
		carry := uint64(0)
		for i, w := range from {
			w &= mask[i]
			from[i] = w<<1 | carry
			carry = w >> 63
		}
	}
	to.addRuns(from, mask, s.bounds())
	s.work += len(to)
}

// limited reads at most st.prefix characters. To reach a place it is enough to know the fewest
// characters with which it can be reached.
func (s *search) limited(st *step, notEmpty bool, from, to positions) {
	start := from.next(0)
	if start < 0 {
		return
	}
	const unreached = 1 << 15
	var array [256]uint16
	fewest := array[:]
	if n := len(s.topic) + 1; n > len(fewest) {
		fewest = grown(&s.fewest, n)
	}
	for p := start; p < len(fewest); p++ {
		fewest[p] = unreached
	}
	for p := start; p <= len(s.topic); p++ {
		if from.has(p) {
			fewest[p] = 0
		}
		used := fewest[p]
		s.work++
		if used == unreached {
			continue
		}
		if used > 0 || !notEmpty {
			to.add(p)
		}
		if n := st.class.character(s.topic, p); n > 0 && int(used) < st.prefix {
			fewest[p+n] = min(fewest[p+n], used+1)
		}
	}
}

// grown returns n elements of *scratch, which it makes once for all spans of a topic; what is in them is left.
func grown[T any](scratch *[]T, n int) []T {
	if *scratch == nil {
		*scratch = make([]T, n)
	}
	return (*scratch)[:n]
}

// Where a place is in an exploded associative array.
const (
	inStart  = 1 << iota // before a key
	inKey                // after a character of a key
	inEquals             // after an equals sign that needs a value
	inValue              // after an equals sign or a character of a value
)

// pairs reads what an exploded associative array expands to, key=value joined by the separator, and
// with it, for a named operator, exploded lists. Keys are not empty and are taken to be encoded like
// values, as implementations do; the letter of RFC 6570 §3.2.1 would leave reserved characters in those of
// ; ? and & as they are. Selectors are grants too, so the narrower reading is the safer one.
func (s *search) pairs(st *step, from, to positions) {
	start := from.next(0)
	if start < 0 {
		return
	}
	var array [512]uint8
	state := array[:]
	if n := len(s.topic) + 4; n > len(state) {
		state = grown(&s.state, n)
		clear(state[start:])
	}
	ends, afterEquals := uint8(inValue), uint8(inValue)
	if st.bareEmpty {
		ends, afterEquals = inValue|inKey, inEquals
	}
	for p := start; p <= len(s.topic); p++ {
		now := state[p]
		if from.has(p) {
			now |= inStart
		}
		s.work++
		if now == 0 {
			continue
		}
		if now&ends != 0 {
			to.add(p)
		}
		if n := classUnreserved.unit(s.topic, p); n > 0 {
			if now&(inStart|inKey) != 0 {
				state[p+n] |= inKey
			}
			if now&(inEquals|inValue) != 0 {
				state[p+n] |= inValue
			}
		}
		if p == len(s.topic) {
			break
		}
		switch c := s.topic[p]; {
		case c == '=' && now&inKey != 0:
			state[p+1] |= afterEquals
		case c == st.sep[0] && now&ends != 0:
			state[p+1] |= inStart
		}
	}
}
