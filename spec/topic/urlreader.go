package topic

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// urlReader parses the pattern of one component, which the library has checked and written anew.
type urlReader struct {
	rest   string
	syntax urlSyntax
	text   strings.Builder // fixed text so far
	list   []urlPart
}

// parts follows the standard's steps to parse a pattern string. ok is false for what the library should not have
// written.
func (r *urlReader) parts() (list []urlPart, ok bool) {
	for r.rest != "" {
		if r.rest[0] == '{' {
			if !r.braces() {
				return nil, false
			}
			continue
		}
		prefix := ""
		if c := r.rest[0]; c == r.syntax.prefix && c != 0 && len(r.rest) > 1 && strings.IndexByte(":(*", r.rest[1]) >= 0 {
			prefix, r.rest = r.rest[:1], r.rest[1:]
		}
		if p, found := r.group(); found {
			p.prefix = prefix
			r.add(p)
			continue
		}
		r.text.WriteString(prefix)
		if !r.literal(&r.text) {
			return nil, false
		}
	}
	r.flush()
	return r.list, true
}

// literal appends one byte of text, which may be escaped.
func (r *urlReader) literal(b *strings.Builder) bool {
	if strings.IndexByte("*?+:(){}", r.rest[0]) >= 0 {
		return false
	}
	if r.rest[0] == '\\' {
		if r.rest = r.rest[1:]; r.rest == "" {
			return false
		}
	}
	b.WriteByte(r.rest[0])
	r.rest = r.rest[1:]
	return true
}

// braces takes text, perhaps around a group, with the modifier that it shares.
func (r *urlReader) braces() bool {
	r.rest = r.rest[1:]
	prefix, ok := r.textUpTo(":(*}")
	if !ok {
		return false
	}
	p, found := r.group()
	p.prefix = prefix
	if found {
		if p.modifier != 0 {
			return false
		}
		if p.suffix, ok = r.textUpTo("}"); !ok {
			return false
		}
	}
	if !strings.HasPrefix(r.rest, "}") {
		return false
	}
	r.rest = r.rest[1:]
	p.modifier = r.modifier()
	switch {
	case p.kind == partText && p.modifier == 0:
		r.text.WriteString(p.prefix)
	case p.kind == partText && p.prefix == "": // nothing, however often
	default:
		r.append(p)
	}
	return true
}

// textUpTo takes the text before one of the characters in ends.
func (r *urlReader) textUpTo(ends string) (string, bool) {
	var b strings.Builder
	for {
		if r.rest == "" {
			return "", false
		}
		if strings.IndexByte(ends, r.rest[0]) >= 0 {
			return b.String(), true
		}
		if !r.literal(&b) {
			return "", false
		}
	}
}

// group takes a name, an expression, a name with its expression, or a wildcard, if there is one.
func (r *urlReader) group() (p urlPart, found bool) {
	if strings.HasPrefix(r.rest, "*") {
		r.rest = r.rest[1:]
		return urlPart{kind: partAny}, true
	}
	if strings.HasPrefix(r.rest, ":") {
		n := 1
		for n < len(r.rest) && (isAlnum(r.rest[n]) || r.rest[n] == '_' || r.rest[n] >= utf8.RuneSelf) {
			n++ // all text outside names is ASCII here
		}
		r.rest, found = r.rest[n:], true
		p.kind = partSegment
	}
	if strings.HasPrefix(r.rest, "(") {
		n := expressionLen(r.rest)
		if n < 0 {
			return p, found
		}
		p.expression, r.rest, found = r.rest[1:n-1], r.rest[n:], true
		switch p.expression {
		case segmentExpression(r.syntax.delimiter):
			p.kind, p.expression = partSegment, ""
		case ".*":
			p.kind, p.expression = partAny, ""
		default:
			p.kind = partExpression
		}
	}
	return p, found
}

// add appends p, a group outside braces, with its modifier.
func (r *urlReader) add(p urlPart) {
	p.modifier = r.modifier()
	r.append(p)
}

func (r *urlReader) append(p urlPart) {
	r.flush()
	r.list = append(r.list, p)
}

// flush makes a part of the text so far.
func (r *urlReader) flush() {
	if r.text.Len() > 0 {
		r.list = append(r.list, urlPart{kind: partText, prefix: r.text.String()})
		r.text.Reset()
	}
}

// modifier takes the modifier, 0 if there is none.
func (r *urlReader) modifier() byte {
	if r.rest == "" || strings.IndexByte("?*+", r.rest[0]) < 0 {
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

// segmentExpression is how the library writes a group without a name that stops at the delimiter.
func segmentExpression(delimiter byte) string {
	text := string(rune(delimiter))
	if delimiter == '.' || delimiter == '/' {
		text = `\` + text
	}
	return "[^" + text + "]+?"
}

// expressionOf makes one regular expression of a component, and tells how many instructions it has. Text after a group counts like the steps of its
// expressions: behind a wildcard, the engine may be at every byte of it at once (MAT-12).
func expressionOf(parts []urlPart, delimiter byte) (re *regexp.Regexp, size int, err error) {
	var b strings.Builder
	steps := 0
	b.WriteString(`\A(?:`)
	for i, p := range parts {
		if i > 0 {
			steps += len(p.prefix)
		}
		steps += len(p.suffix)
		b.WriteString("(?:" + regexp.QuoteMeta(p.prefix))
		switch p.kind {
		case partText:
		case partSegment:
			b.WriteString(`[^` + regexp.QuoteMeta(string(rune(delimiter))) + `]+`)
		case partAny:
			b.WriteString(".*")
		case partExpression:
			b.WriteString("(?:" + p.expression + ")")
		}
		b.WriteString(regexp.QuoteMeta(p.suffix) + ")")
		if p.modifier != 0 {
			b.WriteByte(p.modifier)
		}
	}
	b.WriteString(`)\z`)
	if steps > maxURLRegexp {
		return nil, 0, fmt.Errorf("%w: %d bytes after a group beside a regular expression in a URL pattern, at most %d are allowed", ErrLimit, steps, maxURLRegexp)
	}
	re, err = regexp.Compile(b.String())
	if err != nil {
		return nil, 0, fmt.Errorf("%w: a regular expression in a URL pattern that is not supported", ErrInvalid)
	}
	parsed, _ := syntax.Parse(b.String(), syntax.Perl) // regexp has just done the same
	program, _ := syntax.Compile(parsed.Simplify())
	return re, len(program.Inst), nil
}
