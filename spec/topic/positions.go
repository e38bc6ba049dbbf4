package topic

import "math/bits"

// positions is a set of places in a topic, one bit for each.
type positions []uint64

// positionsFor returns how many words a set over a topic of n bytes needs.
func positionsFor(n int) int { return n/64 + 1 }

func (s positions) add(p int)      { s[p>>6] |= 1 << (p & 63) }
func (s positions) has(p int) bool { return s[p>>6]&(1<<(p&63)) != 0 }
func (s positions) clear()         { clear(s) }

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
