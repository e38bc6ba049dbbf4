package topic

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxURLRegexp bounds the size of a pattern's own regular expressions, in steps of the engine: what it costs to match
// a topic is the product of both lengths. A UUID spelled out takes about 80 (MAT-12, MAT-13).
const maxURLRegexp = 512

// categorySteps is what a general category such as \p{L} counts as. It has hundreds of ranges, which RE2 copies and
// sorts: a class of 400 of them took 130 ms to read (MAT-12, MAT-13).
const categorySteps = 32

// urlGuard reads a URL pattern as the standard's tokenizer does, before anything is compiled.
type urlGuard struct {
	rest   string
	out    strings.Builder // the pattern as the library takes it
	groups int             // named groups, wildcards, expressions, and text with a modifier
	before int             // groups before the last opening brace
	steps  int             // of its regular expressions
}

// guardURLPattern refuses what is over a limit, and the regular expressions that RE2 would read differently than a
// browser (MAT-13, MAT-15, LIM-07). It returns the pattern with the names of groups as the library takes them.
func guardURLPattern(pattern string, maxGroups int) (string, error) {
	if !utf8.ValidString(pattern) || strings.ContainsFunc(pattern, unspeakable) {
		return "", fmt.Errorf("%w: control or format characters in a URL pattern", ErrInvalid)
	}
	for part := range strings.FieldsFuncSeq(pattern, func(r rune) bool { return r == '/' || r == '?' || r == '#' }) {
		if foreign(part) > maxForeign { // it may be a host
			return "", fmt.Errorf("%w: a part of a URL pattern has more than %d characters beyond ASCII", ErrLimit, maxForeign)
		}
	}
	g := urlGuard{rest: pattern}
	for g.rest != "" {
		if err := g.next(); err != nil {
			return "", err
		}
	}
	if g.groups > maxGroups {
		return "", fmt.Errorf("%w: %d groups in a URL pattern, at most %d are allowed", ErrLimit, g.groups, maxGroups)
	}
	return g.out.String(), nil
}

func unspeakable(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }

// next takes one token with its modifier.
func (g *urlGuard) next() error {
	switch c := g.rest[0]; c {
	case '\\':
		if len(g.rest) == 1 {
			return fmt.Errorf("%w: a URL pattern ends in a backslash", ErrInvalid)
		}
		_, n := utf8.DecodeRuneInString(g.rest[1:])
		g.take(1 + n)
	case ':':
		g.take(1)
		if name := nameOf(g.rest); name != "" {
			g.out.WriteString(libraryName(name))
			g.rest = g.rest[len(name):]
			if strings.HasPrefix(g.rest, "(") {
				if err := g.expression(); err != nil {
					return err
				}
			}
			g.group()
		}
	case '(':
		if err := g.expression(); err != nil {
			return err
		}
		g.group()
	case '*':
		g.take(1)
		g.group()
	case '{':
		g.take(1)
		g.before = g.groups
	case '}':
		g.take(1)
		if g.modifier() && g.groups == g.before {
			g.groups++
		}
	default:
		_, n := utf8.DecodeRuneInString(g.rest)
		g.take(n)
	}
	return nil
}

// group counts one, and takes its modifier.
func (g *urlGuard) group() {
	g.groups++
	g.modifier()
}

// modifier takes a modifier, if there is one.
func (g *urlGuard) modifier() bool {
	if g.rest == "" || strings.IndexByte("?*+", g.rest[0]) < 0 {
		return false
	}
	g.take(1)
	return true
}

func (g *urlGuard) take(n int) {
	g.out.WriteString(g.rest[:n])
	g.rest = g.rest[n:]
}

// nameOf returns the name at the start of s, as JavaScript spells identifiers.
func nameOf(s string) string {
	for i, r := range s {
		ok := r == '$' || r == '_' || unicode.IsLetter(r) || unicode.In(r, unicode.Nl, unicode.Other_ID_Start)
		if i > 0 {
			ok = ok || unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue)
		}
		if !ok {
			return s[:i]
		}
	}
	return s
}

// libraryName spells a name for the library, which knows no dollar sign in names, and no low line at their start.
// Names only have to differ.
func libraryName(name string) string {
	if name[0] == '_' {
		name = "\u01c0" + name
	}
	return strings.ReplaceAll(name, "$", "\u01c2")
}

// expression takes a regular expression in parentheses and checks it.
func (g *urlGuard) expression() error {
	n := expressionLen(g.rest)
	if n < 0 {
		return fmt.Errorf("%w: not a regular expression that a URL pattern can have", ErrInvalid)
	}
	steps, err := checkExpression(g.rest[1 : n-1])
	if err != nil {
		return err
	}
	if g.steps += steps; g.steps > maxURLRegexp { // at once: reading the others costs as much
		return tooManySteps(g.steps)
	}
	g.take(n)
	return nil
}

func tooManySteps(n int) error {
	return fmt.Errorf("%w: the regular expressions of a URL pattern take %d steps, at most %d are allowed", ErrLimit, n, maxURLRegexp)
}

// expressionLen returns the length of the expression at the start of s, parentheses included, or -1: it is ASCII, not
// empty, and has no groups that capture.
func expressionLen(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= utf8.RuneSelf, c == '?' && i == 1:
			return -1
		case c == '\\':
			if i++; i == len(s) || s[i] >= utf8.RuneSelf {
				return -1
			}
		case c == '(':
			if depth++; depth > 1 && (i+1 == len(s) || s[i+1] != '?') {
				return -1
			}
		case c == ')':
			if depth--; depth == 0 {
				if i == 1 {
					return -1
				}
				return i + 1
			}
		}
	}
	return -1
}

// checkExpression refuses what RE2 reads in another way than JavaScript, with its v flag, and returns the size of the
// rest. A browser refuses a little more, such as a bare hyphen in a class: nobody would read it otherwise.
func checkExpression(s string) (steps int, err error) {
	refused := fmt.Errorf("%w: a regular expression in a URL pattern that is not supported", ErrInvalid)
	if steps = categorySteps * (strings.Count(s, `\p`) + strings.Count(s, `\P`)); steps > maxURLRegexp {
		return 0, tooManySteps(steps)
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			n := escapeLen(s[i:])
			if n == 0 {
				return 0, refused
			}
			i += n - 1
		case '[':
			n := classLen(s[i:])
			if n == 0 {
				return 0, refused
			}
			i += n - 1
		case ']', '}':
			return 0, refused // literals to RE2
		case '{':
			n := strings.IndexByte(s[i:], '}')
			if n < 0 || !isCount(s[i+1:i+n]) {
				return 0, refused
			}
			i += n
		case '(':
			if !plainGroup(s[i:]) {
				return 0, refused
			}
		}
	}
	re, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return 0, refused
	}
	return steps + sizeOf(re), nil
}

// plainGroup reports whether the group at the start of s only groups, or captures by name: no look-around, no flags.
func plainGroup(s string) bool {
	s = strings.TrimPrefix(s, "(?")
	return strings.HasPrefix(s, ":") || len(s) > 1 && s[0] == '<' && (isAlnum(s[1]) || s[1] == '_')
}

// isCount reports whether s is the inside of a quantifier: 2 or 2, or 2,3.
func isCount(s string) bool {
	low, high, _ := strings.Cut(s, ",")
	return low != "" && strings.Trim(low+high, "0123456789") == ""
}

// escapeLen returns the length of the escape at the start of s, 0 if the two languages differ about it.
func escapeLen(s string) int {
	switch c := s[1]; { // there is one: expressionLen has seen to it
	case strings.IndexByte("dDwWsSbBtnrfv", c) >= 0:
		return 2
	case c == 'x' && len(s) >= 4 && isHex(s[2]) && isHex(s[3]):
		return 4
	case c == 'p' || c == 'P': // general categories are called the same, scripts are not
		if end := strings.IndexByte(s, '}'); len(s) > 2 && s[2] == '{' && (end == 4 || end == 5) {
			return end + 1
		}
		return 0
	case isAlnum(c):
		return 0
	default:
		return 2
	}
}

// classLen returns the length of the class at the start of s, 0 if the two languages differ about it: sets in sets
// and operations on them, an empty class, doubled punctuation, which JavaScript keeps for later.
func classLen(s string) int {
	i := 1
	if strings.HasPrefix(s, "[^") {
		i = 2
	}
	if i < len(s) && s[i] == ']' {
		return 0
	}
	for i < len(s) {
		switch c := s[i]; {
		case c == ']':
			return i + 1
		case c == '[':
			return 0
		case c == '\\':
			n := escapeLen(s[i:])
			if n == 0 || s[i+1] == 'b' || s[i+1] == 'B' {
				return 0
			}
			i += n
		case i+1 < len(s) && s[i+1] == c && strings.IndexByte("&!#$%*+,-.:;<=>?@^`~", c) >= 0:
			return 0
		default:
			i++
		}
	}
	return 0
}

// sizeOf estimates, from above, the number of instructions of re, without building it.
func sizeOf(re *syntax.Regexp) int {
	inside := 0
	for _, sub := range re.Sub {
		inside += sizeOf(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return max(len(re.Rune), 1)
	case syntax.OpConcat:
		return max(inside, 1)
	case syntax.OpRepeat: // {n,m}: m copies, some of them optional, or n and a loop
		copies := re.Max
		if copies < 0 {
			copies = re.Min + 1
		}
		return (inside + 1) * max(copies, 1)
	default:
		return 1 + inside + len(re.Sub)
	}
}
