package topic

import "fmt"

// wildcard is the selector of every topic.
const wildcard = "*"

// compileClassic follows the order of evaluation of MAT-01: the wildcard, the equal string, a template.
func compileClassic(pattern string, _ *resolver, l Limits) (Matcher, error) {
	if pattern == wildcard {
		return everything{}, nil
	}
	t, ok := parseTemplate(pattern)
	if !ok {
		return plain(pattern), nil
	}
	if n := t.variables(); n > l.Variables {
		return nil, fmt.Errorf("%w: %d template variables, at most %d are allowed", ErrLimit, n, l.Variables)
	}
	if len(t.parts) == 0 || len(t.parts) == 1 && t.parts[0].literal != "" && isASCII(pattern) {
		return plain(pattern), nil
	}
	return newTemplateMatcher(pattern, t), nil
}

// everything matches every topic.
type everything struct{}

func (everything) Match(string) bool      { return true }
func (everything) Prefix() (string, bool) { return "", false }

// plain matches one string, byte by byte.
type plain string

func (p plain) Match(topic string) bool { return string(p) == topic }
func (p plain) Prefix() (string, bool)  { return string(p), true }
