package topic

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestPrefixIsALiteralStartOfEveryMatch(t *testing.T) {
	tests := []struct {
		pattern, prefix string
		exact           bool
	}{
		{"*", "", false},
		{"https://example.com/books/1", "https://example.com/books/1", true},
		{"https://example.com/books/{id}", "https://example.com/books/", false},
		{"https://example.com/books/{id}/x", "https://example.com/books/", false},
		{"{id}", "", false},
		{"a%20b{id}", "a%20b", false},
		{"café", "caf", false},
		{"café/{id}", "caf", false},
		{"é", "", false},
		{"{not a template", "{not a template", true},
		{"café {", "café {", true},
		{"", "", true},
	}
	for _, tt := range tests {
		prefix, exact := compileTest(t, tt.pattern).Prefix()
		if prefix != tt.prefix || exact != tt.exact {
			t.Errorf("%q: %q, exact %v, want %q, %v", tt.pattern, prefix, exact, tt.prefix, tt.exact)
		}
	}
}

func TestMatchBesideTheVectors(t *testing.T) {
	tests := []struct {
		pattern, topic string
		want           bool
	}{
		{"café", "caf%C3%A9", true},
		{"café", "caf%c3%a9", true},
		{"café", "caf%C3%A8", false},
		{"a/{x}é", "a/b%C3%A9", true},
		{"a/{x}é", "a/bé", true},
		{"{x:9999}", strings.Repeat("a", 9999), true},
		{"{x:9999}", strings.Repeat("a", 10000), false},
		{"{x:2}", "%F0%9D%84%9E%E2%82%AC", true},
		{"{x:2}", "%F0%9D%84%9E%E2%82%ACa", false},
		{"{+x:2}", "/%20", true},
		{"{+x:2}", "/%20a", false},
		{"{x:2}{y:2}", "abcd", true},
		{"{x:2}{y:2}", "abcde", false},
		{"{x:2}{y:2}c", "abc", true},
		{"a{x}a", "a", false},
		{"a{x}a", "aa", true},
		{"https://example.com/{a}/{b}/{a}", "https://example.com/1/2/1", true},
		{"https://example.com/{a}/{b}/{a}", "https://example.com/1/2/3", false},
		{"{?a}{&a}", "?a=1&a=1", true},
		{"{?a}{&a}", "?a=1", false},
		{"{?a}{&a}", "?a=1&a=2", false},
		{"{+a}{a}", "/%2F", true},
		{"{+a}{a}", "//", false},
		{"{a}{?a}", "caf%C3%A9?a=caf%C3%A9", true},
		{"{a:3}/{a:3}", "abc/abc", true},
		{"{a:3}/{a:3}", "abc/abd", false},
		{"{/a*}{?a*}", "/x/y?a=x&a=y", true},
		{"{/a*}{?a*}", "/x/y?a=x&a=z", false},
		{"{/a*}{?a*}", "/k=v?k=v", true},
		{"{+a}?copy={+a}", strings.Repeat("a/", 500) + "?copy=" + strings.Repeat("a/", 500), true},
		{"{+a}?copy={+a}", strings.Repeat("a/", 500) + "?copy=" + strings.Repeat("a/", 499) + "b/", false},
		{"/{a}/{b}/{c}/x/{a}/{b}/{c}", "/" + strings.Repeat("0123456789abcdef/", 3) + "x" + strings.Repeat("/0123456789abcdef", 3), true},
		{"{/a*}{?a*}", "/%c3%a9/y?a=%C3%A9&a=y", true},
		{"{+a}{a}", "%2541%252541", true},
		{"\x00{a}", "\x00b", false},
		{"{\x00a}", "b", false},
		{"x{a}\xff", "xb\xff", false},
		{"x{a}\xff", "x{a}\xff", true},
		{"{a}\u00a0", "b%C2%A0", true},
		{"{a}\ufff0", "b\ufff0", false},
		{"{a}\U000E0001", "b\U000E0001", false},
		{"{a}\U000F0000", "b\U000F0000", true},
	}
	for _, tt := range tests {
		if got := compileTest(t, tt.pattern).Match(tt.topic); got != tt.want {
			t.Errorf("%.40q matches %.40q: %v", tt.pattern, tt.topic, got)
		}
	}
}

func TestCompileKeepsToItsLimits(t *testing.T) {
	list := func(n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("v%d", i)
		}
		return "{" + strings.Join(names, ",") + "}"
	}
	tests := []struct {
		name    string
		pattern string
		limits  Limits
		over    bool
	}{
		{"32 variables", list(32), Limits{}, false},
		{"33 variables", list(33), Limits{}, true},
		{"33 variables, in as many expressions", strings.Repeat("{a}", 33), Limits{}, true},
		{"1,200 variables", list(1200), Limits{PatternBytes: 1 << 20}, true},
		{"1,200 variables where that is allowed", list(1200), Limits{PatternBytes: 1 << 20, Variables: 1200}, false},
		{"too many variables in what is no template", list(1200) + "{", Limits{PatternBytes: 1 << 20}, false},
		{"4096 bytes", strings.Repeat("x", 4096), Limits{}, false},
		{"4097 bytes", strings.Repeat("x", 4097), Limits{}, true},
		{"4097 bytes of no template", strings.Repeat("{", 4097), Limits{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Compile(Selector{Classic, tt.pattern}, nil, tt.limits)
			if errors.Is(err, ErrLimit) != tt.over || (m == nil) != tt.over {
				t.Errorf("%v, %v", m, err)
			}
			if m != nil && !m.Match(tt.pattern) {
				t.Error("does not match itself")
			}
		})
	}
	if m, err := Compile(Selector{Kind: 77, Pattern: "a"}, nil, Limits{}); err == nil || m != nil || errors.Is(err, ErrLimit) {
		t.Errorf("unknown kind: %v, %v", m, err)
	}
}

// TestWorkIsBounded counts the places looked at, and what is allocated, instead of measuring time.
func TestWorkIsBounded(t *testing.T) {
	for _, tt := range heavyTemplates() {
		for _, size := range []int{58, 2048} {
			t.Run(fmt.Sprintf("%s on %d bytes", tt.name, size), func(t *testing.T) { testWork(t, tt.pattern, tt.topic(size)) })
		}
	}
}

func testWork(t *testing.T, pattern, topic string) {
	t.Helper()
	m, ok := compileTest(t, pattern).(*templateMatcher)
	if !ok {
		t.Fatal("not a template")
	}
	s := m.newSearch(topic, nil)
	passed := s.linear()
	if limit := (len(m.steps) + 1) * (len(topic) + 64); s.work > limit {
		t.Errorf("%d places looked at, want at most %d", s.work, limit)
	}
	if passed && m.slots > 0 {
		s.tied(m.slots)
		if slack := 2*len(topic) + 1024; s.work > maxWork+slack {
			t.Errorf("%d places looked at for tied variables, want at most %d", s.work, maxWork+slack)
		}
	}
	// Masks and sets, the scratch of a long topic, and for tied variables their values, sets and texts.
	if allocs := testing.AllocsPerRun(1, func() { m.Match(topic) }); allocs > 16 {
		t.Errorf("%v allocations, want at most 16", allocs)
	}
}

// longLiterals is a template whose literals nearly match at every place of its topic.
func longLiterals(tb testing.TB) (m Matcher, text, topic string) {
	tb.Helper()
	text = strings.Repeat("a", 1000)
	return compileTest(tb, "{x}"+text+"{y}"+text+"!{z}"), text, strings.Repeat("a", 2048)
}

// Covers: MAT-06, SEC-07.
func TestLongLiteralsAreBounded(t *testing.T) {
	m, text, topic := longLiterals(t)
	s := m.(*templateMatcher).newSearch(topic, nil)
	if s.linear() {
		t.Error("matches without its exclamation mark")
	}
	// Either literal is tried at every place at most, and compared as a whole there.
	if limit := 2*(len(topic)+1)*comparing(len(text)+1) + len(topic); s.work > limit {
		t.Errorf("%d places looked at, want at most %d", s.work, limit)
	}
	if !m.Match("b" + text + text + "!") {
		t.Error("does not match its expansion")
	}
}

// Covers: MAT-06, SEC-07, LIM-14.
func TestManyLiteralsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range DefaultVariables {
		fmt.Fprintf(&b, "{+v%d}a", i)
	}
	m := compileTest(t, b.String()+"!")
	for n, want := range map[int]bool{40: true, 250: true, 2000: false} {
		topic := strings.Repeat("a", n) + "!"
		if got := m.Match(topic); got != want {
			t.Errorf("%d bytes: %v, want %v", n, got, want)
		}
		s := m.(*templateMatcher).newSearch(topic[:n-1], nil)
		s.linear()
		if s.tries > maxTries+n {
			t.Errorf("%d bytes: %d literals compared", n, s.tries)
		}
	}
	if m = compileTest(t, "{+a}/b/{+c}/d/{+e}/f/{+g}/h"); !m.Match(strings.Repeat("/b/d/f", 300) + "/h/h") {
		t.Error("a long topic of a usual kind does not match")
	}
}

// BenchmarkLongLiterals compares literals as a whole; the baseline compares one of them byte by byte.
func BenchmarkLongLiterals(b *testing.B) {
	m, text, topic := longLiterals(b)
	b.Run("by=ours", func(b *testing.B) {
		for b.Loop() {
			m.Match(topic)
		}
	})
	b.Run("by=byte", func(b *testing.B) {
		for b.Loop() {
			for p := range len(topic) - len(text) {
				i := 0
				for i < len(text) && topic[p+i] == text[i] {
					i++
				}
			}
		}
	})
}

type heavy struct {
	name, pattern string
	topic         func(n int) string
}

func heavyTemplates() []heavy {
	names := make([]string, 32)
	for i := range names {
		names[i] = fmt.Sprintf("v%d", i)
	}
	filled := func(unit, end string) func(int) string {
		return func(n int) string { return strings.Repeat(unit, (n-len(end))/len(unit)) + end }
	}
	each := func(format string) string {
		var b strings.Builder
		for _, n := range names {
			fmt.Fprintf(&b, format, n)
		}
		return b.String()
	}
	return []heavy{
		{"32 variables of one expression", "{" + strings.Join(names, ",") + "}", filled("a,", "!")},
		{"32 reserved variables", each("{+%s}"), filled("a/", " ")},
		{"32 variables between literals", each("{%s}a"), filled("a", "!")},
		{"32 limited variables", "x" + each("{%s:9999}") + "y!", filled("x", "y!")},
		{"32 exploded variables", each("{.%s*}"), filled(".a=b", "!")},
		{"32 exploded query variables", "{?" + strings.Join(names, "*,") + "*}", filled("?a=b&", "!")},
		{"one variable 32 times", strings.Repeat("{a}", 32), filled("a", "b")},
		{"16 variables twice", strings.Repeat("{a}{b}{c}{d}{e}{f}{g}{h}{i}{j}{k}{l}{m}{n}{o}{p}", 2), filled("a", "b")},
		{"a tied variable after a free one", "{x}{+a}{y}{a}", filled("a", "b")},
		{"5 reserved variables twice", strings.Repeat("{+a}{+b}{+c}{+d}{+e}", 2), filled("a/", "b")},
		{"5 reserved variables, then in another form", "{+a}{+b}{+c}{+d}{+e}{a}{b}{c}{d}{e}", filled("%41", "b")},
		{"5 named variables twice", strings.Repeat("{;a}{;b}{;c}{;d}{;e}", 2), filled(";a=1;b=1;c=1;d=1;e=1", "b")},
		{"exploded variables in two forms", "{+a*}{+b*}{+c*}{?a*}{?b*}{?c*}", filled("k=v", "b")},
		{"limited variables twice", strings.Repeat("{+a:999}{+b:999}{+c:999}", 2), filled("a", "b")},
	}
}

func TestCacheIsBoundedAndShared(t *testing.T) {
	c := NewCache(10, nil, Limits{Variables: 2})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 200 {
				pattern := fmt.Sprintf("https://example.com/%d/{id}", (i*7+w)%25)
				m, err := c.Compile(Selector{Classic, pattern})
				if err != nil || !m.Match(strings.Replace(pattern, "{id}", "x", 1)) || m.Match("https://example.com/x") {
					t.Errorf("%q: %v, %v", pattern, m, err)
				}
			}
		})
	}
	wg.Wait()
	if c.Len() != 10 {
		t.Errorf("%d matchers kept, want 10", c.Len())
	}
	m1, err1 := c.Compile(Selector{Classic, "{a}"})
	m2, err2 := c.Compile(Selector{Classic, "{a}"})
	if err1 != nil || err2 != nil || m1 != m2 {
		t.Errorf("compiled twice: %p, %p, %v, %v", m1, m2, err1, err2)
	}
	if _, err := c.Compile(Selector{Classic, "{a,b,c}"}); !errors.Is(err, ErrLimit) {
		t.Errorf("limits of the cache: %v", err)
	}
	if n := NewCache(0, nil, Limits{}); n.matchers == nil {
		t.Error("no default size")
	}
}

// FuzzCompileClassic checks the rules that hold for every selector and topic.
func FuzzCompileClassic(f *testing.F) {
	var v struct {
		Cases []struct{ Template, Topic string }
	}
	readVectors(f, "../vectors/template-matching.json", &v)
	for _, c := range v.Cases {
		f.Add(c.Template, c.Topic)
	}
	for _, h := range heavyTemplates() {
		f.Add(h.pattern, h.topic(64))
	}
	f.Fuzz(func(t *testing.T, pattern, topic string) {
		m, err := Compile(Selector{Classic, pattern}, nil, Limits{})
		if err != nil {
			if !errors.Is(err, ErrLimit) {
				t.Fatal(err)
			}
			return
		}
		if !m.Match(pattern) {
			t.Fatalf("%q does not match itself", pattern)
		}
		matched := m.Match(topic)
		prefix, exact := m.Prefix()
		if matched && !strings.HasPrefix(topic, prefix) || exact && matched != (topic == prefix) {
			t.Fatalf("%q matches %q: %v, but claims prefix %q, exact %v", pattern, topic, matched, prefix, exact)
		}
		if tm, ok := m.(*templateMatcher); ok {
			if _, valid := parseTemplate(pattern); !valid {
				t.Fatalf("%q is compiled as a template", pattern)
			}
			s := tm.newSearch(topic, nil)
			if s.linear(); s.work > 2*(len(tm.steps)+1)*(len(topic)+64) {
				t.Fatalf("%q on %q: %d places looked at", pattern, topic, s.work)
			}
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	const book = "https://example.com/books/bb3de268-05b0-4c65-b44e-8f9acefc29d6"
	for _, bb := range []struct{ name, pattern, topic string }{
		{"plain", book, book},
		{"variable", "https://example.com/books/{id}", book},
		{"variable-foreign", "https://example.com/authors/{id}", book},
		{"two-variables", "https://example.com/{kind}/{id}", book},
		{"query", "https://example.com/books{/id}{?topic,lang}", book + "?topic=a%2Fb&lang=fr"},
		{"tied", "https://example.com/{a}/x/{a}", "https://example.com/1234/x/1234"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			m := compileTest(b, bb.pattern)
			b.ReportAllocs()
			for b.Loop() {
				m.Match(bb.topic)
			}
		})
	}
	for _, h := range heavyTemplates() {
		b.Run("heavy/"+strings.ReplaceAll(h.name, " ", "-"), func(b *testing.B) {
			m, topic := compileTest(b, h.pattern), h.topic(2048)
			for b.Loop() {
				m.Match(topic)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, pattern := range []string{"https://example.com/books/{id}", heavyTemplates()[0].pattern} {
		b.Run(pattern[:min(len(pattern), 12)], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				compileTest(b, pattern)
			}
		})
	}
}
