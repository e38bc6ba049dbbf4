package spec

import (
	"unicode"
	"unicode/utf8"
)

// ValidText reports whether s is valid UTF-8 without C0, DEL, C1 and Cf (format) characters: the rule
// for topics, selectors, event ids and event types. The empty string passes.
// Source: draft-08 §Publication; PUB-06, PUB-12, PUB-16, SUB-15, G-13.
func ValidText(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c >= utf8.RuneSelf {
			return validRunes(s[i:])
		}
		if c < ' ' || c == 0x7F {
			return false
		}
	}
	return true
}

func validRunes(s string) bool {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return false
			}
		}
		if r < ' ' || r >= 0x7F && r < 0xA0 || unicode.Is(unicode.Cf, r) {
			return false
		}
	}
	return true
}
