package topic

// Counterpart returns the selector of the other generation that selects the same topics and is spelled the same: of the
// wildcard, and of a plain string, which a classic selector is if it is no template. ok is false if there is none.
// Source: REQUIREMENTS G-15.
func Counterpart(s Selector) (other Selector, ok bool) {
	other = Selector{Kind: Classic, Pattern: s.Pattern}
	if s.Kind == Classic {
		other.Kind = Exact
	}
	if s.Pattern == wildcard {
		return other, true
	}
	if s.Kind == URLPattern {
		return Selector{}, false
	}
	m, err := compileClassic(s.Pattern, nil, Limits{Variables: DefaultVariables})
	if err != nil { // a template, with many variables
		return Selector{}, false
	}
	if _, plain := m.Prefix(); !plain {
		return Selector{}, false
	}
	return other, true
}
