package topic

import "math/bits"

// positions is a set of places in a topic, one bit for each, so that a step can be taken from 64 places
// at a time.
type positions []uint64

// wordsFor returns how many words a set over a topic of n bytes needs; the end is a place too.
func wordsFor(n int) int { return n/64 + 1 }

func (s positions) add(p int)      { s[p>>6] |= 1 << (p & 63) }
func (s positions) has(p int) bool { return s[p>>6]&(1<<(p&63)) != 0 }

func (s positions) union(o positions) {
	for i, w := range o {
		s[i] |= w
	}
}

func (s positions) empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// next returns the first member at or after p, or -1.
func (s positions) next(p int) int {
	i := p >> 6
	if i >= len(s) {
		return -1
	}
	if w := s[i] >> (p & 63); w != 0 {
		return p + bits.TrailingZeros64(w)
	}
	for i++; i < len(s); i++ {
		if s[i] != 0 {
			return i<<6 + bits.TrailingZeros64(s[i])
		}
	}
	return -1
}

// addAfter adds the places after those members of e at which mask is set.
func (s positions) addAfter(e, mask positions) {
	carry := uint64(0)
	for i := range s {
		w := e[i] & mask[i]
		s[i] |= w<<1 | carry
		carry = w >> 63
	}
}

// addRuns adds to s the places of e and all that can be reached from them across bytes at which mask is
// set, as far as they are in bounds. Adding a start to the ones of a run carries to the run's end; the
// bits that change on the way, and the starts, are the places passed.
func (s positions) addRuns(e, mask, bounds positions) {
	carry := uint64(0)
	for i := range s {
		var sum uint64
		sum, carry = bits.Add64(mask[i], e[i]&mask[i], carry)
		s[i] |= (sum ^ mask[i] | e[i]) & bounds[i]
	}
}

// fill adds the places from first to last, both included; none if first is negative.
func (s positions) fill(first, last int) {
	if first < 0 {
		return
	}
	for i := first >> 6; i <= last>>6; i++ {
		w := ^uint64(0)
		if i == first>>6 {
			w <<= first & 63
		}
		if i == last>>6 {
			w &= ^uint64(0) >> (63 - last&63)
		}
		s[i] |= w
	}
}
