package topic

import (
	"strings"
	"unicode/utf8"
)

// template is a parsed RFC 6570 URI template: literals and expressions in turn.
type template struct{ parts []part }

// part is a literal, or else an expression with at least one variable.
type part struct {
	literal string
	op      operator
	vars    []variable
}

// variable is one varspec. At most one of prefix and explode is set.
type variable struct {
	name    string
	prefix  int // largest number of characters, 0 = no limit
	explode bool
}

// operator is a row of the table in RFC 6570, appendix A.
type operator struct {
	first, sep string
	named      bool
	bareEmpty  bool // an empty named value has no equals sign
	reserved   bool // reserved characters stay as they are
}

// simple is the operator of an expression that names none.
var simple = operator{sep: ","}

// operatorOf returns the operator written as c, RFC 6570 §3.2.
func operatorOf(c byte) (op operator, ok bool) {
	switch c {
	case '+':
		return operator{sep: ",", reserved: true}, true
	case '#':
		return operator{first: "#", sep: ",", reserved: true}, true
	case '.', '/':
		return operator{first: string(c), sep: string(c)}, true
	case ';':
		return operator{first: ";", sep: ";", named: true, bareEmpty: true}, true
	case '?', '&':
		return operator{first: string(c), sep: "&", named: true}, true
	default:
		return simple, false
	}
}

// variables counts the varspecs.
func (t template) variables() int {
	n := 0
	for _, p := range t.parts {
		n += len(p.vars)
	}
	return n
}

// parseTemplate parses s; ok is false when s is not a valid template. It runs in one pass over s.
func parseTemplate(s string) (t template, ok bool) {
	if !utf8.ValidString(s) {
		return t, false
	}
	for s != "" {
		if s[0] != '{' {
			n := literalLen(s)
			if n == 0 {
				return template{}, false
			}
			t.parts = append(t.parts, part{literal: s[:n]})
			s = s[n:]
			continue
		}
		body, rest, closed := strings.Cut(s[1:], "}")
		p, valid := parseExpression(body)
		if !closed || !valid {
			return template{}, false
		}
		t.parts = append(t.parts, p)
		s = rest
	}
	return t, true
}

// parseExpression parses what stands between braces.
func parseExpression(s string) (p part, ok bool) {
	if s == "" {
		return p, false
	}
	var explicit bool
	if p.op, explicit = operatorOf(s[0]); explicit {
		s = s[1:]
	}
	for more := true; more; {
		var spec string
		spec, s, more = strings.Cut(s, ",")
		v, valid := parseVariable(spec)
		if !valid {
			return p, false
		}
		p.vars = append(p.vars, v)
	}
	return p, true
}

// parseVariable parses a varspec: name, name:length or name*.
func parseVariable(s string) (v variable, ok bool) {
	n := nameLen(s)
	v.name, s = s[:n], s[n:]
	switch {
	case n == 0:
		return v, false
	case s == "":
		return v, true
	case s == "*":
		v.explode = true
		return v, true
	case s[0] != ':' || len(s) < 2 || len(s) > 5 || s[1] == '0':
		return v, false
	}
	for _, c := range []byte(s[1:]) {
		if c < '0' || c > '9' {
			return v, false
		}
		v.prefix = v.prefix*10 + int(c-'0')
	}
	return v, true
}

// nameLen returns the length of the variable name at the start of s: varchars, singly joined by dots.
func nameLen(s string) int {
	i, dot := 0, true // a dot may not come first
	for i < len(s) {
		switch c := s[i]; {
		case isAlnum(c) || c == '_':
			i, dot = i+1, false
		case c == '.' && !dot:
			i, dot = i+1, true
		case triplet(s[i:]):
			i, dot = i+3, false
		default:
			if dot {
				return 0
			}
			return i
		}
	}
	if dot {
		return 0
	}
	return i
}

// literalLen returns the length of the literal at the start of s, up to an expression or to something
// that may not stand in a template. The grammar of RFC 6570 leaves the apostrophe out, its
// examples have it: it is allowed.
func literalLen(s string) int {
	i := 0
	for i < len(s) {
		switch c := s[i]; {
		case c == '%':
			if !triplet(s[i:]) {
				return 0
			}
			i += 3
		case c == '{':
			return i
		case c < utf8.RuneSelf:
			if c <= ' ' || c == 0x7F || strings.IndexByte("\"<>\\^`|}", c) >= 0 {
				return 0
			}
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			if !literalRune(r) {
				return 0
			}
			i += n
		}
	}
	return i
}

// literalRune reports whether r, which is not ASCII, is ucschar or iprivate of RFC 6570 §1.5.
func literalRune(r rune) bool {
	switch {
	case r < 0xA0, r >= 0xFDD0 && r <= 0xFDEF, r >= 0xFFF0 && r <= 0xFFFF, r >= 0xE0000 && r <= 0xE0FFF:
		return false
	default:
		return r&0xFFFE != 0xFFFE // the two noncharacters at the end of each plane
	}
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// triplet reports whether s starts with a percent-encoded byte.
func triplet[T string | []byte](s T) bool {
	return len(s) >= 3 && s[0] == '%' && isHex(s[1]) && isHex(s[2])
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// unhex returns the value of a hexadecimal digit.
func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	default:
		return c - '0'
	}
}

// asciiLen returns the length of the ASCII text at the start of s.
func asciiLen(s string) int {
	i := 0
	for i < len(s) && s[i] < utf8.RuneSelf {
		i++
	}
	return i
}
