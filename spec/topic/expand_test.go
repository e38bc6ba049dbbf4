package topic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// assigned is the value of a variable: undefined when kind is 0.
type assigned struct {
	kind byte     // 's'tring, 'l'ist, associative 'a'rray
	list []string // one string; items; keys and values in turn
}

// expand is RFC 6570 §3.2 in the direction of the RFC, independent of the matcher. Names of pairs are
// encoded like values; see pairs in span.go.
func expand(t template, values map[string]assigned) string {
	var b strings.Builder
	for _, p := range t.parts {
		for i := range len(p.literal) {
			if c := p.literal[i]; c < utf8.RuneSelf {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		sep := p.op.first
		for _, v := range p.vars {
			if text, ok := expandVariable(p.op, v, values[v.name]); ok {
				b.WriteString(sep + text)
				sep = p.op.sep
			}
		}
	}
	return b.String()
}

func expandVariable(op operator, v variable, a assigned) (string, bool) {
	if a.kind == 0 || len(a.list) == 0 {
		return "", false
	}
	items := slices.Clone(a.list)
	if v.prefix > 0 {
		items[0] = firstCharacters(items[0], v.prefix, op.reserved)
	}
	for i := range items {
		items[i] = encodeValue(items[i], op.reserved)
	}
	named := func(name, value string) string {
		switch {
		case !op.named:
			return value
		case value == "" && op.bareEmpty:
			return name
		default:
			return name + "=" + value
		}
	}
	switch {
	case !v.explode || a.kind == 's':
		return named(v.name, strings.Join(items, ",")), true
	case a.kind == 'l':
		for i := range items {
			items[i] = named(v.name, items[i])
		}
		return strings.Join(items, op.sep), true
	}
	var pairs []string
	for i := 0; i < len(items); i += 2 {
		if pair := items[i] + "=" + items[i+1]; op.named {
			pairs = append(pairs, named(items[i], items[i+1]))
		} else {
			pairs = append(pairs, pair)
		}
	}
	return strings.Join(pairs, op.sep), true
}

// firstCharacters cuts s after n characters; a triplet counts as one where it is not encoded again.
func firstCharacters(s string, n int, reserved bool) string {
	i := 0
	for ; n > 0 && i < len(s); n-- {
		if reserved && triplet(s[i:]) {
			i += 3
		} else {
			_, size := utf8.DecodeRuneInString(s[i:])
			i += size
		}
	}
	return s[:i]
}

func encodeValue(s string, reserved bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case isAlnum(c) || strings.IndexByte("-._~", c) >= 0,
			reserved && strings.IndexByte(":/?#[]@!$&'()*+,;=", c) >= 0:
			b.WriteByte(c)
		case reserved && triplet(s[i:]):
			b.WriteString(s[i : i+3])
			i += 2
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// FuzzExpansionsMatch gives the variables of any template random values; the expansion must match.
func FuzzExpansionsMatch(f *testing.F) {
	for i, s := range []string{
		"https://example.com/{a}/x{?b,c*}", "{+a}{#b:3}{.c*}{/c*}", "é{;a,b}{&a,b*}{a}", "{a,a}{a}{/a,b:2}{b:2}",
		"{?x*}{/x*}{x*}", "{.x*}{+x*}", "{%41.b}{;%41.b*}'", "{a}{b}{a}{b}",
	} {
		f.Add(s, uint64(i))
	}
	f.Fuzz(func(t *testing.T, pattern string, seed uint64) {
		parsed, ok := parseTemplate(pattern)
		m, err := Compile(Selector{Classic, pattern}, nil, Limits{})
		if !ok || err != nil || pattern == wildcard {
			return
		}
		r := rand.New(rand.NewPCG(seed, 1))
		values := map[string]assigned{}
		for _, p := range parsed.parts {
			for _, v := range p.vars {
				old, known := values[v.name]
				switch {
				case !known:
					values[v.name] = randomValue(r, v.prefix > 0)
				case v.prefix > 0 && old.kind > 's' || v.prefix > 0 && old.kind != 's' && old.kind != 0:
					values[v.name] = randomValue(r, true)
				}
			}
		}
		topic := expand(parsed, values)
		if !m.Match(topic) && !gaveUp(m, topic) {
			t.Fatalf("%q does not match %q, its expansion with %v", pattern, topic, values)
		}
		if prefix, exact := m.Prefix(); !strings.HasPrefix(topic, prefix) || exact && topic != prefix {
			t.Fatalf("%q expands to %q but claims prefix %q, exact %v", pattern, topic, prefix, exact)
		}
	})
}

// gaveUp reports whether m did not finish its search for tied variables, which counts as no match (MAT-12).
func gaveUp(m Matcher, topic string) bool {
	tm, ok := m.(*templateMatcher)
	if !ok || tm.slots == 0 {
		return false
	}
	s := tm.newSearch(topic[len(tm.prefix):len(topic)-len(tm.suffix)], nil)
	if !s.linear() {
		return false
	}
	return !s.tied(tm.slots) && s.work > maxWork
}

func randomValue(r *rand.Rand, text bool) assigned {
	word := func() string {
		parts := []string{"a", "bc", "/", ",", "=", ".", "é", "☕", " ", "%2F", "%", "&", ";", "1"}
		var s string
		for range r.IntN(4) {
			s += parts[r.IntN(len(parts))]
		}
		return s
	}
	switch n := r.IntN(4); {
	case n == 0:
		return assigned{}
	case n == 1 || text:
		return assigned{'s', []string{word()}}
	case n == 2:
		return assigned{'l', []string{word(), word()}[:1+r.IntN(2)]}
	default:
		return assigned{'a', []string{"k" + word(), word(), "l" + word(), word()}[:2*(1+r.IntN(2))]}
	}
}

// TestMatchIsExactInASmallWorld compares the matcher, for every topic of up to five characters of a small
// alphabet, with the set of all expansions.
func TestMatchIsExactInASmallWorld(t *testing.T) {
	tests := []struct {
		template, alphabet string // of the topics, "F" stands for %2F
		length             int
	}{
		{"{x}", "aF/,=", 5},
		{"{x:2}", "aF/,=", 5},
		{"{+x:2}", "aF/,=", 5},
		{"{+x}a", "aF/,=", 5},
		{"{#x}", "aF/,=#", 5},
		{"{x*}", "aF/,=", 5},
		{"{/x*}", "aF/,=", 5},
		{"{.x*}", "aF.,=", 5},
		{"{/x,y}", "aF/,", 5},
		{"{.x}{y}", "a.F,", 5},
		{"{;x}", ";x=a,F", 5},
		{"{?x}", "?x=a,F", 5},
		{"{?x:1}", "?x=aF", 5},
		{"{;x:1}", ";x=aF", 5},
		{"{?x*}", "?x=a&", 5},
		{"{;x*}", ";x=", 4},
		{"{x}a{y}", "a,/F", 5},
		{"{x}{x}", "a,/F", 4},
		{"{x}/{x}", "a,/F", 5},
		{"{x,x}", "a,/F", 5},
		{"{/x}{x}", "a,/F", 4},
		{"{x}{;x}", ";x=a", 6},
		{"{;x}{x}", ";x=a", 6},
		{"{x}{+x}", "a/F", 4},
		{"{+x}{x}", "a/F", 4},
		{"{x:1}{x:1}{y:2}{y:2}", "aF", 4},
		{"{/x*}{.x*}", "a/.", 6},
		{"{x*}{/x*}", "a/,=", 5},
		{"{x}{y}{x}", "ab", 5},
		{"{x}{x}{y}{y}", "ab,", 5},
		{"{?x,y}", "?xy=&", 5},
		{"{?x}{&x}", "?x=&", 6},
		{"{;x,x}", ";x=a", 6},
	}
	for _, tt := range tests {
		t.Run(tt.template, func(t *testing.T) {
			parsed, ok := parseTemplate(tt.template)
			if !ok {
				t.Fatal("not a template")
			}
			m := compileTest(t, tt.template)
			want := expansionsWithin(parsed, tt.length, tt.alphabet)
			yes := 0
			for _, topic := range wordsOver(tt.alphabet, tt.length) {
				topic = strings.ReplaceAll(topic, "F", "%2F")
				if got := m.Match(topic); got != want[topic] {
					t.Errorf("%q: match %v, expansion %v", topic, got, want[topic])
				} else if got {
					yes++
				}
			}
			if yes < 2 {
				t.Errorf("only %d topics match: the world is too small", yes)
			}
		})
	}
}

// wordsOver returns every string of up to n characters of an alphabet.
func wordsOver(alphabet string, n int) []string {
	all := []string{""}
	for from := 0; n > 0; n-- {
		end := len(all)
		for _, s := range all[from:end] {
			for _, c := range alphabet {
				all = append(all, s+string(c))
			}
		}
		from = end
	}
	return all
}

// expansionsWithin returns every expansion with at most n characters, triplets counting as one, over
// values made of what the alphabet can show.
func expansionsWithin(t template, n int, alphabet string) map[string]bool {
	chars := alphabet
	if strings.Contains(alphabet, "F") && !strings.Contains(alphabet, "/") {
		chars += "/"
	}
	words := wordsOver(chars, n)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "F", "%2F")
	}
	type choice struct {
		assigned
		shown int // of the value alone: an expansion is at least as long as its values together
	}
	var names []string
	domains := map[string][]choice{}
	for _, p := range t.parts {
		for _, v := range p.vars {
			if domains[v.name] != nil {
				continue
			}
			names = append(names, v.name)
			for _, a := range valuesOf(words, n, v.prefix > 0, v.explode && p.op.bareEmpty) {
				text, _ := expandVariable(p.op, v, a)
				domains[v.name] = append(domains[v.name], choice{a, shown(text)})
			}
			slices.SortFunc(domains[v.name], func(a, b choice) int { return a.shown - b.shown })
		}
	}
	expansions, values := map[string]bool{}, map[string]assigned{}
	var assign func(i, left int)
	assign = func(i, left int) {
		if i == len(names) {
			if s := expand(t, values); shown(s) <= n {
				expansions[s] = true
			}
			return
		}
		for _, c := range domains[names[i]] {
			if c.shown > left {
				return
			}
			values[names[i]] = c.assigned
			assign(i+1, left-c.shown)
		}
	}
	assign(0, n)
	return expansions
}

// shown is the length of s with triplets counting as one.
func shown(s string) int { return len(s) - 2*strings.Count(s, "%") }

func valuesOf(words []string, n int, text, bare bool) []assigned {
	all := []assigned{{}}
	for _, w := range words {
		all = append(all, assigned{'s', []string{w}})
	}
	if text {
		return all
	}
	var lists func(list []string, left int)
	lists = func(list []string, left int) {
		if len(list) > 1 || len(list) == 1 && list[0] != "" {
			all = append(all, assigned{'l', slices.Clone(list)})
			named := len(list)%2 == 0
			for i := 0; i < len(list); i += 2 {
				named = named && list[i] != ""
			}
			if named {
				all = append(all, assigned{'a', slices.Clone(list)})
			}
		}
		for _, w := range words {
			if shown(w) > left {
				break
			}
			lists(append(list, w), left-shown(w)-1)
		}
	}
	if bare { // the equals sign before an empty value is not shown
		n = 2*n - 1
	}
	lists(nil, n)
	return all
}
