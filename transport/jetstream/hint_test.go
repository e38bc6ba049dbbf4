package jetstream

import (
	"slices"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// A hint may narrow a scan only when every selector names exactly one topic: a literal that is not ASCII also
// selects its percent-encoded form.
//
// Covers: MAT-01, REC-06.
func TestHintNarrowsOnlyPlainTopics(t *testing.T) {
	for name, c := range map[string]struct {
		patterns []string
		want     []string
	}{
		"plain":                   {[]string{"a", "https://example.com/b"}, []string{"a", "https://example.com/b"}},
		"no hint":                 {nil, nil},
		"wildcard":                {[]string{"a", "*"}, nil},
		"template":                {[]string{"a", "b/{id}"}, nil},
		"literal beyond ASCII":    {[]string{"https://example.com/é"}, nil},
		"a brace but no template": {[]string{"a{b"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var hint []topic.Selector
			for _, p := range c.patterns {
				hint = append(hint, topic.Selector{Kind: topic.Classic, Pattern: p})
			}
			got, plain := plainTopics(hint)
			if plain != (c.want != nil) || plain && !slices.Equal(got, c.want) {
				t.Errorf("got %q, %v; want %q", got, plain, c.want)
			}
		})
	}
}
