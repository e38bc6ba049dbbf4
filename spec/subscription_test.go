package spec

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

func classicSubscription(pattern string) Subscription {
	return Subscription{
		Selector:   topic.Selector{Kind: topic.Classic, Pattern: pattern},
		Subscriber: "urn:uuid:bb3de268-05b0-4c65-b44e-8f9acefc29d6", Active: true,
	}
}

// Covers: ACT-02, ACT-03, ACT-05, ACT-06, ACT-09, ACT-29.
func TestClassicSubscriptionEvents(t *testing.T) {
	const subscriber = "urn%3Auuid%3Abb3de268-05b0-4c65-b44e-8f9acefc29d6"
	for _, c := range []struct{ pattern, escaped, payload, quoted string }{
		{"https://example.com/{selector}", "https%3A%2F%2Fexample.com%2F%7Bselector%7D", `{"foo":"bar"}`, `"https://example.com/{selector}"`},
		{"a b+c", "a%20b%2Bc", "", `"a b+c"`},
		{"100%", "100%25", "7", `"100%"`},
		{"a%2Fb", "a%252Fb", `"x"`, `"a%2Fb"`},
		{"é<&>", "%C3%A9%3C%26%3E", `[1]`, `"é<&>"`},
		{`a"b\c`, "a%22b%5Cc", `null`, `"a\"b\\c"`},
		{"-._~", "-._~", "", `"-._~"`},
		{"", "", "", `""`},
		{"*", "%2A", "", `"*"`},
	} {
		t.Run(c.pattern, func(t *testing.T) {
			s := classicSubscription(c.pattern)
			path := DefaultHubPath + "/subscriptions/" + c.escaped + "/" + subscriber
			doc := `{"@context":"https://mercure.rocks/","id":"` + path + `","type":"Subscription","topic":` + c.quoted +
				`,"subscriber":"` + s.Subscriber + `","active":true`
			if c.payload != "" {
				s.Payload = json.RawMessage(c.payload)
				doc += `,"payload":` + c.payload
			}
			u := Classic.Describe.Event(DefaultHubPath, s)
			if u.Data != doc+"}" {
				t.Errorf("got  %s\nwant %s}", u.Data, doc)
			}
			if len(u.Topics) != 1 || u.Topics[0] != path || u.Type != "" || !u.Private || u.ID != "" {
				t.Errorf("update %+v, want the one topic %s, private, without type and id", u, path)
			}
			if !json.Valid([]byte(u.Data)) {
				t.Errorf("%s is no JSON", u.Data)
			}
			usual, err := topic.Compile(topic.Selector{Kind: topic.Classic, Pattern: DefaultHubPath + "/subscriptions{/topic}{/subscriber}"}, nil, topic.Limits{})
			if err != nil || !usual.Match(path) {
				t.Errorf("the usual template does not match %s (%v)", path, err)
			}
		})
	}
}

// Covers: ACT-17, ACT-19.
func TestClassicSubscriptionDocuments(t *testing.T) {
	d, s := Classic.Describe, classicSubscription("a")
	item := `"id":"/hub/subscriptions/a/urn%3Auuid%3Abb3de268-05b0-4c65-b44e-8f9acefc29d6","type":"Subscription","topic":"a","subscriber":"urn:uuid:bb3de268-05b0-4c65-b44e-8f9acefc29d6","active":true`
	if got, want := string(d.Append(nil, "/hub", s, `e"1`)), `{"@context":"https://mercure.rocks/",`+item+`,"lastEventID":"e\"1"}`; got != want {
		t.Errorf("single\ngot  %s\nwant %s", got, want)
	}
	b := d.AppendHead(nil, "/hub/subscriptions", "earliest")
	b = d.AppendItem(b, "/hub", s, true)
	b = d.AppendItem(b, "/hub", s, false)
	want := `{"@context":"https://mercure.rocks/","id":"/hub/subscriptions","type":"Subscriptions","lastEventID":"earliest","subscriptions":[{` +
		item + `},{` + item + `}]}`
	if got := string(d.AppendTail(b)); got != want {
		t.Errorf("collection\ngot  %s\nwant %s", got, want)
	}
}

// Covers: ACT-12, ACT-14, ACT-26.
func TestParseSubscriptionPath(t *testing.T) {
	for _, c := range []struct {
		path           string
		ok             bool
		status         int
		of, one        bool
		pattern, whose string
	}{
		{path: "", ok: true, status: 200},
		{path: "/", ok: true, status: 200, of: true},
		{path: "/a%2Fb", ok: true, status: 200, of: true, pattern: "a/b"},
		{path: "/a+b%20c", ok: true, status: 200, of: true, pattern: "a+b c"},
		{path: "/a%252Fb", ok: true, status: 200, of: true, pattern: "a%2Fb"},
		{path: "/a/urn%3auuid%3A1", ok: true, status: 200, one: true, pattern: "a", whose: "urn:uuid:1"},
		{path: "/a/", ok: true, status: 200, one: true, pattern: "a"},
		{path: "//x", ok: true, status: 200, one: true, whose: "x"},
		{path: "/a/b/c", status: 200},
		{path: "x", status: 200},
		{path: "/%zz", status: 400},
		{path: "/a/%4", status: 400},
		{path: "/%", status: 400},
	} {
		q, ok, err := ParseSubscriptionPath(c.path)
		if status := statusOf(t, err); status != c.status || ok != c.ok {
			t.Errorf("%q: %v, status %d, want %v and %d", c.path, ok, status, c.ok, c.status)
			continue
		}
		if ok && (q.Of != c.of || q.One != c.one || q.Selector.Pattern != c.pattern || q.Subscriber != c.whose) {
			t.Errorf("%q: %+v", c.path, q)
		}
	}
}

// What is written into a path is read from it again, by us and by Go's parser.
//
// Covers: ACT-05.
func FuzzSubscriptionPath(f *testing.F) {
	f.Add("https://example.com/{id}", "urn:uuid:1")
	f.Add("100% é /+", "")
	f.Fuzz(func(t *testing.T, pattern, subscriber string) {
		s := Subscription{Selector: topic.Selector{Kind: topic.Classic, Pattern: pattern}, Subscriber: subscriber}
		path := Classic.Describe.Path("", s)
		q, ok, err := ParseSubscriptionPath(path[len(SubscriptionsPath):])
		if err != nil || !ok || !q.One || q.Selector != s.Selector || q.Subscriber != subscriber {
			t.Fatalf("%q is read as %+v, %v, %v", path, q, ok, err)
		}
		if u, err := url.ParseRequestURI(path); err != nil || u.EscapedPath() != path && u.RawPath != path {
			t.Fatalf("%q: %v", path, err)
		}
	})
}

func TestSubscriptionQuerySelects(t *testing.T) {
	a, b := topic.Selector{Kind: topic.Classic, Pattern: "a"}, topic.Selector{Kind: topic.Classic, Pattern: "b"}
	all, of, one := SubscriptionQuery{}, SubscriptionQuery{Of: true, Selector: a}, SubscriptionQuery{One: true, Selector: a, Subscriber: "x"}
	for _, c := range []struct {
		q    SubscriptionQuery
		sel  topic.Selector
		who  string
		want bool
	}{
		{all, a, "x", true}, {of, a, "y", true}, {of, b, "x", false}, {one, a, "x", true}, {one, a, "y", false}, {one, b, "x", false},
	} {
		if got := c.q.Selects(c.sel, c.who); got != c.want {
			t.Errorf("%+v selects %v of %s: %v", c.q, c.sel, c.who, got)
		}
	}
}
