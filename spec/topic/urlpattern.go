package topic

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dunglas/go-urlpattern"
)

// A URL pattern is compiled in three steps. What costs too much, or would be read differently by the engine than by
// a browser, is refused on its text (urlguard.go). A library that follows the standard reads the rest, resolves it
// and brings its components into canonical form. These are then matched by our own code (urlcomponent.go), on
// topics that are parsed once for all patterns, without the groups that nobody asks a hub for.

// urlPattern matches topics by their resolved URL. Its topics, as they stand, have no beginning in common.
type urlPattern struct {
	resolver   *resolver
	components [urlComponents]urlComponent
	prefix     string
}

// compileURLPattern follows MAT-08 … MAT-16.
func compileURLPattern(pattern string, r *resolver, l Limits) (Matcher, error) {
	if pattern == wildcard {
		return everything{}, nil
	}
	pattern, err := guardURLPattern(pattern, l.Variables)
	if err != nil {
		return nil, err
	}
	p, err := parseURLPattern(pattern, "")
	relative := errors.Is(err, urlpattern.ErrNoBaseURL)
	if relative {
		base := r.baseText
		if base == "" {
			base = "http://localhost/" // any: it has to be a pattern all the same
		}
		p, err = parseURLPattern(pattern, base)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: not a URL pattern", ErrInvalid) // not the library's words (SUB-17)
	}
	m, err := newURLPattern(p, r)
	if err != nil {
		return nil, err
	}
	if relative && r.base == nil {
		return nothing{}, nil
	}
	return m, nil
}

// parseURLPattern calls the library, which panics on patterns such as `:a-/..` (MAT-14).
func parseURLPattern(pattern, base string) (p *urlpattern.URLPattern, err error) {
	defer recoverTo(&err)
	return urlpattern.New(pattern, base, nil)
}

func newURLPattern(p *urlpattern.URLPattern, r *resolver) (*urlPattern, error) {
	m := &urlPattern{resolver: r}
	for i, c := range [urlComponents]struct {
		pattern string
		syntax  urlSyntax
	}{
		urlScheme: {p.Protocol(), urlSyntax{}}, urlHostname: {p.Hostname(), urlSyntax{delimiter: '.'}},
		urlPort: {p.Port(), urlSyntax{}}, urlPath: {p.Pathname(), pathSyntax(p)},
		urlQuery: {p.Search(), urlSyntax{}}, urlFragment: {p.Hash(), urlSyntax{}},
		urlUsername: {p.Username(), urlSyntax{}}, urlPassword: {p.Password(), urlSyntax{}},
	} {
		var err error
		if m.components[i], err = compileURLComponent(c.pattern, c.syntax); err != nil {
			return nil, err
		}
	}
	var b strings.Builder
	for i := range urlKeyed {
		literal, whole := m.components[i].literal()
		b.WriteString(literal)
		if !whole || i == urlKeyed-1 {
			break
		}
		b.WriteString(KeySeparator)
	}
	m.prefix = b.String()
	return m, nil
}

// Match implements Matcher.
func (m *urlPattern) Match(topic string) bool { return m.MatchURL(m.resolver.resolve(topic)) }

// Prefix implements Matcher.
func (m *urlPattern) Prefix() (string, bool) { return "", false }

// Resolve implements URLMatcher.
func (m *urlPattern) Resolve(topic string) *URL { return m.resolver.resolve(topic) }

// URLPrefix implements URLMatcher.
func (m *urlPattern) URLPrefix() string { return m.prefix }

// MatchURL implements URLMatcher.
func (m *urlPattern) MatchURL(u *URL) bool {
	if u == nil || !strings.HasPrefix(u.key, m.prefix) {
		return false
	}
	for i := range m.components {
		if !m.components[i].match(u.parts[i]) {
			return false
		}
	}
	return true
}

// nothing matches no topic: a relative pattern without a base.
type nothing struct{}

func (nothing) Match(string) bool      { return false }
func (nothing) Prefix() (string, bool) { return "", false }
