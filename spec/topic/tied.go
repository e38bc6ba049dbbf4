package topic

import "strings"

// maxWork bounds the search for the values of variables that occur twice. It is about what the widest
// template costs without such variables. A search that is given up is no match (MAT-12).
const maxWork = 1 << 16

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

// tied looks for an assignment that gives every tied variable one value.
func (s *search) tied(slots int) bool {
	s.values = make([]value, slots)
	s.work = 0
	e0, e1 := make(positions, s.words), make(positions, s.words)
	e0.add(0)
	return s.solve(0, e0, e1)
}

// solve goes on from step i; it owns e0 and e1.
func (s *search) solve(i int, e0, e1 positions) bool {
	from, to := make(positions, len(e0)), make(positions, len(e0))
	s.work += 4 * len(e0)
	for ; i < len(s.steps); i++ {
		st := &s.steps[i]
		if s.work > maxWork || e0.empty() && e1.empty() {
			return false
		}
		if st.slot < 0 {
			s.advance(st, e0, e1, from, to)
			continue
		}
		if st.begins {
			e0.union(e1)
			clear(e1)
		}
		switch v := s.values[st.slot]; v.state {
		case open:
			return s.choose(i, e0, e1)
		case undefined:
		case defined:
			s.starts(st, e0, e1, from)
			clear(e0)
			clear(e1)
			s.repeat(st, v, from, e1)
		}
	}
	return e0.has(len(s.topic)) || e1.has(len(s.topic))
}

// choose tries every value of the variable of step i, which is open.
func (s *search) choose(i int, e0, e1 positions) bool {
	st := &s.steps[i]
	defer func() { s.values[st.slot] = value{} }()
	from := make(positions, len(e0))
	s.starts(st, e0, e1, from)
	s.values[st.slot] = value{state: undefined}
	if s.solve(i+1, e0, e1) {
		return true
	}
	one, ends := make(positions, len(e0)), make(positions, len(e0))
	for p := from.next(0); p >= 0; p = from.next(p + 1) {
		clear(one)
		one.add(p)
		clear(ends)
		s.span(st, one, ends)
		for end := ends.next(0); end >= 0; end = ends.next(end + 1) {
			s.values[st.slot] = value{state: defined, step: st, text: s.topic[p:end]}
			after := make(positions, len(e0))
			after.add(end)
			if s.solve(i+1, make(positions, len(e0)), after) {
				return true
			}
			if s.work > maxWork {
				return false
			}
		}
	}
	return false
}

// repeat adds to `to` the places after v, written as st writes it, at the places of from.
func (s *search) repeat(st *step, v value, from, to positions) {
	text, same := st.rewrite(v)
	if same {
		for p := from.next(0); p >= 0; p = from.next(p + 1) {
			s.work += 1 + len(text)/8
			if strings.HasPrefix(s.topic[p:], text) {
				to.add(p + len(text))
			}
		}
		return
	}
	one, ends := make(positions, len(from)), make(positions, len(from))
	asReserved := st.reserved || v.step.reserved
	want := v.step.plain(v.text, asReserved)
	for p := from.next(0); p >= 0; p = from.next(p + 1) {
		clear(one)
		one.add(p)
		clear(ends)
		s.span(st, one, ends)
		for end := ends.next(0); end >= 0 && s.work <= maxWork; end = ends.next(end + 1) {
			s.work += 1 + (end-p)/4
			if st.plain(s.topic[p:end], asReserved) == want {
				to.add(end)
			}
		}
	}
}

// rewrite returns how st writes v, if that follows from how v was written.
func (st *step) rewrite(v value) (text string, ok bool) {
	w := v.step
	if st.reserved != w.reserved {
		return "", false
	}
	if st.explode {
		return v.text, st.sep == w.sep && st.name == w.name && st.bareEmpty == w.bareEmpty
	}
	bare := w.bare(v.text)
	switch {
	case st.name == "":
		return bare, true
	case bare == "" && st.bareEmpty:
		return st.name, true
	default:
		return st.name + "=" + bare, true
	}
}

// bare returns the value in text, as st wrote it, without the name.
func (st *step) bare(text string) string {
	if st.name == "" {
		return text
	}
	return strings.TrimPrefix(text[len(st.name):], "=")
}

// plain returns the value in text, as st wrote it, in a form in which it can be compared with what
// another operator wrote. asReserved asks for the form that a reserved expansion has. The separators of
// an exploded value are made equal, because a dot or a comma in it cannot always be told from one.
func (st *step) plain(text string, asReserved bool) string {
	if st.explode {
		text = st.items(text)
	} else {
		text = st.bare(text)
	}
	if asReserved && !st.reserved {
		text = encodeReserved(decode(text))
	}
	return upperTriplets(text)
}

// items returns an exploded value without the variable's name, its items joined by commas.
func (st *step) items(text string) string {
	items := strings.Split(text, st.sep)
	for i, item := range items {
		if st.name == "" {
			continue
		}
		key, val, found := strings.Cut(item, "=")
		switch {
		case key == st.name:
			items[i] = val
		case !found:
			items[i] = key + "="
		}
	}
	return strings.ReplaceAll(strings.Join(items, ","), ".", ",")
}

// decode replaces triplets by their bytes.
func decode(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if triplet(s[i:]) {
			b = append(b, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
		} else {
			b = append(b, s[i])
		}
	}
	return string(b)
}

// upperTriplets writes the hexadecimal digits of triplets in capitals.
func upperTriplets(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := []byte(s)
	for i := range s {
		if triplet(s[i:]) {
			copy(b[i:], strings.ToUpper(s[i:i+3]))
		}
	}
	return string(b)
}

// encodeReserved encodes s as a reserved expansion does: reserved characters and triplets stay.
func encodeReserved(s string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		c := s[i]
		if classes[c]&(classUnreserved|classReserved) != 0 || triplet(s[i:]) {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}
