package jetstream

import (
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// A filter is what a node subscribes to: a subject, perhaps with a wildcard at its end, without the prefix of
// updates or of live frames. The filters of a selector cover the subjects of every update that it can select;
// that they cover more only costs messages. What is said of topics in canonical form (subject.go) rests on
// one fact: such a topic is, byte for byte, the URL that the parser would write, so that the parts that its
// subject is made of can be read off a literal beginning of it.
const (
	everything     = ">"
	irregularOnes  = "t.-.>"
	severalOrigins = "m.-.-"
	ownOnes        = "s"
)

// filters returns the filters of a selector, without repetition.
func (s subjects) filters(sel topic.Selector) []string {
	// the hub has accepted the selector: its limits are not ours to set again
	m, err := topic.Compile(sel, s.hub, topic.Limits{PatternBytes: len(sel.Pattern) + 1, Variables: len(sel.Pattern) + 1})
	if err != nil {
		return []string{everything}
	}
	switch sel.Kind {
	case topic.Classic, topic.Exact: // match topics as they stand
		literal, exact := m.Prefix()
		if exact {
			return s.exactFilters(literal)
		}
		return s.prefixFilters(literal)
	case topic.URLPattern: // match canonical forms
		if u, ok := m.(topic.URLMatcher); ok {
			return s.urlFilters(u.URLPrefix())
		}
	}
	return []string{everything}
}

// exactFilters covers the updates of one topic.
func (s subjects) exactFilters(t string) []string {
	u, regular := canonical(t)
	single := ownOnes
	if !s.own(t) {
		single = strings.TrimPrefix(s.singleOf(t, u, regular), s.updates)
	}
	fs := []string{single, severalOrigins}
	if regular {
		fs = append(fs, "m."+originTokens(u))
	}
	return fs
}

// prefixFilters covers the updates of all topics that begin with literal.
func (s subjects) prefixFilters(literal string) []string {
	if literal == "" {
		return []string{everything}
	}
	var fs []string
	if s.below != "" && (strings.HasPrefix(literal, s.below) || strings.HasPrefix(s.below, literal)) {
		fs = append(fs, ownOnes)
	}
	scheme, rest, complete := strings.Cut(literal, ":")
	if !canBeScheme(scheme) { // no canonical form begins like this
		return append(fs, irregularOnes, severalOrigins)
	}
	if !complete {
		return append(fs, "t.>", "m.>")
	}
	fs = append(fs, irregularOnes, severalOrigins)
	host, path, complete := cutAuthority(rest)
	if !complete {
		return append(fs, "t."+token(scheme)+".>", "m."+token(scheme)+".>")
	}
	origin := token(scheme) + "." + token(host)
	return append(fs, "t."+origin+completeSegments(path)+".>", "m."+origin)
}

// urlFilters covers the updates of all topics whose URL has a key that begins with literal. Of a topic in canonical
// form, the subject's tokens are the beginning of that key; all others, relative ones too, have no tokens.
func (s subjects) urlFilters(literal string) []string {
	if literal == "" {
		return []string{everything}
	}
	var fs []string
	if s.ownKey != "" && (strings.HasPrefix(literal, s.ownKey) || strings.HasPrefix(s.ownKey, literal)) {
		fs = append(fs, ownOnes)
	}
	parts := strings.Split(literal, topic.KeySeparator) // the last one may go on
	if len(parts) == 1 {
		return append(fs, "t.>", "m.>")
	}
	fs = append(fs, irregularOnes, severalOrigins)
	scheme := token(parts[0])
	if len(parts) <= 3 {
		return append(fs, "t."+scheme+".>", "m."+scheme+".>")
	}
	host, port, path := parts[1], parts[2], parts[3]
	if port != "" {
		host += ":" + port
	}
	if len(parts) > 4 {
		path += "?" // it ends here
	}
	origin := scheme + "." + token(host)
	segments := ""
	if strings.HasPrefix(path, "/") { // an opaque path has no tokens
		segments = completeSegments(path)
	}
	return append(fs, "t."+origin+segments+".>", "m."+origin)
}

// canBeScheme reports whether s is a scheme, or the beginning of one, as the parser writes them.
func canBeScheme(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return s != ""
}

// cutAuthority reads what follows the scheme's colon. It returns the host with its port, and the rest, if
// the end of the authority is there and no user is in it.
func cutAuthority(rest string) (host, path string, complete bool) {
	rest, ok := strings.CutPrefix(rest, "//")
	end := strings.IndexAny(rest, "/?#")
	if !ok || end < 0 || strings.Contains(rest[:end], "@") {
		return "", "", false
	}
	return rest[:end], rest[end:], true
}

// completeSegments returns the tokens of the path's segments, each after a dot, without a last one that
// may go on.
func completeSegments(path string) string {
	path = strings.TrimPrefix(path, "/")
	end := strings.IndexAny(path, "?#")
	whole := end >= 0
	if whole {
		path = path[:end]
	}
	segments := strings.Split(path, "/")
	if !whole {
		segments = segments[:len(segments)-1]
	}
	var b strings.Builder
	for _, segment := range segments[:min(len(segments), maxSegments)] {
		b.WriteByte('.')
		b.WriteString(token(segment))
	}
	return b.String()
}

// wider returns the filter that covers every topic of the origin that f belongs to, or of all topics without
// one, and whether f is a filter of topics at all.
func wider(f string) (string, bool) {
	tokens := strings.SplitN(f, ".", 4)
	switch {
	case tokens[0] != "t" || len(tokens) < 3:
		return "", false
	case tokens[1] == emptyToken:
		return irregularOnes, true
	case tokens[2] == ">": // of a scheme
		return "", false
	default:
		return strings.Join(tokens[:3], ".") + ".>", true
	}
}
