package spec

import (
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// ReadSelectors reads what a subscription request selects, in either generation's parameters, which may be mixed
// (SUB-12). Without classic, `topic` is refused (G-22). It returns a *Problem (400) if there is no selector, if
// there are too many, or for a parameter that begins with `match` and is none of draft-08's (SUB-10, G-09).
// Source: SUB-07 … SUB-12, SUB-18.
func ReadSelectors(f Form, l Limits, classic bool) ([]topic.Selector, error) {
	l = l.WithDefaults()
	for i := range f {
		switch name := f[i].Name; {
		case name == FieldTopic && !classic:
			return nil, BadRequest("classic_off", "the parameter %q belongs to the classic generation, which is switched off; use %q", FieldTopic, ParamMatch)
		case matchPrefix(name) && matcherKind(name) == 0:
			return nil, BadRequest("unsupported_matcher", "parameters whose name starts with %q are reserved; supported are %s, %s and %s",
				ParamMatch, ParamMatch, ParamMatchExact, ParamMatchURLPattern)
		}
	}
	selectors, err := Draft08.Selectors(f, l)
	if err != nil {
		return nil, err
	}
	if classic {
		more, err := Classic.Selectors(f, l)
		if err != nil {
			return nil, err
		}
		selectors = append(more, selectors...)
	}
	switch {
	case len(selectors) == 0 && classic:
		return nil, BadRequest("missing_topic", "the parameter %q or %q is missing", FieldTopic, ParamMatch)
	case len(selectors) == 0:
		return nil, BadRequest("missing_topic", "the parameter %q is missing", ParamMatch)
	case len(selectors) > l.Selectors:
		return nil, BadRequest("too_many_selectors", "%d selectors, at most %d are allowed", len(selectors), l.Selectors)
	}
	return selectors, nil
}

// matcherKind returns the kind of selector that draft-08's parameter called name holds, 0 if it is none of them.
func matcherKind(name string) topic.Kind {
	switch name {
	case ParamMatch, ParamMatchExact:
		return topic.Exact
	case ParamMatchURLPattern:
		return topic.URLPattern
	default:
		return 0
	}
}

// matchPrefix reports whether name starts with "match" in any ASCII case.
func matchPrefix(name string) bool {
	if len(name) < len(ParamMatch) {
		return false
	}
	for i := range len(ParamMatch) {
		if name[i]|0x20 != ParamMatch[i] {
			return false
		}
	}
	return true
}

// selectorReader collects selectors without repetition.
type selectorReader struct {
	list  []topic.Selector
	seen  map[topic.Selector]struct{}
	given int
}

// read adds the parameter p. It stops at the first that is too long or not clean text, or at one too many.
func (s *selectorReader) read(p Field, kind topic.Kind, l Limits) error {
	l = l.WithDefaults()
	switch s.given++; {
	case s.given > l.Selectors:
		return BadRequest("too_many_selectors", "more than %d selectors are not allowed", l.Selectors)
	case len(p.Value) > l.SelectorBytes:
		return BadRequest("selector_too_long", "a parameter %q has %d bytes, at most %d are allowed", p.Name, len(p.Value), l.SelectorBytes)
	case !ValidText(p.Value):
		return BadRequest("invalid_selector", "the parameter %q must be valid UTF-8 without control and format characters", p.Name)
	}
	sel := topic.Selector{Kind: kind, Pattern: strings.Clone(p.Value)} // it outlives the request, whose other bytes need not
	if _, dup := s.seen[sel]; dup {
		return nil
	}
	if s.seen == nil {
		s.seen = map[topic.Selector]struct{}{}
	}
	s.seen[sel] = struct{}{}
	s.list = append(s.list, sel)
	return nil
}
