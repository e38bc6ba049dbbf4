package topic

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// re2 is the baseline of docs/adr/0004: the regular expressions that a compiler to RE2 would write for
// the templates below. A value is re2Value; an expression of named variables, each of which may be absent, has one
// alternative for each variable that can come first, because what follows it has another separator.
const re2Value = `(?:[A-Za-z0-9\-._~,]|%[0-9A-Fa-f]{2})`

func queryExpression(names []string) string {
	var alternatives []string
	for i := range names {
		var b strings.Builder
		fmt.Fprintf(&b, `\?%s=%s*`, names[i], re2Value)
		for _, later := range names[i+1:] {
			fmt.Fprintf(&b, `(?:&%s=%s*)?`, later, re2Value)
		}
		alternatives = append(alternatives, b.String())
	}
	return `(?:` + strings.Join(alternatives, "|") + `)?`
}

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("v%d", i)
	}
	return list
}

func baselines() []struct{ name, template, expression, topic string } {
	const host = "https://example.com"
	quoted := regexp.QuoteMeta(host)
	return []struct{ name, template, expression, topic string }{
		{"one variable", host + "/books/{id}", quoted + `/books/` + re2Value + `*`, host + "/books/1234"},
		{"prefix", host + "/{a:50}/{b:50}", quoted + `/` + re2Value + `{0,50}/` + re2Value + `{0,50}`, host + "/abcdefgh/ijklmnop"},
		{"query of 8", host + "/s{?" + strings.Join(names(8), ",") + "}", quoted + "/s" + queryExpression(names(8)), host + "/s?v1=one&v5=five"},
		{"query of 32", host + "/s{?" + strings.Join(names(32), ",") + "}", quoted + "/s" + queryExpression(names(32)), host + "/s?v1=one&v25=five"},
	}
}

// TestBaselineAgrees keeps the comparison honest: both say the same of a match and of a near miss.
func TestBaselineAgrees(t *testing.T) {
	for _, c := range baselines() {
		m, err := Compile(Selector{Kind: Classic, Pattern: c.template}, nil, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		re := regexp.MustCompile(`^` + c.expression + `$`)
		for topic, want := range map[string]bool{c.topic: true, c.topic + "{": false} {
			if m.Match(topic) != want || re.MatchString(topic) != want {
				t.Errorf("%s: %q: ours %v, RE2 %v, want %v", c.name, topic, m.Match(topic), re.MatchString(topic), want)
			}
		}
	}
}

func BenchmarkAgainstRE2(b *testing.B) {
	for _, c := range baselines() {
		s := Selector{Kind: Classic, Pattern: c.template}
		m, err := Compile(s, nil, Limits{})
		if err != nil {
			b.Fatal(err)
		}
		re := regexp.MustCompile(`^` + c.expression + `$`)
		b.Run("match/"+c.name+"/ours", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Match(c.topic)
			}
		})
		b.Run("match/"+c.name+"/re2", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				re.MatchString(c.topic)
			}
		})
		b.Run("compile/"+c.name+"/ours", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Compile(s, nil, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("compile/"+c.name+"/re2", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := regexp.Compile(`^` + c.expression + `$`); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
