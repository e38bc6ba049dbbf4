package topic

import (
	"strings"
	"testing"
)

// Covers: G-15.
func TestCounterpart(t *testing.T) {
	many := strings.Repeat("{x}", 40)
	for _, c := range []struct {
		from, want Selector // want zero = there is none
	}{
		{Selector{Classic, "*"}, Selector{Exact, "*"}},
		{Selector{Exact, "*"}, Selector{Classic, "*"}},
		{Selector{URLPattern, "*"}, Selector{Classic, "*"}},
		{Selector{Classic, "https://example.com/a?b#c"}, Selector{Exact, "https://example.com/a?b#c"}},
		{Selector{Exact, "https://example.com/a"}, Selector{Classic, "https://example.com/a"}},
		{Selector{Classic, ""}, Selector{Exact, ""}},
		{Selector{Classic, "not a {template"}, Selector{Exact, "not a {template"}},
		{Selector{Exact, "not a {template"}, Selector{Classic, "not a {template"}},
		{Selector{Classic, "/books/{id}"}, Selector{}},
		{Selector{Exact, "/books/{id}"}, Selector{}}, // a template, to classic clients
		{Selector{Exact, many}, Selector{}},
		{Selector{Classic, many}, Selector{}},
		{Selector{URLPattern, "https://example.com/a"}, Selector{}}, // selects other spellings, too
		{Selector{URLPattern, "/books/:id"}, Selector{}},
	} {
		got, ok := Counterpart(c.from)
		if got != c.want || ok != (c.want != Selector{}) {
			t.Errorf("%v: %v, %v, want %v", c.from, got, ok, c.want)
		}
		if !ok || c.from.Kind == URLPattern {
			continue
		}
		a, err := Compile(c.from, nil, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := Compile(got, nil, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, topic := range []string{"", "a", c.from.Pattern, c.from.Pattern + "x", "/books/1"} {
			if a.Match(topic) != b.Match(topic) {
				t.Errorf("%v and %v do not agree on %q", c.from, got, topic)
			}
		}
	}
}
