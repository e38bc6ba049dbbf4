package jetstream

import (
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

func classic(pattern string) topic.Selector {
	return topic.Selector{Kind: topic.Classic, Pattern: pattern}
}

func hubSubjects(t testing.TB) subjects {
	t.Helper()
	hub, err := url.Parse("https://hub.example/.well-known/mercure")
	if err != nil {
		t.Fatal(err)
	}
	return newSubjects("p", hub, "")
}

func TestFiltersOfASelector(t *testing.T) {
	s := hubSubjects(t)
	long := strings.Repeat("a", 40)
	for _, c := range []struct {
		pattern string
		want    string // # stands for the hash of the pattern
	}{
		{"*", ">"},
		{"{x}", ">"},
		{"{+x}/y", ">"},
		{"https://example.com/books/1", "m.-.- m.https.example=2Ecom t.https.example=2Ecom.books.1.#"},
		{"https://example.com:8443/a?q#f", "m.-.- m.https.example=2Ecom=3A8443 t.https.example=2Ecom=3A8443.a.#"},
		{"https://EXAMPLE.com/books/1", "m.-.- t.-.#"},
		{"books/1", "m.-.- t.-.#"},
		{"/.well-known/mercure/subscriptions/a", "m.-.- s"},
		{"https://hub.example/.well-known/mercure/subscriptions/a", "m.-.- m.https.hub=2Eexample t.https.hub=2Eexample.=2Ewell-known.mercure.subscriptions.a.#"},
		{"https://hub.example/.well-known/mercure", "m.-.- m.https.hub=2Eexample t.https.hub=2Eexample.=2Ewell-known.mercure.#"},
		{"https://example.com/books/{id}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.books.>"},
		{"https://example.com/books{/id}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.>"},
		{"https://example.com/books/1{?q}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.books.>"},
		{"https://example.com/books/1?q={q}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.books.1.>"},
		{"https://example.com/#{q}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.-.>"},
		{"https://example.com/1/2/3/4/5/6/7/8/9/{x}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.1.2.3.4.5.6.7.8.>"},
		{"https://example.com/" + long + "/{x}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.~" + hash(long) + ".>"},
		{"https://example.com{/x}", "m.-.- m.https.> t.-.> t.https.>"},
		{"https://hub.{tld}/a", "m.-.- m.https.> t.-.> t.https.>"},
		{"https://user@example.com/{x}", "m.-.- m.https.> t.-.> t.https.>"},
		{"http{s}://example.com/", "m.> t.>"},
		{"urn:isbn:{x}", "m.-.- m.urn.> t.-.> t.urn.>"},
		{"foo://host?{x}", "m.-.- m.foo.host t.-.> t.foo.host.-.>"},
		{"file:///a/{x}", "m.-.- m.file.- t.-.> t.file.-.a.>"},
		{"books/{id}", "m.-.- t.-.>"},
		{"HTTPS://example.com/{id}", "m.-.- t.-.>"},
		{"/books/{id}", "m.-.- t.-.>"},
		{"/{id}", "m.-.- s t.-.>"},
		{"/.well-known/mercure/subscriptions{/topic}{/subscriber}", "m.-.- s t.-.>"},
		{"https://hub.example/{+x}", "m.-.- m.https.hub=2Eexample t.-.> t.https.hub=2Eexample.>"},
	} {
		got := s.filters(classic(c.pattern))
		slices.Sort(got)
		want := strings.ReplaceAll(c.want, "#", hash(c.pattern))
		if have := strings.Join(got, " "); have != want {
			t.Errorf("%q: %s, want %s", c.pattern, have, want)
		}
	}
	if got := newSubjects("p", nil, "").filters(classic("/{id}")); slices.Contains(got, "s") {
		t.Errorf("without a hub's URL: %q", got)
	}
	if got := s.filters(topic.Selector{Kind: 99, Pattern: "x"}); !slices.Equal(got, []string{">"}) {
		t.Errorf("of an unknown kind: %q", got)
	}
}

// Covers: MAT-07, MAT-09, MAT-10.
func TestFiltersOfExactAndURLPatterns(t *testing.T) {
	s := hubSubjects(t)
	for _, c := range []struct {
		kind    topic.Kind
		pattern string
		want    string // # stands for the hash of the pattern
	}{
		{topic.Exact, "*", ">"},
		{topic.Exact, "https://example.com/{id}", "m.-.- t.-.#"},
		{topic.Exact, "https://example.com/books/1", "m.-.- m.https.example=2Ecom t.https.example=2Ecom.books.1.#"},
		{topic.Exact, "/.well-known/mercure/subscriptions/a", "m.-.- s"},
		{topic.Exact, "/.well-known/mercure/../a", "m.-.- t.-.#"},
		{topic.URLPattern, "*", ">"},
		{topic.URLPattern, "(", ">"},
		{topic.URLPattern, "https://example.com/books/:id", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.books.>"},
		{topic.URLPattern, "HTTPS://EXAMPLE.com:443/a/../books/:id", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.books.>"},
		{topic.URLPattern, "https://example.com/books/:id?", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.>"},
		{topic.URLPattern, "https://example.com/books/*", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.books.>"},
		{topic.URLPattern, "https://example.com/books/1", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.books.1.>"},
		{topic.URLPattern, "https://example.com:8443/books/1?:q", "m.-.- m.https.example=2Ecom=3A8443 t.-.> t.https.example=2Ecom=3A8443.books.1.>"},
		{topic.URLPattern, "https://é.example/é/:x", "m.-.- m.https.xn--9ca=2Eexample t.-.> t.https.xn--9ca=2Eexample.=25C3=25A9.>"},
		{topic.URLPattern, "https://example.com:*/books", "m.-.- m.https.> t.-.> t.https.>"},
		{topic.URLPattern, "https://*.example.com/books", "m.-.- m.https.> s t.-.> t.https.>"},
		{topic.URLPattern, "https://hub.:tld/books", "m.-.- m.https.> s t.-.> t.https.>"},
		{topic.URLPattern, "http{s}?://hub.example/books", "m.> s t.>"},
		{topic.URLPattern, "*://example.com/books", ">"},
		{topic.URLPattern, "urn:*", "m.-.- m.urn.- t.-.> t.urn.-.>"},
		{topic.URLPattern, `urn\:book/a/:x`, "m.-.- m.urn.- t.-.> t.urn.-.>"},
		{topic.URLPattern, "foo://host/a/*", "m.-.- m.foo.host t.-.> t.foo.host.a.>"},
		{topic.URLPattern, "/books/:id", "m.-.- m.https.hub=2Eexample t.-.> t.https.hub=2Eexample.books.>"},
		{topic.URLPattern, "/:id", "m.-.- m.https.hub=2Eexample s t.-.> t.https.hub=2Eexample.>"},
		{topic.URLPattern, "/.well-known/mercure/subscriptions{/*}?", "m.-.- m.https.hub=2Eexample s t.-.> t.https.hub=2Eexample.=2Ewell-known.mercure.>"},
		{topic.URLPattern, "/.well-known/mercure", "m.-.- m.https.hub=2Eexample t.-.> t.https.hub=2Eexample.=2Ewell-known.mercure.>"},
	} {
		got := s.filters(topic.Selector{Kind: c.kind, Pattern: c.pattern})
		slices.Sort(got)
		if have, want := strings.Join(got, " "), strings.ReplaceAll(c.want, "#", hash(c.pattern)); have != want {
			t.Errorf("%q: %s, want %s", c.pattern, have, want)
		}
	}
	if got := newSubjects("p", nil, "").filters(topic.Selector{Kind: topic.URLPattern, Pattern: "/:id"}); !slices.Equal(got, []string{">"}) {
		t.Errorf("without a hub's URL: %q", got)
	}
}

func TestAWiderFilter(t *testing.T) {
	for f, want := range map[string]string{
		"t.https.example=2Ecom.books.1.hash": "t.https.example=2Ecom.>",
		"t.https.example=2Ecom.>":            "t.https.example=2Ecom.>",
		"t.-.hash":                           "t.-.>",
		"t.-.>":                              "t.-.>",
		"t.https.>":                          "",
		"t.>":                                "",
		"m.https.example=2Ecom":              "",
		"m.-.-":                              "",
		"s":                                  "",
		">":                                  "",
	} {
		if got, ok := wider(f); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", f, got, ok, want)
		}
	}
}

// covers reports whether filter, in which only the last token may be a wildcard, takes in subject.
func covers(filter, subject string) bool {
	if head, ok := strings.CutSuffix(filter, ">"); ok {
		return strings.HasPrefix(subject, head) && len(subject) > len(head)
	}
	return filter == subject
}

// checkCovered fails the test if the selector selects one of the topics and the subject of an update with all
// of them is outside its filters, narrow or widened. It reports whether the selector selects.
func checkCovered(t *testing.T, s subjects, sel topic.Selector, topics []string) bool {
	t.Helper()
	m, err := topic.Compile(sel, s.hub, topic.Limits{})
	if err != nil || len(topics) == 0 || !slices.ContainsFunc(topics, m.Match) {
		return false
	}
	subject := strings.TrimPrefix(s.of(topics), s.updates)
	filters := s.filters(sel)
	if !slices.ContainsFunc(filters, func(f string) bool { return covers(f, subject) }) {
		t.Errorf("%q selects %q, whose subject %s is in none of its filters %q", sel.Pattern, topics, subject, filters)
	}
	for i, f := range filters {
		if w, ok := wider(f); ok {
			filters[i] = w
		}
	}
	if !slices.ContainsFunc(filters, func(f string) bool { return covers(f, subject) }) {
		t.Errorf("%q selects %q, whose subject %s is in none of its wider filters %q", sel.Pattern, topics, subject, filters)
	}
	return true
}

// What a topic is put together from.
var topicPieces = [][]string{
	{"https:", "http:", "HTTPS:", "https:", "", "urn:", "foo:", "file:", "web+x.1:", "wss:", "/", "mailto:"},
	{"//", "//", "//", "", "/", `\\`, "///"},
	{"example.com", "example.com", "EXAMPLE.com", "hub.example", "hub.example", "u:p@example.com", "u@hub.example", "[::1]", "127.0.0.1", "é.example", "", "a", "0x7f.1", "a%41b"},
	{"", "", "", ":443", ":80", ":8443", ":"},
	{"/", "/", "/", "", "?", "#", `\`, "."},
	{".well-known/mercure", ".well-known/mercure/subscriptions/a", "books/1", "books", "a/../b", "./a", "%2e%2e/a", "..", "a//b", "é", "%C3%A9", "1/2/3/4/5/6/7/8/9", "a b", "a\tb", "{x}", "", "isbn:1", "a.b", "*", ">", "~x", "averyveryverylongsegmentofmanycharacters/x"},
	{"", "", "/", "?q=1", "#f", "?q#f", "/x", "@", "?", "#", "/../x", "?é", "/'<>"},
}

func randomTopic(r *rand.Rand) string {
	var b strings.Builder
	for _, pieces := range topicPieces {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

// selectorFor makes a selector that is likely to select topic.
func selectorFor(r *rand.Rand, topic string) string {
	switch r.IntN(8) {
	case 0:
		return topic
	case 1:
		return "*"
	}
	i := r.IntN(len(topic) + 1)
	j := i + r.IntN(len(topic)-i+1)
	expressions := []string{"{x}", "{+x}", "{/x}", "{/x*}", "{?q}", "{#x}", "{+x,y}", "{&q}", "{.x}", "{;x}"}
	sel := topic[:i] + expressions[r.IntN(len(expressions))] + topic[j:]
	if r.IntN(3) == 0 {
		sel = topic[:i] + "{+x}"
	}
	return sel
}

// What replaces a piece of a URL to make a pattern of it.
var groups = []string{":x", ":x", "*", "*", ":x?", ":x*", "{a}?", "{:x.}?", "(.*)", `:x([^/]+)`, "(a|b|c)", ""}

// urlPatternFor makes a URL pattern that is likely to select topic. It is made of the topic as it stands, or of its
// URL, whose components are sometimes left to a wildcard.
func urlPatternFor(r *rand.Rand, s subjects, text string) string {
	escape := strings.NewReplacer("*", `\*`, "+", `\+`, "(", `\(`, ")", `\)`, "{", `\{`, "}", `\}`, `\`, `\\`)
	hub, err := whatwg.Parse(s.hub.String())
	if err != nil {
		panic(err)
	}
	u, err := hub.Parse(text)
	if err != nil || r.IntN(8) == 0 {
		if r.IntN(4) == 0 {
			return "*"
		}
		return escape.Replace(text)
	}
	pick := func(text string, others ...string) string {
		if r.IntN(4) == 0 {
			return others[r.IntN(len(others))]
		}
		return escape.Replace(text)
	}
	path := u.Pathname()
	if r.IntN(5) < 4 && path != "" {
		i := r.IntN(len(path) + 1)
		j := i + r.IntN(len(path)-i+1)
		if n := strings.IndexByte(path[i:], '/'); n > 0 && r.IntN(2) == 0 {
			j = i + n
		}
		path = escape.Replace(path[:i]) + groups[r.IntN(len(groups))] + escape.Replace(path[j:])
	} else {
		path = escape.Replace(path)
	}
	if q := u.Query(); q != "" && r.IntN(2) == 0 {
		path += `\?` + pick(q, "*", ":q")
	}
	if u.Host() == "" || u.Scheme() == "https" && u.Host() == s.hub.Host && r.IntN(2) == 0 { // no authority, or relative
		if u.Host() != "" {
			return path
		}
		return pick(u.Scheme(), ":s", "*") + `\:` + path
	}
	host := pick(u.Hostname(), "*", "{:sub.}?"+escape.Replace(u.Hostname()), ":h.:tld", ":h(.*)", strings.ToUpper(escape.Replace(u.Hostname())))
	if port := u.Port(); port != "" || r.IntN(8) == 0 {
		host += ":" + pick(port, "*", ":p(443|8443)", "443")
	}
	return pick(u.Scheme(), "http{s}?", "*", ":s", "HTTPS") + "://" + host + path
}

// TestFiltersCoverWhatTheirSelectorSelects is the soundness of filters, for all kinds of selectors.
//
// Covers: MAT-07, MAT-09, MAT-10.
func TestFiltersCoverWhatTheirSelectorSelects(t *testing.T) {
	s := hubSubjects(t)
	for _, kind := range []topic.Kind{topic.Classic, topic.Exact, topic.URLPattern} {
		r := rand.New(rand.NewPCG(1, uint64(kind)))
		selected, narrow := 0, 0
		for range 20_000 {
			topics := []string{randomTopic(r)}
			for r.IntN(4) == 0 {
				topics = append(topics, randomTopic(r))
			}
			sel := topic.Selector{Kind: kind, Pattern: topics[r.IntN(len(topics))]}
			switch kind {
			case topic.Exact:
			case topic.Classic:
				sel.Pattern = selectorFor(r, sel.Pattern)
			case topic.URLPattern:
				sel.Pattern = urlPatternFor(r, s, sel.Pattern)
			}
			if checkCovered(t, s, sel, topics) {
				selected++
				if !slices.Contains(s.filters(sel), everything) {
					narrow++
				}
			}
			if t.Failed() {
				return
			}
		}
		t.Logf("kind %d: %d selected, %d of them with narrow filters", kind, selected, narrow)
		if selected < 6_000 || narrow < 4_000 {
			t.Errorf("kind %d: only %d selectors selected, %d of them with narrow filters: the test tests little", kind, selected, narrow)
		}
	}
}

func FuzzFiltersCoverWhatTheirSelectorSelects(f *testing.F) {
	s := hubSubjects(f)
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		a, b := randomTopic(r), randomTopic(r)
		f.Add(selectorFor(r, a), a, b)
		f.Add(urlPatternFor(r, s, a), a, b)
	}
	f.Add("https://example.com/{+x}", "https://example.com/a", "")
	f.Fuzz(func(t *testing.T, pattern, a, b string) {
		for _, kind := range []topic.Kind{topic.Classic, topic.Exact, topic.URLPattern} {
			checkCovered(t, s, topic.Selector{Kind: kind, Pattern: pattern}, []string{a})
			checkCovered(t, s, topic.Selector{Kind: kind, Pattern: pattern}, []string{a, b})
		}
		for i := range a { // what begins like the topic selects it
			checkCovered(t, s, classic(a[:i]+"{+x}"), []string{a})
			checkCovered(t, s, topic.Selector{Kind: topic.URLPattern, Pattern: a[:i] + "*"}, []string{a})
		}
	})
}

// Two nodes of one hub are known by different URLs, if only while that is being changed: what the one writes, the other
// follows, whatever kind the selector is of.
//
// Covers: MAT-09, SUB-01.
func TestNodesWithDifferentURLsFollowEachOther(t *testing.T) {
	var nodes []subjects
	for _, u := range []string{"https://hub.example/.well-known/mercure", "https://new.example:8443/behind/a/proxy", "http://localhost/.well-known/mercure"} {
		hub, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, newSubjects("p", hub, "/.well-known/mercure"))
	}
	r := rand.New(rand.NewPCG(1, 2))
	topics := []string{
		"/.well-known/mercure/subscriptions/a/b", "/behind/a/proxy/subscriptions/a/b", "https://hub.example/.well-known/mercure/subscriptions/a/b",
		"https://new.example:8443/behind/a/proxy/subscriptions/a", "https://new.example:8443/.well-known/mercure/x", "/books/1", "books/1",
	}
	for range 2000 {
		topics = append(topics, randomTopic(r))
	}
	for _, written := range topics {
		want := nodes[0].of([]string{written})
		for _, s := range nodes[1:] {
			if got := s.of([]string{written}); got != want {
				t.Fatalf("%q is written to %s by one node and to %s by another", written, want, got)
			}
		}
	}
	for _, pattern := range []string{"/.well-known/mercure/subscriptions/*", "/:a/mercure/*", "/behind/a/proxy/*", "https://new.example:8443/*", "/books/:id"} {
		for _, s := range nodes {
			for _, written := range topics[:7] {
				checkCovered(t, s, topic.Selector{Kind: topic.URLPattern, Pattern: pattern}, []string{written})
			}
		}
	}
}
