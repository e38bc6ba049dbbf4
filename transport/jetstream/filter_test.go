package jetstream

import (
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

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
	return newSubjects("p", hub)
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
		{"https://hub.example/.well-known/mercure/subscriptions/a", "m.-.- m.https.hub=2Eexample s"},
		{"https://hub.example/.well-known/mercure", "m.-.- m.https.hub=2Eexample t.https.hub=2Eexample.=2Ewell-known.mercure.#"},
		{"https://example.com/books/{id}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.books.>"},
		{"https://example.com/books{/id}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.>"},
		{"https://example.com/books/1{?q}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.books.>"},
		{"https://example.com/books/1?q={q}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.books.1.>"},
		{"https://example.com/#{q}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.-.>"},
		{"https://example.com/1/2/3/4/5/6/7/8/9/{x}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.1.2.3.4.5.6.7.8.>"},
		{"https://example.com/" + long + "/{x}", "m.-.- m.https.example=2Ecom t.-.> t.https.example=2Ecom.~" + hash(long) + ".>"},
		{"https://example.com{/x}", "m.-.- m.https.> t.-.> t.https.>"},
		{"https://hub.{tld}/a", "m.-.- m.https.> s t.-.> t.https.>"},
		{"https://user@example.com/{x}", "m.-.- m.https.> t.-.> t.https.>"},
		{"http{s}://example.com/", "m.> s t.>"},
		{"urn:isbn:{x}", "m.-.- m.urn.> t.-.> t.urn.>"},
		{"foo://host?{x}", "m.-.- m.foo.host t.-.> t.foo.host.-.>"},
		{"file:///a/{x}", "m.-.- m.file.- t.-.> t.file.-.a.>"},
		{"books/{id}", "m.-.- t.-.>"},
		{"HTTPS://example.com/{id}", "m.-.- t.-.>"},
		{"/books/{id}", "m.-.- t.-.>"},
		{"/{id}", "m.-.- s t.-.>"},
		{"/.well-known/mercure/subscriptions{/topic}{/subscriber}", "m.-.- s t.-.>"},
		{"https://hub.example/{+x}", "m.-.- m.https.hub=2Eexample s t.-.> t.https.hub=2Eexample.>"},
	} {
		got := s.filters(classic(c.pattern))
		slices.Sort(got)
		want := strings.ReplaceAll(c.want, "#", hash(c.pattern))
		if have := strings.Join(got, " "); have != want {
			t.Errorf("%q: %s, want %s", c.pattern, have, want)
		}
	}
	if got := newSubjects("p", nil).filters(classic("/{id}")); slices.Contains(got, "s") {
		t.Errorf("without a hub's URL: %q", got)
	}
	if got := s.filters(topic.Selector{Kind: 99, Pattern: "x"}); !slices.Equal(got, []string{">"}) {
		t.Errorf("of an unknown kind: %q", got)
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
func checkCovered(t *testing.T, s subjects, pattern string, topics []string) bool {
	t.Helper()
	m, err := topic.Compile(classic(pattern), nil, topic.Limits{})
	if err != nil || len(topics) == 0 || !slices.ContainsFunc(topics, m.Match) {
		return false
	}
	subject := strings.TrimPrefix(s.of(topics), s.updates)
	filters := s.filters(classic(pattern))
	if !slices.ContainsFunc(filters, func(f string) bool { return covers(f, subject) }) {
		t.Errorf("%q selects %q, whose subject %s is in none of its filters %q", pattern, topics, subject, filters)
	}
	for i, f := range filters {
		if w, ok := wider(f); ok {
			filters[i] = w
		}
	}
	if !slices.ContainsFunc(filters, func(f string) bool { return covers(f, subject) }) {
		t.Errorf("%q selects %q, whose subject %s is in none of its wider filters %q", pattern, topics, subject, filters)
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

func TestFiltersCoverWhatTheirSelectorSelects(t *testing.T) {
	s := hubSubjects(t)
	r := rand.New(rand.NewPCG(1, 2))
	selected, narrow := 0, 0
	for range 40_000 {
		topics := []string{randomTopic(r)}
		for r.IntN(4) == 0 {
			topics = append(topics, randomTopic(r))
		}
		pattern := selectorFor(r, topics[r.IntN(len(topics))])
		if checkCovered(t, s, pattern, topics) {
			selected++
			if !slices.Contains(s.filters(classic(pattern)), everything) {
				narrow++
			}
		}
		if t.Failed() {
			return
		}
	}
	if selected < 12_000 || narrow < 8_000 {
		t.Errorf("only %d selectors selected, %d of them with narrow filters: the test tests little", selected, narrow)
	}
}

func FuzzFiltersCoverWhatTheirSelectorSelects(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		a, b := randomTopic(r), randomTopic(r)
		f.Add(selectorFor(r, a), a, b)
	}
	f.Add("https://example.com/{+x}", "https://example.com/a", "")
	s := hubSubjects(f)
	f.Fuzz(func(t *testing.T, pattern, a, b string) {
		checkCovered(t, s, pattern, []string{a})
		checkCovered(t, s, pattern, []string{a, b})
		for i := range a { // what begins like the topic selects it
			checkCovered(t, s, a[:i]+"{+x}", []string{a})
		}
	})
}
