package topic

// exact selects one topic, byte for byte: no base, no normalization (MAT-07).
type exact string

func compileExact(pattern string, _ *resolver, _ Limits) (Matcher, error) {
	if pattern == wildcard {
		return everything{}, nil
	}
	return exact(pattern), nil
}

// Match implements Matcher.
func (e exact) Match(topic string) bool { return topic == string(e) }

// Prefix implements Matcher.
func (e exact) Prefix() (string, bool) { return string(e), true }
