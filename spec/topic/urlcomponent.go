package topic

import (
	"math/bits"
	"regexp"
	"slices"
	"strings"

	"github.com/dunglas/go-urlpattern"
)

// urlSyntax is how a component reads its groups.
type urlSyntax struct {
	delimiter byte // what a named group does not match, 0 = nothing
	prefix    byte // what belongs to the group that it precedes, 0 = nothing
}

// pathSyntax returns that of the path, which is hierarchical for the schemes that the library takes for special.
func pathSyntax(p *urlpattern.URLPattern) urlSyntax {
	scheme, err := compileURLComponent(p.Protocol(), urlSyntax{})
	if err == nil && slices.ContainsFunc([]string{"http", "https", "ws", "wss", "ftp"}, scheme.match) {
		return urlSyntax{delimiter: '/', prefix: '/'}
	}
	return urlSyntax{}
}

// urlPart is a piece of a component's pattern: fixed text, or a group with the text before and after that shares
// its modifier.
type urlPart struct {
	kind           urlPartKind
	prefix, suffix string
	expression     string // of partExpression
	modifier       byte   // 0, '?', '*' or '+'
}

type urlPartKind uint8

const (
	partText    urlPartKind = iota // prefix only
	partSegment                    // one character or more, no delimiter
	partAny                        // any characters, or none
	partExpression
)

// urlComponent matches one component of a URL. As with templates, the places that can have been reached are kept as
// a set, so that the work is bounded by the number of parts times the length of the text. Only a component with
// regular expressions of its own is left to RE2.
type urlComponent struct {
	delimiter  byte
	head, tail string    // fixed text around parts
	parts      []urlPart // nothing between: the component is head
	expression *regexp.Regexp
	size       int // of expression, in instructions
}

// maxURLWork bounds what an expression may cost: the engine does no more than its instructions times the bytes of the
// text, some hundreds of microseconds. Beyond it there is no match: 9 ms for each pattern and topic would let one
// subscriber stop a hub (MAT-12). A UUID spelled out has some 70 instructions.
const maxURLWork = 1 << 16

// compileURLComponent takes a component's pattern as the library writes it: canonical and valid.
func compileURLComponent(pattern string, syntax urlSyntax) (urlComponent, error) {
	c := urlComponent{delimiter: syntax.delimiter}
	r := urlReader{rest: pattern, syntax: syntax}
	parts, ok := r.parts()
	if !ok {
		return c, ErrInvalid
	}
	if slices.ContainsFunc(parts, func(p urlPart) bool { return p.kind == partExpression }) {
		var err error
		if c.expression, c.size, err = expressionOf(parts, syntax.delimiter); err != nil {
			return c, err
		}
	}
	parts = joined(parts)
	if len(parts) > 0 && parts[0].modifier == 0 {
		first := &parts[0]
		c.head, first.prefix = first.prefix, ""
		if first.kind == partText {
			parts = parts[1:]
		}
	}
	if n := len(parts) - 1; n >= 0 && parts[n].modifier == 0 {
		last := &parts[n]
		if last.kind == partText {
			c.tail, parts = last.prefix, parts[:n]
		} else {
			c.tail, last.suffix = last.suffix, ""
		}
	}
	c.parts = parts
	return c, nil
}

// joined writes parts without modifiers as few as possible: text goes to the group after it, or else to the one
// before.
func joined(parts []urlPart) []urlPart {
	var list []urlPart
	for _, p := range parts {
		n := len(list) - 1
		switch {
		case n < 0 || p.modifier != 0 || list[n].modifier != 0:
			list = append(list, p)
		case list[n].kind == partText:
			p.prefix = list[n].prefix + p.prefix
			list[n] = p
		default:
			list[n].suffix += p.prefix
			if p.prefix = ""; p.kind != partText {
				list = append(list, p)
			}
		}
	}
	return list
}

// literal returns the text with which every match begins, and whether it is the only match.
func (c *urlComponent) literal() (text string, whole bool) {
	return c.head, len(c.parts) == 0 && c.tail == ""
}

// match reports whether the whole of s matches.
func (c *urlComponent) match(s string) bool {
	if len(s) < len(c.head)+len(c.tail) || !strings.HasPrefix(s, c.head) || !strings.HasSuffix(s, c.tail) {
		return false
	}
	if c.expression != nil {
		before := len(c.head) // which takes the engine one step for each byte
		return (c.size-before)*(len(s)-before) <= maxURLWork && c.expression.MatchString(s)
	}
	s = s[len(c.head) : len(s)-len(c.tail)]
	switch {
	case len(c.parts) == 0:
		return s == ""
	case len(c.parts) > 1 || c.parts[0] != urlPart{kind: c.parts[0].kind}:
		matched, _ := c.search(s)
		return matched
	case c.parts[0].kind == partAny:
		return true
	default:
		return s != "" && (c.delimiter == 0 || strings.IndexByte(s, c.delimiter) < 0)
	}
}

// maxURLSearch bounds one evaluation without an engine, in comparisons of a literal whose first byte is there: some tens
// of microseconds, and several times what a pattern of usual size needs. Beyond it there is no match (MAT-12).
const maxURLSearch = 1 << 12

// roundWork is what a round costs besides, in such comparisons.
const roundWork = 8

// urlSearch is one evaluation of a component.
type urlSearch struct {
	text      string
	inSegment positions // the bytes that a named group may match
	bounds    positions
	work      int // see maxURLSearch
}

// search takes the parts one after the other. rounds is how often a step was taken from a set of places.
func (c *urlComponent) search(s string) (matched bool, rounds int) {
	const sets = 6
	words := wordsFor(len(s))
	var array [sets * 8]uint64 // enough for most
	buf := array[:]
	if sets*words > len(buf) {
		buf = make([]uint64, sets*words)
	}
	set := func(i int) positions { return positions(buf[i*words : (i+1)*words]) }
	u := urlSearch{text: s, inSegment: set(0), bounds: set(1)}
	for i := range u.bounds {
		u.bounds[i] = ^uint64(0)
	}
	for p := range len(s) {
		if c.delimiter == 0 || s[p] != c.delimiter {
			u.inSegment.add(p)
		}
	}
	at, now, next, all := set(2), set(3), set(4), set(5)
	at.add(0)
	for i := range c.parts {
		rounds += u.part(&c.parts[i], at, now, next, all)
		if at.empty() || u.work > maxURLSearch {
			return false, rounds
		}
	}
	return at.has(len(s)), rounds
}

// part replaces the places in at by those after p; the others are scratch. Each round but the last reaches a new
// place.
func (u *urlSearch) part(p *urlPart, at, now, next, all positions) (rounds int) {
	copy(now, at)
	clear(all)
	for {
		rounds++
		if u.work += roundWork; u.work > maxURLSearch {
			return rounds
		}
		clear(next)
		u.once(p, now, next)
		fresh := false
		for i := range next { // go on only from where nobody has been
			now[i] = next[i] &^ all[i]
			all[i] |= next[i]
			fresh = fresh || now[i] != 0
		}
		if !fresh || p.modifier == 0 || p.modifier == '?' {
			break
		}
	}
	if p.modifier == 0 || p.modifier == '+' {
		clear(at)
	}
	at.union(all)
	return rounds
}

// once adds to `to` the places after p without its modifier; from is scratch afterwards.
func (u *urlSearch) once(p *urlPart, from, to positions) {
	u.literal(p.prefix, from)
	switch p.kind {
	case partText:
		to.union(from)
		return
	case partSegment:
		to.addAfter(from, u.inSegment)
		copy(from, to)
		to.addRuns(from, u.inSegment, u.bounds)
	default:
		to.fill(from.next(0), len(u.text))
	}
	u.literal(p.suffix, to)
}

// literal replaces the places in e by those after text.
func (u *urlSearch) literal(text string, e positions) {
	if text == "" {
		return
	}
	for i := len(e) - 1; i >= 0; i-- { // from the back, so that a place moved forward is not met again
		for w := e[i]; w != 0; {
			bit := 63 - bits.LeadingZeros64(w)
			w &^= 1 << bit
			e[i] &^= 1 << bit
			p := i<<6 + bit
			if p == len(u.text) || u.text[p] != text[0] {
				continue
			}
			if u.work += comparing(len(text)); strings.HasPrefix(u.text[p:], text) {
				e.add(p + len(text))
			}
		}
	}
}
