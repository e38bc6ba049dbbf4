// Package topic decides which topics a selector selects.
package topic

import (
	"errors"
	"fmt"
	"net/url"
)

// Kind is the language a selector is written in.
type Kind uint8

// The kinds of selectors. Draft-08's exact and urlpattern come with that generation.
const (
	// Classic is `*`, an equal string, or an RFC 6570 URI template that can expand to the topic (MAT-01).
	Classic Kind = iota + 1
)

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
	Variables    int // LIM-07, per template
}

// Defaults of Limits.
const (
	DefaultPatternBytes = 4096
	DefaultVariables    = 32
)

// ErrLimit says that a selector is longer, or has more variables, than is allowed. Errors that wrap it
// name the limit and may be shown to a client.
var ErrLimit = errors.New("selector over a limit")

// errKind says that no compiler exists for a selector's kind: a mistake of the caller.
var errKind = errors.New("topic: unknown kind of selector")

// compilers is the one place that knows which kinds exist.
var compilers = map[Kind]func(pattern string, base *url.URL, l Limits) (Matcher, error){
	Classic: compileClassic,
}

// Compile makes a matcher for s. base is the hub's URL, used only by kinds that resolve relative
// patterns (none yet); it may be nil. It returns an error that wraps ErrLimit when a cap is exceeded;
// a Classic pattern that is not a valid template is a plain string and not an error (MAT-02).
// Safe for concurrent use.
func Compile(s Selector, base *url.URL, l Limits) (Matcher, error) {
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
	return f(s.Pattern, base, l)
}
