// Package topic decides which topics a selector selects.
package topic

import (
	"errors"
	"fmt"
	"net/url"
)

// Kind is the language a selector is written in.
type Kind uint8

// The kinds of selectors. They are stored in the directory of subscribers: a kind keeps its number.
const (
	// Classic is `*`, an equal string, or an RFC 6570 URI template that can expand to the topic (MAT-01).
	Classic Kind = iota + 1
	// Exact is `*` or an equal string, byte for byte (MAT-07, MAT-16).
	Exact
	// URLPattern is `*` or a URL pattern; it and the topics may be relative to the hub's URL (MAT-08 … MAT-17).
	URLPattern
)

// Names of draft-08's matcher types: the parameter match_<type>, match_type in a token, a segment in the API.
const (
	TypeExact      = "exact"
	TypeURLPattern = "urlpattern"
)

// MatchType is draft-08's name of the kind, empty for Classic, which has none.
func (k Kind) MatchType() string {
	switch k {
	case Exact:
		return TypeExact
	case URLPattern:
		return TypeURLPattern
	default:
		return ""
	}
}

// KindOf returns the kind that draft-08 calls matchType, compared byte for byte; ok is false if there is none.
func KindOf(matchType string) (k Kind, ok bool) {
	switch matchType {
	case TypeExact:
		return Exact, true
	case TypeURLPattern:
		return URLPattern, true
	default:
		return 0, false
	}
}

// Selector names a set of topics. It is comparable and usable as a map key.
type Selector struct {
	Kind    Kind
	Pattern string
}

// Matcher is a compiled selector. It is immutable and safe for concurrent use.
type Matcher interface {
	// Match reports whether topic, a valid topic, is selected.
	Match(topic string) bool
	// Prefix returns a string with which every selected topic begins; if exact is true, that string is
	// the only selected topic. It lets an index or a transport narrow its search: ("", false) is always right.
	Prefix() (prefix string, exact bool)
}

// Limits bounds what Compile accepts. A zero field means its default: 4096 bytes, 32 variables.
type Limits struct {
	PatternBytes int // LIM-06
	Variables    int // LIM-07, variables per template or groups per URL pattern
}

// Defaults of Limits.
const (
	DefaultPatternBytes = 4096
	DefaultVariables    = 32
)

// ErrLimit says that a selector is longer, or has more variables, than is allowed. Errors that wrap it
// name the limit and may be shown to a client.
var ErrLimit = errors.New("selector over a limit")

// ErrInvalid says that a pattern is not one of its kind, or is one that is refused. Its text and that of errors that
// wrap it is ours and may be shown to a client: no compiler's words (SUB-17).
var ErrInvalid = errors.New("invalid pattern")

// errKind says that no compiler exists for a selector's kind: a mistake of the caller.
var errKind = errors.New("topic: unknown kind of selector")

// compilers is the one place that knows which kinds exist.
var compilers = map[Kind]func(pattern string, r *resolver, l Limits) (Matcher, error){
	Classic:    compileClassic,
	Exact:      compileExact,
	URLPattern: compileURLPattern,
}

// Compile makes a matcher for s. base is the hub's URL, used only by URLPattern, for relative patterns and topics;
// it may be nil, and then these match nothing. It returns an error that wraps ErrLimit when a cap is exceeded, or
// ErrInvalid; a Classic pattern that is not a valid template is a plain string and not an error (MAT-02).
// Safe for concurrent use.
func Compile(s Selector, base *url.URL, l Limits) (Matcher, error) {
	var r *resolver
	if s.Kind == URLPattern {
		r = newResolver(base)
	}
	return compile(s, r, l)
}

// compile is Compile with what resolves topics, which only URL patterns need.
func compile(s Selector, r *resolver, l Limits) (Matcher, error) {
	if l.PatternBytes <= 0 {
		l.PatternBytes = DefaultPatternBytes
	}
	if l.Variables <= 0 {
		l.Variables = DefaultVariables
	}
	f, ok := compilers[s.Kind]
	if !ok {
		return nil, fmt.Errorf("%w %d", errKind, s.Kind)
	}
	if len(s.Pattern) > l.PatternBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrLimit, len(s.Pattern), l.PatternBytes)
	}
	return f(s.Pattern, r, l)
}
