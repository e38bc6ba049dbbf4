package topic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
)

func compileURL(tb testing.TB, pattern string, l Limits) (Matcher, error) {
	tb.Helper()
	return Compile(Selector{Kind: URLPattern, Pattern: pattern}, parseBase(tb, testHub), l)
}

// Covers: MAT-13, LIM-06, LIM-07, SEC-07, X-03.
func TestURLPatternsKeepToTheirLimits(t *testing.T) {
	names := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "/:v%d", i)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		pattern string
		limits  Limits
		over    bool
	}{
		"32 named groups":                      {names(32), Limits{}, false},
		"33 named groups":                      {names(33), Limits{}, true},
		"33 where 40 are allowed":              {names(33), Limits{Variables: 40}, false},
		"3 where 2 are allowed":                {"/:a/:b/*", Limits{Variables: 2}, true},
		"33 wildcards":                         {"/" + strings.Repeat("*a", 33), Limits{}, true},
		"33 wildcards with modifiers":          {"/" + strings.Repeat("**a", 33), Limits{}, true},
		"33 expressions":                       {"/" + strings.Repeat("(a)b", 33), Limits{}, true},
		"32 names with expressions":            {strings.ReplaceAll(names(32), "/", "(a)/")[3:] + "(b)?", Limits{}, false},
		"33 optional texts":                    {"/" + strings.Repeat("{a}?", 33), Limits{}, true},
		"33 repeated texts":                    {"/" + strings.Repeat("{a}*", 33), Limits{}, true},
		"33 braces that do nothing":            {"/" + strings.Repeat("{a}", 33), Limits{}, false},
		"33 of other alphabets":                {"/" + strings.Repeat("/:é", 33), Limits{}, true},
		"33 escaped ones":                      {"/" + strings.Repeat(`\(\*\{`, 33), Limits{}, false},
		"33 over the components":               {"https://" + strings.Repeat("*.", 20) + "example/" + strings.Repeat("*a", 13), Limits{}, true},
		"an expression of just the size":       {"/(a{256})", Limits{}, false},
		"an expression of more":                {"/(a{257})", Limits{}, true},
		"expressions of more together":         {"/:a(a{100})/:b(a{100})/:c(a{100})", Limits{}, true},
		"a nested expression of more":          {"/((?:a{10}){30})", Limits{}, true},
		"long text before an expression":       {"/" + strings.Repeat("a", 1000) + "(b)", Limits{}, false},
		"long text after one":                  {"/(b)" + strings.Repeat("a", 1000), Limits{}, true},
		"long text between a wildcard and one": {"/*" + strings.Repeat("a", 1000) + ":x(b)", Limits{}, true},
		"long text beside a wildcard":          {"/*" + strings.Repeat("a", 1000) + ":x", Limits{}, false},
		"16 categories":                        {`/([` + strings.Repeat(`\p{Lu}`, 15) + "])", Limits{}, false},
		"a class of many categories":           {`/([` + strings.Repeat(`a-z\P{Lu}`, 17) + "])", Limits{}, true},
		"many categories together":             {"/" + strings.Repeat(`:a(\p{L})b`, 17), Limits{}, true},
		"a host of 256 foreign characters":     {"https://" + strings.Repeat("é", 256) + "/é", Limits{}, false},
		"a host of 257 foreign characters":     {"https://*." + strings.Repeat("é", 257) + "/", Limits{}, true},
		"a host of 257 encoded bytes":          {"https://:a" + strings.Repeat("%61", 257) + "/", Limits{}, true},
		"a path of many foreign characters":    {"https://h" + strings.Repeat("/"+strings.Repeat("é", 200), 8), Limits{}, false},
		"4,096 bytes":                          {"/" + strings.Repeat("a", 4095), Limits{}, false},
		"4,097 bytes":                          {"/" + strings.Repeat("a", 4096), Limits{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := compileURL(t, c.pattern, c.limits)
			if errors.Is(err, ErrLimit) != c.over || (m == nil) != c.over {
				t.Errorf("%v, %v", m, err)
			}
		})
	}
}

// Covers: MAT-15, SUB-17.
func TestExpressionsThatBrowsersReadOtherwiseAreRefused(t *testing.T) {
	for _, e := range []string{
		"[[a]]", "[a[b]]", "[a&&b]", "[a--b]", "[[:alpha:]]", "[a!!]", "[a~~b]", "[^]", "[]", "[]a]", "[^]a]", "[a", `[\b]`,
		"(?=a)a", "(?!a)b", "(?<=a)b", "(?<!a)b", "(?i)a", "(?i:a)", "(?s-m:a)", "(?P<n>a)", "(?#a)", "(?a)",
		`\1`, `\12`, `\0`, `\k<n>`, `\Aa`, `a\z`, `\Qa\E`, `\C`, `\a`, `\cA`, `\pL`, `\p{Greek}`, `\P{Script=Greek}`, `\x{41}`, `\xZZ`, `\u0041`, `\m`,
		"a{", "a{,3}", "a{x}", "a{}", "{", "}", "]", "a{1001}", "a**", "*", "+a", "[z-a]", "a|*",
	} {
		for _, pattern := range []string{"/:x(" + e + ")", "/(" + e + ")", "https://(" + e + ").example/", "/{a(" + e + ")b}?"} {
			if m, err := compileURL(t, pattern, Limits{}); !errors.Is(err, ErrInvalid) {
				t.Errorf("%q: %v, %v", pattern, m, err)
			}
		}
	}
	for _, c := range []struct{ expression, yes, no string }{
		{`\d+`, "12", "a"},
		{`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "bb3de268-05b0-4c65-b44e-8f9acefc29d6", "bb3de268"},
		{`a|b`, "b", "c"},
		{`(?<n>a)b`, "ab", "a"},
		{`[^a-c]{2,3}`, "xyz", "abc"},
		{`a{2,}`, "aaa", "a"},
		{`[\w-]+`, "a-b", "a.b"},
		{`[\d&]+`, "1&2", "1|2"},
		{`\p{Lu}\P{L}`, "A1", "a1"},
		{`\x41`, "A", "B"},
		{`a$`, "a", "b"},
		{`\ba\B.`, "ab", "a-"},
		{`.+?\.js`, "a.js", "a.css"},
		{`\$\{`, "$%7B", "x"}, // never: a brace is encoded in a path
	} {
		m, err := compileURL(t, "/x/:v("+c.expression+")", Limits{})
		if err != nil {
			t.Errorf("%q: %v", c.expression, err)
			continue
		}
		if got := m.Match("/x/" + c.yes); got != (c.yes != "$%7B") {
			t.Errorf("%q matches %q: %v", c.expression, c.yes, got)
		}
		if m.Match("/x/" + c.no) {
			t.Errorf("%q matches %q", c.expression, c.no)
		}
	}
}

// Covers: MAT-08, MAT-09, MAT-10, MAT-11.
func TestURLPatternsBesideTheVectors(t *testing.T) {
	for _, c := range []struct {
		pattern, topic string
		want           bool
	}{
		{"/:_id", "/1", true}, // names as JavaScript has them
		{"/:$a/:_/:_$é9", "/1/2/3", true},
		{"/a:b/c", "/ax/c", true},
		{"/:a{b}", "/xb", true},
		{"/:a{b}", "/xc", false},
		{"/{a:x}?b", "/b", true},
		{"/{a:x}?b", "/axb", true},
		{"/{a:x}?b", "/ab", false},
		{"/{a:x/}+b", "/a1/a2/a3/b", true},
		{"/{a:x/}+b", "/b", false},
		{"/{a:x/}*b", "/b", true},
		{"/{ab}+", "/ababab", true},
		{"/{ab}+", "/ababa", false},
		{"/{ab}*c", "/c", true},
		{"/x:y*", "/x", true},
		{"/x:y+", "/x", false},
		{"/x/:y*", "/x", true},
		{"/x/:y*", "/x/1/2", true},
		{"/x/:y*", "/x//", false},
		{"/**", "/a/b", true},
		{"/**", "/", true},
		{"/*/:x/*", "/a/b/c/d", true},
		{"/*a*b*c", "/xaxbxc", true},
		{"/*a*b*c", "/xaxcxb", false},
		{"/:a-:b", "/1-2-3", true},
		{"/:a.:b", "/.b", false},
		{"https://:sub.example.com/", "https://a.example.com", true},
		{"https://:sub.example.com/", "https://a.b.example.com", false},
		{"?q=:q", "/.well-known/mercure?q=1", true}, // the hub's own path
		{"#:f", testHub + "#x", true},
		{"", testHub, false}, // an empty path, below that of the hub
		{"", "/.well-known/", true},
		{"https://example.com", "https://example.com/any", true},
		{"https://example.com/", "https://example.com/any", false},
		{"https://[\\:\\:1]/:x", "https://[0::1]/a", true},
		{"https://127.0.0.1/:x", "https://0x7f.1/a", true},
		{"https://u@example.com/", "https://u@example.com/", true},
		{"https://u@example.com/", "https://v@example.com/", false},
		{"HTTPS://EXAMPLE.com:443/%7Ea/./b/../c/:x", "https://example.com/%7Ea/c/1", true},
		{"/a b", "/a%20b", true},
		{`/\*`, "/*", true},
		{`/\*`, "/a", false},
		{"/:x", strings.Repeat("@", maxAts), true},
		{"/*", "/" + strings.Repeat("@", maxAts), true},
		{"/*", "/" + strings.Repeat("@", maxAts+1), false}, // not parsed
		{"/*", "https://" + strings.Repeat("@", 2000) + "hub.example.com/", false},
		{"https://*/x", "https://" + strings.Repeat("é", maxForeign) + "/x", true},
		{"https://*/x", "https://" + strings.Repeat("é", maxForeign+1) + "/x", false}, // not parsed
		{"http://*/x", " HTTP:" + strings.Repeat("%C3%A9", maxForeign/2+1) + "?y/x", false},
		{"https://*/*", "https://h/" + strings.Repeat("é", 600), true},
		{"/*", "/" + strings.Repeat("é/", 600), true},
	} {
		m, err := compileURL(t, c.pattern, Limits{})
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		if c.pattern == "/:x" {
			m, err = compileURL(t, "/.well-known/:x", Limits{})
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := m.Match(c.topic); got != c.want {
			t.Errorf("%q matches %.40q: %v", c.pattern, c.topic, got)
		}
		checkURLPattern(t, c.pattern, c.topic)
	}
}

// Covers: MAT-16, MAT-17.
func TestTheWildcardIsNoPattern(t *testing.T) {
	for _, kind := range []Kind{Classic, Exact, URLPattern} {
		m, err := Compile(Selector{Kind: kind, Pattern: "*"}, nil, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, topic := range []string{"https://other.example/a", "urn:x", "http://[", "*", ""} {
			if !m.Match(topic) {
				t.Errorf("kind %d does not match %q", kind, topic)
			}
		}
	}
}

// Covers: MAT-07.
func TestExactComparesBytes(t *testing.T) {
	m, err := Compile(Selector{Kind: Exact, Pattern: "https://example.com/\u00e9"}, parseBase(t, testHub), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]bool{
		"https://example.com/\u00e9":  true,
		"https://example.com/e\u0301": false, // the same, decomposed
		"https://example.com/%C3%A9":  false,
		"HTTPS://example.com/\u00e9":  false,
	} {
		if m.Match(topic) != want {
			t.Errorf("%q: %v", topic, !want)
		}
	}
	if m, err = Compile(Selector{Kind: Exact, Pattern: "/{id}"}, nil, Limits{}); err != nil || m.Match("/1") || !m.Match("/{id}") {
		t.Errorf("a template: %v", err)
	}
}

// Covers: MAT-09, MAT-11.
func TestURLPatternsWithoutABase(t *testing.T) {
	for _, c := range []struct {
		pattern, topic string
		want           bool
	}{
		{"/books/:id", "/books/1", false},
		{"/books/:id", "http://localhost/books/1", false},
		{"https://example.com/books/:id", "https://example.com/books/1", true},
		{"https://*/*", "/books/1", false},
	} {
		m, err := Compile(Selector{Kind: URLPattern, Pattern: c.pattern}, nil, Limits{})
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
		} else if got := m.Match(c.topic); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.topic, got)
		}
	}
	if _, err := Compile(Selector{Kind: URLPattern, Pattern: "/books/:"}, nil, Limits{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a broken relative pattern: %v", err)
	}
}

// TestCachesOfTwoBasesShareNothing: one pattern and one topic, two hubs.
//
// Covers: MAT-20, SEC-11.
func TestCachesOfTwoBasesShareNothing(t *testing.T) {
	a, b := NewCache(0, parseBase(t, "https://a.example/hub"), Limits{}), NewCache(0, parseBase(t, "https://b.example/hub"), Limits{})
	for range 2 { // the second time from the caches
		for c, hub := range map[*Cache]string{a: "a", b: "b"} {
			for kind, want := range map[Kind]bool{URLPattern: true, Exact: false, Classic: false} {
				m, err := c.Compile(Selector{kind, "/x/:id"})
				if err != nil {
					t.Fatal(err)
				}
				if m.Match("/x/1") != want || m.Match("https://"+hub+".example/x/1") != want {
					t.Errorf("%s, kind %d: want %v", hub, kind, want)
				}
				if m.Match("https://c.example/x/1") || hub == "a" && m.Match("https://b.example/x/1") {
					t.Errorf("%s, kind %d: matches a foreign topic", hub, kind)
				}
			}
		}
	}
}

// TestResolvedTopicsAreSharedAndFew: matchers of one cache parse a topic once; what is kept is bounded.
//
// Covers: MAT-20.
func TestResolvedTopicsAreSharedAndFew(t *testing.T) {
	c := NewCache(0, parseBase(t, testHub), Limits{})
	var matchers []URLMatcher
	for _, pattern := range []string{"/:id", "https://example.com/*"} {
		m, err := c.Compile(Selector{URLPattern, pattern})
		if err != nil {
			t.Fatal(err)
		}
		matchers = append(matchers, m.(URLMatcher))
	}
	if u := matchers[0].Resolve("/1"); u == nil || u != matchers[1].Resolve("/1") {
		t.Error("parsed twice")
	}
	if u := matchers[0].Resolve("http://[::1"); u != nil || matchers[0].MatchURL(u) {
		t.Error("what cannot be parsed is a URL")
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				id := fmt.Sprint((i*7 + w) % 500)
				if u := matchers[0].Resolve("/" + id); u.parts[urlPath] != "/"+id || !matchers[0].MatchURL(u) {
					t.Errorf("%s became %v", id, u)
				}
			}
		})
	}
	wg.Wait()
}

// TestWorkOfURLPatternsIsBounded counts rounds instead of measuring time. Regular expressions are left to RE2,
// whose work is bounded by their size, and that by the guard.
//
// Covers: MAT-12, SEC-07, X-03.
func TestWorkOfURLPatternsIsBounded(t *testing.T) {
	for _, pattern := range []string{
		"/" + strings.Repeat("*a", 32), "/" + strings.Repeat("{a}*", 32), "/" + strings.Repeat("{a*}+", 32),
		"/{a:x}*{a:y}*{a:z}+!", "/{/:a}+{/:b}*{/:c}+", "/*" + strings.Repeat("a", 1000) + "*b",
	} {
		m, err := compileURL(t, pattern, Limits{})
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		c := &m.(*urlPattern).components[urlPath]
		for _, unit := range []string{"a", "a/", "/a", "ab"} {
			text := strings.Repeat(unit, 2048/len(unit)) + "!"
			if _, rounds := c.search(text); rounds > len(c.parts)*(len(text)+2) {
				t.Errorf("%.20q on %q…: %d rounds", pattern, unit, rounds)
			}
			if allocs := testing.AllocsPerRun(1, func() { c.match(text) }); allocs > 1 {
				t.Errorf("%.20q on %q…: %v allocations", pattern, unit, allocs)
			}
		}
	}
}

// TestExpressionsGiveUpOnLongTopics: an engine is not asked what would take it milliseconds.
//
// Covers: MAT-12, LIM-14, SEC-07, X-03.
func TestExpressionsGiveUpOnLongTopics(t *testing.T) {
	const uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
	one := "bb3de268-05b0-4c65-b44e-8f9acefc29d6"
	for _, c := range []struct {
		pattern, topic string
		want           bool
	}{
		{"/:a(" + uuid + ")", "/" + one, true},
		{"/:a(" + uuid + ")/:b(" + uuid + ")/:c(" + uuid + ")/:d(" + uuid + ")/*", strings.Repeat("/"+one, 4) + "/a-file-of-usual-length.json", true},
		{"/:a(" + uuid + ")/*", "/" + one + "/" + strings.Repeat("a", 700), true},
		{"/" + strings.Repeat("a", 1000) + "/:a(" + uuid + ")/*", "/" + strings.Repeat("a", 1000) + "/" + one + "/x", true}, // the beginning is for nothing
		{"/(.*[ab].{220}c)*", "/" + strings.Repeat("a", 130) + "b" + strings.Repeat("d", 220) + "c", false},                 // it would match, at a price
		{"/(.*[ab].{20}c)*", "/" + strings.Repeat("a", 130) + "b" + strings.Repeat("d", 20) + "c", true},
	} {
		m, err := compileURL(t, c.pattern, Limits{})
		if err != nil {
			t.Fatalf("%q: %v", c.pattern, err)
		}
		if got := m.Match(c.topic); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.topic, got)
		}
		p := &m.(*urlPattern).components[urlPath]
		size := p.size - len(p.head)
		if p.expression == nil || size < 2 || size > 2*maxURLRegexp {
			t.Errorf("%q: %d instructions", c.pattern, size)
		}
		if p.match(p.head + strings.Repeat("a", maxURLWork/size+1) + p.tail) {
			t.Errorf("%q: the engine was asked", c.pattern)
		}
	}
}

// TestSearchesGiveUp: what would take one subscriber's 100 patterns and one publisher's 100 topics many seconds is no match.
//
// Covers: MAT-12, LIM-14, SEC-07, X-03.
func TestSearchesGiveUp(t *testing.T) {
	a := strings.Repeat("a", 2000)
	for _, c := range []struct {
		pattern, topic string
		want           bool
	}{
		{"/" + strings.Repeat("{a}*", 31) + "!*", "/" + a[:50] + "!b", true},
		{"/" + strings.Repeat("{a}*", 31) + "!*", "/" + a + "!b", false},
		{"/" + strings.Repeat("*a", 31) + "*", "/" + a[:100], true},
		{"/" + strings.Repeat("*a", 31) + "*", "/" + a, false},
		{"/:a+/:b+/:c+/:d+/:e+/:f+!*", strings.Repeat("/a", 20) + "!", true},
		{"/:a+/:b+/:c+/:d+/:e+/:f+!*", strings.Repeat("/a", 1000) + "!", false},
		{"/*/b/*/c/:d/*", "/" + a[:900] + "/b/" + a[:900] + "/c/d/" + strings.Repeat("x/", 100), true}, // long, but of a usual kind
		{"/*a*b*c*d*", "/" + strings.Repeat("abcd", 250), true},
	} {
		m, err := compileURL(t, c.pattern, Limits{})
		if err != nil {
			t.Fatalf("%q: %v", c.pattern, err)
		}
		if got := m.Match(c.topic); got != c.want {
			t.Errorf("%q matches %.10q…, %d bytes: %v", c.pattern, c.topic, len(c.topic), got)
		}
	}
}

// checkURLPattern checks the rules that hold for every pattern and topic, and compares with the library's own
// matching.
func checkURLPattern(t *testing.T, pattern, topic string) (matched bool) {
	t.Helper()
	base := parseBase(t, testHub)
	m, err := Compile(Selector{URLPattern, pattern}, base, Limits{})
	if err != nil {
		if !errors.Is(err, ErrLimit) && !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
		return false
	}
	matched = m.Match(topic)
	if prefix, exact := m.Prefix(); matched && !strings.HasPrefix(topic, prefix) || exact {
		t.Fatalf("%q matches %q, but claims prefix %q, exact %v", pattern, topic, prefix, exact)
	}
	p, ok := m.(*urlPattern)
	if !ok {
		return matched
	}
	u := p.Resolve(topic)
	if p.MatchURL(u) != matched || matched && !strings.HasPrefix(u.Key(), p.URLPrefix()) {
		t.Fatalf("%q matches %q: %v, but the key %q, with prefix %q", pattern, topic, matched, u.Key(), p.URLPrefix())
	}
	if u == nil {
		return matched
	}
	if n := strings.Count(u.Key(), KeySeparator); n != urlKeyed-1 {
		t.Fatalf("%q has the key %q", topic, u.Key())
	}
	if without, whole := *p, *u; true { // the comparison of prefixes must not decide
		without.prefix, whole.key = "", ""
		if without.MatchURL(&whole) != matched {
			t.Fatalf("%q on %q: the prefix %q decides", pattern, topic, p.prefix)
		}
	}
	if want, ok := libraryMatch(pattern, topic, base); ok && want != matched {
		t.Fatalf("%q matches %q: %v, the library says %v", pattern, topic, matched, want)
	}
	return matched
}

func libraryMatch(pattern, topic string, base *url.URL) (matched, ok bool) {
	guarded, err := guardURLPattern(pattern, DefaultVariables)
	if err != nil {
		return false, false
	}
	p, err := parseURLPattern(guarded, "")
	if err != nil {
		if p, err = parseURLPattern(guarded, base.String()); err != nil {
			return false, false
		}
	}
	return p.Test(topic, base.String()), true
}

var urlPieces = []string{
	"https:", "//", "https://example.com", "https://*", "http{s}?://", "urn:", "foo://h", "file:///", "data\\:", "/", "/", "a", "b", "a", "/a", "/b",
	":x", ":y", ":z", ":x?", ":y*", ":z+", "*", "**", "{a}?", "{/b}*", "{a:x}", "{:y.}?", "{/:z}+", "(a|b)", ":x(\\d+)", "([^\\/]+?)", "(.*)", "(a)+",
	"?", "\\?", "#", "q=:q", ".", "..", "%2e", "é", "%C3%A9", "\\*", "@", ":", "8080", ":8080", "[\\:\\:1]", "-", " ", "{", "}", "(", ")", "\\", "+", "$", "_",
}

var urlTopicPieces = []string{
	"https:", "//", "https://example.com", "https://h:8080", "http://", "urn:", "foo://h", "file:///", "data:", "/", "/", "a", "b", "a", "/a", "/b",
	"?", "#", "q=1", ".", "..", "%2e", "é", "%C3%A9", "*", "@", ":", "8080", ":8080", "[::1]", "-", " ", "\\", "12", "HTTPS://EXAMPLE.com", "$", "_", "x.",
}

func randomPieces(rng *rand.Rand, pieces []string, n int) string {
	var b strings.Builder
	for range 1 + rng.IntN(n) {
		b.WriteString(pieces[rng.IntN(len(pieces))])
	}
	return b.String()
}

// TestURLPatternsAgreeWithTheLibrary tries patterns and topics put together from small pieces.
//
// Covers: MAT-08.
func TestURLPatternsAgreeWithTheLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 8))
	matched := 0
	for range 10_000 {
		pattern, topic := randomPieces(rng, urlPieces, 6), randomPieces(rng, urlTopicPieces, 5)
		if rng.IntN(2) == 0 { // of one origin
			pattern, topic = "/"+pattern, "/"+topic
		}
		if checkURLPattern(t, pattern, topic) {
			matched++
		}
	}
	t.Logf("%d matched", matched)
	if matched < 200 {
		t.Errorf("only %d patterns matched: the test tests little", matched)
	}
}

// FuzzCompileURLPattern checks the rules that hold for every pattern and topic.
func FuzzCompileURLPattern(f *testing.F) {
	var v urlVectors
	readVectors(f, "../vectors/urlpattern-matching.json", &v)
	for _, c := range v.Cases {
		f.Add(c.Pattern, c.Topic)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		f.Add(randomPieces(rng, urlPieces, 6), randomPieces(rng, urlTopicPieces, 5))
	}
	f.Fuzz(func(t *testing.T, pattern, topic string) {
		if len(pattern) > 512 || len(topic) > 512 {
			return // the library takes its time
		}
		checkURLPattern(t, pattern, topic)
	})
}

// BenchmarkURLPattern matches a topic that is known, one that never was, and, as the baseline, lets the library do it.
func BenchmarkURLPattern(b *testing.B) {
	const pattern, book = "https://example.com/books/:id", "https://example.com/books/bb3de268-05b0-4c65-b44e-8f9acefc29d6"
	m, err := compileURL(b, pattern, Limits{})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("topic=known/by=ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Match(book)
		}
	})
	b.Run("topic=unseen/by=ours", func(b *testing.B) {
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			m.Match(fmt.Sprint(book, n))
		}
	})
	library, err := parseURLPattern(pattern, "")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("topic=unseen/by=library", func(b *testing.B) {
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			library.Test(fmt.Sprint(book, n), testHub)
		}
	})
	for _, pattern := range []string{pattern, "https://example.com/" + strings.Repeat("a.", 2000) + ":x"} {
		b.Run(fmt.Sprintf("compile/bytes=%d", len(pattern)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := compileURL(b, pattern, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
