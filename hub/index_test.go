package hub

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// watcher makes a subscriber that is in no hub.
func watcher(t testing.TB, patterns ...string) *subscriber {
	t.Helper()
	selectors := make([]topic.Selector, len(patterns))
	for i, p := range patterns {
		selectors[i] = topic.Selector{Kind: topic.Classic, Pattern: p}
	}
	return watcherOf(t, func(s topic.Selector) (topic.Matcher, error) { return topic.Compile(s, nil, topic.Limits{}) }, selectors...)
}

// testCompiler is what a hub compiles selectors with.
func testCompiler() *topic.Cache {
	return topic.NewCache(0, &url.URL{Scheme: "https", Host: "hub.example", Path: "/.well-known/mercure"}, topic.Limits{})
}

func watcherOf(t testing.TB, compile func(topic.Selector) (topic.Matcher, error), selectors ...topic.Selector) *subscriber {
	t.Helper()
	s := &subscriber{}
	for _, sel := range selectors {
		m, err := compile(sel)
		if err != nil {
			t.Fatalf("%v: %v", sel, err)
		}
		s.selectors, s.matchers = append(s.selectors, sel), append(s.matchers, m)
	}
	return s
}

// naive is what an index has to agree with: everybody is asked about everything.
func naive(subscribers map[*subscriber]struct{}, topics []string) map[*subscriber]struct{} {
	found := map[*subscriber]struct{}{}
	for s := range subscribers {
		for _, m := range s.matchers {
			if slices.ContainsFunc(topics, m.Match) {
				found[s] = struct{}{}
			}
		}
	}
	return found
}

func lookUp(x *index, topics []string) map[*subscriber]struct{} {
	found := map[*subscriber]struct{}{}
	x.match(topics, func(w *watchers) {
		for _, ref := range w.refs {
			found[ref.s] = struct{}{}
		}
	})
	return found
}

// randomPattern makes wildcards, plain strings, templates and broken templates over so small an alphabet
// that they often coincide, and often share the text they begin with.
func randomPattern(rng *rand.Rand) string {
	if rng.IntN(20) == 0 {
		return "*"
	}
	parts := []string{"a", "b", "a", "b", "/", "ab/", "é", "%C3%A9", "{x}", "{x}", "{+x}", "{/x}", "{?x}", "{x:1}", "{"}
	var b strings.Builder
	for range 1 + rng.IntN(5) {
		b.WriteString(parts[rng.IntN(len(parts))])
	}
	return b.String()
}

// randomURLPattern does the same for URL patterns; some are relative, some broken.
func randomURLPattern(rng *rand.Rand) string {
	begin := []string{"https://hub.example", "https://*", "http{s}?://hub.example", "", "", "urn:", ":s://a", "*"}
	parts := []string{"/a", "/b", "/a", "/:x", "/:y", "/*", "{/b}?", "/:z+", "a", "b", "(a|b)", "*", "?x=a", "#:f", "/%C3%A9", "/é", "{"}
	var b strings.Builder
	b.WriteString(begin[rng.IntN(len(begin))])
	for range rng.IntN(4) {
		b.WriteString(parts[rng.IntN(len(parts))])
	}
	return b.String()
}

// randomSelector makes one of any kind that compiles.
func randomSelector(rng *rand.Rand, c *topic.Cache) topic.Selector {
	for {
		sel := topic.Selector{Kind: topic.Classic, Pattern: randomPattern(rng)}
		switch rng.IntN(4) {
		case 0:
			sel.Kind = topic.Exact
		case 1, 2:
			sel = topic.Selector{Kind: topic.URLPattern, Pattern: randomURLPattern(rng)}
		}
		if _, err := c.Compile(sel); err == nil {
			return sel
		}
	}
}

func randomTopic(rng *rand.Rand, patterns []string) string {
	if rng.IntN(4) == 0 && len(patterns) > 0 { // a template selects its own text, too
		if p := patterns[rng.IntN(len(patterns))]; p != "*" {
			return p
		}
	}
	parts := []string{"a", "b", "/", "é", "%C3%A9", "?x=a", "aa", "ba"}
	var b strings.Builder
	if rng.IntN(2) == 0 {
		parts = []string{"/a", "/b", "/a", "/b", "/../", "/é", "/%C3%A9", "?x=a", "a", "b", "#a"}
		begin := []string{"https://hub.example", "HTTPS://HUB.example:443", "http://hub.example", "", "urn:", "https://u@a", "http://[::1"}
		b.WriteString(begin[rng.IntN(len(begin))])
	}
	for range 1 + rng.IntN(5) {
		b.WriteString(parts[rng.IntN(len(parts))])
	}
	return b.String()
}

// Covers: LIM-14, MAT-02, MAT-03, MAT-09, MAT-20, MAT-21, SUB-20, SUB-21, PUB-05.
func TestIndexAgreesWithTheNaiveScan(t *testing.T) {
	const seeds, steps = 25, 120
	matches := map[topic.Kind]int{}
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		compiled := testCompiler()
		x := newIndex()
		in := map[*subscriber]struct{}{}
		var order []*subscriber
		var patterns []string
		for step := range steps {
			if len(order) == 0 || rng.IntN(5) < 3 {
				var mine []topic.Selector
				for range 1 + rng.IntN(4) {
					mine = append(mine, randomSelector(rng, compiled))
					patterns = append(patterns, mine[len(mine)-1].Pattern)
				}
				s := watcherOf(t, compiled.Compile, mine...)
				x.add(s)
				in[s] = struct{}{}
				order = append(order, s)
			} else {
				i := rng.IntN(len(order))
				x.remove(order[i])
				delete(in, order[i])
				order = slices.Delete(order, i, i+1)
			}
			topics := []string{randomTopic(rng, patterns)}
			for rng.IntN(3) == 0 {
				topics = append(topics, randomTopic(rng, patterns))
			}
			want := naive(in, topics)
			if got := lookUp(x, topics); !maps.Equal(got, want) {
				t.Fatalf("seed %d, step %d: %q finds %d subscribers, want %d", seed, step, topics, len(got), len(want))
			}
			x.match(topics, func(w *watchers) {
				if w.selector.Pattern != "*" {
					matches[w.selector.Kind]++
				}
			})
			checkIndex(t, x, order)
		}
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for i, s := range order {
			x.remove(s)
			checkIndex(t, x, order[i+1:])
		}
	}
	for kind, least := range map[topic.Kind]int{topic.Classic: seeds * steps / 4, topic.Exact: seeds, topic.URLPattern: seeds * steps} {
		if matches[kind] < least {
			t.Errorf("only %d matches of kind %d: the topics are too far from the patterns to prove anything", matches[kind], kind)
		}
	}
}

// checkIndex compares the index's inside with the subscribers it should hold.
func checkIndex(t *testing.T, x *index, subscribers []*subscriber) {
	t.Helper()
	distinct := map[topic.Selector]int{}
	for _, s := range subscribers {
		if len(s.slots) != len(s.selectors) {
			t.Fatalf("a subscriber has %d slots for %d selectors", len(s.slots), len(s.selectors))
		}
		for i, slot := range s.slots {
			distinct[s.selectors[i]]++
			if ref := slot.w.refs[slot.pos]; ref.s != s || ref.slot != i || slot.w.selector != s.selectors[i] {
				t.Fatalf("slot %d of %q points to somebody else", i, s.selectors[i].Pattern)
			}
		}
	}
	if len(x.known) != len(distinct) {
		t.Fatalf("%d distinct selectors are known, want %d", len(x.known), len(distinct))
	}
	for sel, n := range distinct {
		if w := x.known[sel]; w == nil || len(w.refs) != n {
			t.Fatalf("%q is not used %d times", sel.Pattern, n)
		}
	}
	inURLs := checkTree(t, &x.byURL.root, true)
	if inURLs != x.urls || (x.resolve != nil) != (inURLs > 0) {
		t.Fatalf("%d URL patterns are in the tree, %d are counted, topics are resolved: %v", inURLs, x.urls, x.resolve != nil)
	}
	linked := checkTree(t, &x.byPrefix.root, true) + inURLs
	linked += len(x.every)
	for topicName, list := range x.exact {
		if len(list) == 0 {
			t.Fatalf("an empty list is kept for %q", topicName)
		}
		linked += len(list)
	}
	if linked != len(distinct) {
		t.Fatalf("%d selectors are linked, want %d", linked, len(distinct))
	}
}

// checkTree requires the tree below n to be as small as possible and returns how many selectors it holds.
func checkTree(t *testing.T, n *prefixNode, root bool) int {
	t.Helper()
	if !root && (n.label == "" || len(n.here) == 0 && len(n.children) < 2) {
		t.Fatalf("node %q holds %d selectors and %d children: it should not be there", n.label, len(n.here), len(n.children))
	}
	held := len(n.here)
	first := map[byte]bool{}
	for _, c := range n.children {
		if c.label != "" && first[c.label[0]] {
			t.Fatalf("two children of %q begin with %q", n.label, c.label[:1])
		}
		held += checkTree(t, c, false)
		first[c.label[0]] = true
	}
	return held
}

// TestIndexWithARepeatedSelector: removing must not confuse the places of one subscriber.
func TestIndexWithARepeatedSelector(t *testing.T) {
	x := newIndex()
	twice, once := watcher(t, "a", "a", "{x}", "a", "{x}"), watcher(t, "a", "{x}")
	x.add(twice)
	x.add(once)
	checkIndex(t, x, []*subscriber{twice, once})
	x.remove(twice)
	checkIndex(t, x, []*subscriber{once})
	if got := lookUp(x, []string{"a"}); len(got) != 1 {
		t.Errorf("%d subscribers are found, want 1", len(got))
	}
	x.remove(once)
	checkIndex(t, x, nil)
}

// TestIndexGivesMemoryBack: after a crowd has left, its selector does not keep room for it.
func TestIndexGivesMemoryBack(t *testing.T) {
	x := newIndex()
	crowd := make([]*subscriber, 10_000)
	for i := range crowd {
		crowd[i] = watcher(t, "a")
		x.add(crowd[i])
	}
	for _, s := range crowd[1:] {
		x.remove(s)
	}
	checkIndex(t, x, crowd[:1])
	if got := cap(x.known[crowd[0].selectors[0]].refs); got > 128 {
		t.Errorf("room for %d subscribers is kept for one", got)
	}
}

// labels draws a tree: each node's label, its number of selectors, its children in order.
func labels(n *prefixNode) string {
	var b strings.Builder
	b.WriteString(n.label)
	b.WriteString(strings.Repeat("!", len(n.here)))
	children := slices.Clone(n.children)
	slices.SortFunc(children, func(a, c *prefixNode) int { return strings.Compare(a.label, c.label) })
	for _, c := range children {
		b.WriteString("(" + labels(c) + ")")
	}
	return b.String()
}

func TestPrefixTreeSplitsAndJoins(t *testing.T) {
	for name, c := range map[string]struct {
		steps []string // "+prefix" or "-prefix"
		want  string
	}{
		"empty":                        {nil, ""},
		"at the root":                  {[]string{"+"}, "!"},
		"one":                          {[]string{"+abc"}, "(abc!)"},
		"the same twice":               {[]string{"+abc", "+abc"}, "(abc!!)"},
		"longer":                       {[]string{"+ab", "+abcd"}, "(ab!(cd!))"},
		"shorter":                      {[]string{"+abcd", "+ab"}, "(ab!(cd!))"},
		"split in the middle":          {[]string{"+abc", "+abd"}, "(ab(c!)(d!))"},
		"split with children":          {[]string{"+abc", "+abcd", "+ax"}, "(a(bc!(d!))(x!))"},
		"nothing in common":            {[]string{"+a", "+b"}, "(a!)(b!)"},
		"bytes, not characters":        {[]string{"+é", "+è"}, "(\xc3(\xa8!)(\xa9!))"},
		"join after a split":           {[]string{"+abc", "+abd", "-abd"}, "(abc!)"},
		"join downwards":               {[]string{"+ab", "+abcd", "-ab"}, "(abcd!)"},
		"no join with two children":    {[]string{"+a", "+ab", "+ac", "-a"}, "(a(b!)(c!))"},
		"no join into the root":        {[]string{"+a", "+", "-"}, "(a!)"},
		"one of two":                   {[]string{"+ab", "+ab", "-ab"}, "(ab!)"},
		"a leaf below another":         {[]string{"+ab", "+abcd", "-abcd"}, "(ab!)"},
		"a leaf, then a mere link":     {[]string{"+abc", "+abd", "+a", "-a", "-abc"}, "(abd!)"},
		"everything":                   {[]string{"+abc", "+abd", "+", "+a", "-abc", "-", "-abd", "-a"}, ""},
		"what is not there":            {[]string{"+abc", "-ab", "-abcd", "-x"}, "(abc!)"},
		"what is not there any longer": {[]string{"+abc", "+abd", "-abc", "-abc"}, "(abd!)"},
	} {
		t.Run(name, func(t *testing.T) {
			var tree prefixTree
			entries := map[string][]*watchers{}
			for _, step := range c.steps {
				prefix := step[1:]
				if step[0] == '+' {
					w := &watchers{selector: topic.Selector{Pattern: prefix}}
					entries[prefix] = append(entries[prefix], w)
					tree.insert(prefix, w)
					continue
				}
				w := &watchers{} // a stranger, unless there is one
				if held := entries[prefix]; len(held) > 0 {
					w, entries[prefix] = held[0], held[1:]
				}
				tree.remove(prefix, w)
			}
			if got := labels(&tree.root); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			for _, probe := range []string{"", "a", "ab", "abc", "abcd", "abd", "ax", "b", "é", "x"} {
				var got, want []string
				tree.walk(probe, func(w *watchers) { got = append(got, w.selector.Pattern) })
				for prefix, held := range entries {
					for range held {
						if strings.HasPrefix(probe, prefix) {
							want = append(want, prefix)
						}
					}
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%q lies below %q, want %q", probe, got, want)
				}
			}
		})
	}
}

// countingMatcher counts what it is asked.
type countingMatcher struct {
	topic.URLMatcher
	resolved, evaluated *int
}

func (m countingMatcher) Resolve(t string) *topic.URL {
	*m.resolved++
	return m.URLMatcher.Resolve(t)
}

func (m countingMatcher) MatchURL(u *topic.URL) bool {
	*m.evaluated++
	return m.URLMatcher.MatchURL(u)
}

// TestEachURLPatternIsEvaluatedOnce: a topic is resolved once, and only those patterns are asked that begin like it,
// once for all who use them.
//
// Covers: MAT-20, MAT-21, LIM-14.
func TestEachURLPatternIsEvaluatedOnce(t *testing.T) {
	var resolved, evaluated int
	x, compiled := newIndex(), testCompiler()
	compile := func(sel topic.Selector) (topic.Matcher, error) {
		m, err := compiled.Compile(sel)
		if u, ok := m.(topic.URLMatcher); ok {
			m = countingMatcher{u, &resolved, &evaluated}
		}
		return m, err
	}
	var crowd []*subscriber
	for i := range 500 {
		for range 2 {
			s := watcherOf(t, compile, topic.Selector{Kind: topic.URLPattern, Pattern: fmt.Sprintf("https://example.com/users/%03d/books/:id", i)})
			crowd = append(crowd, s)
			x.add(s)
		}
	}
	if got := lookUp(x, []string{"https://EXAMPLE.com/users/./123/books/7"}); len(got) != 2 {
		t.Errorf("%d subscribers are found, want 2", len(got))
	}
	if resolved != 1 || evaluated != 1 {
		t.Errorf("%d times resolved and %d times evaluated, want once", resolved, evaluated)
	}
	for _, s := range crowd {
		x.remove(s)
	}
	checkIndex(t, x, nil)
	x.match([]string{"https://example.com/users/123/books/7"}, func(*watchers) {})
	if resolved != 1 {
		t.Error("a topic is resolved although no URL pattern is there")
	}
}
