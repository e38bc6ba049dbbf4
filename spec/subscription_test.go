package spec

import (
	"encoding/json"
	"fmt"
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

// Covers: ACT-02, ACT-04, ACT-05, ACT-07, ACT-08, ACT-30.
func TestDraft08SubscriptionEvents(t *testing.T) {
	const subscriber = "urn%3Auuid%3Abb3de268-05b0-4c65-b44e-8f9acefc29d6"
	for _, c := range []struct {
		kind                                    topic.Kind
		name, pattern, escaped, payload, quoted string
	}{
		{topic.URLPattern, "urlpattern", "https://example.com/:id(\\d+)", "https%3A%2F%2Fexample.com%2F%3Aid%28%5Cd%2B%29", `{"foo":"bar"}`, `"https://example.com/:id(\\d+)"`},
		{topic.Exact, "exact", "https://example.com/{selector}", "https%3A%2F%2Fexample.com%2F%7Bselector%7D", "", `"https://example.com/{selector}"`},
		{topic.Exact, "exact", "a b+c", "a%20b%2Bc", "", `"a b+c"`},
		{topic.Exact, "exact", "100%", "100%25", "{}", `"100%"`},
		{topic.Exact, "exact", "a%2Fb", "a%252Fb", "", `"a%2Fb"`},
		{topic.Exact, "exact", "é<&>", "%C3%A9%3C%26%3E", "", `"é<&>"`},
		{topic.Exact, "exact", `a"b\c`, "a%22b%5Cc", "", `"a\"b\\c"`},
		{topic.Exact, "exact", "", "", "", `""`},
		{topic.URLPattern, "urlpattern", "*", "%2A", "", `"*"`},
	} {
		for _, active := range []bool{true, false} {
			t.Run(fmt.Sprint(c.pattern, active), func(t *testing.T) {
				s := Subscription{Selector: topic.Selector{Kind: c.kind, Pattern: c.pattern}, Subscriber: "urn:uuid:bb3de268-05b0-4c65-b44e-8f9acefc29d6", Active: active}
				path := DefaultHubPath + "/subscriptions/" + c.name + "/" + c.escaped + "/" + subscriber
				doc := `{"id":"` + path + `","type":"subscription","match_type":"` + c.name + `","match":` + c.quoted + `,"subscriber":"` + s.Subscriber +
					`","active":` + fmt.Sprint(active)
				if c.payload != "" {
					s.Payload = json.RawMessage(c.payload)
					doc += `,"payload":` + c.payload
				}
				u := GenerationOf(c.kind).Describe.Event(DefaultHubPath, s)
				if u.Data != doc+"}" || !json.Valid([]byte(u.Data)) {
					t.Errorf("got  %s\nwant %s}", u.Data, doc)
				}
				if len(u.Topics) != 1 || u.Topics[0] != path || u.Type != "mercure" || !u.Private || u.ID != "" {
					t.Errorf("update %+v, want the one topic %s, private, of type mercure, without id", u, path)
				}
				if got := string(Draft08.Describe.Append(nil, DefaultHubPath, s, "cursor")); got != u.Data {
					t.Errorf("the API answers with %s, the event is %s", got, u.Data)
				}
			})
		}
	}
}

// Covers: ACT-16, ACT-18, ACT-20.
func TestDraft08SubscriptionDocuments(t *testing.T) {
	d := Draft08.Describe
	s := Subscription{Selector: topic.Selector{Kind: topic.Exact, Pattern: "a/b"}, Subscriber: "x", Active: true}
	const item = `{"id":"/hub/subscriptions/exact/a%2Fb/x","type":"subscription","match_type":"exact","match":"a/b","subscriber":"x","active":true}`
	id := d.CollectionPath("/hub", s.Selector)
	b := d.AppendHead(nil, id, "earliest")
	b = d.AppendItem(b, "/hub", s, true)
	b = d.AppendItem(b, "/hub", s, false)
	want := `{"id":"/hub/subscriptions/exact/a%2Fb","type":"subscriptions","subscriptions":[` + item + "," + item + "]}"
	if got := string(d.AppendTail(b)); got != want {
		t.Errorf("collection\ngot  %s\nwant %s", got, want)
	}
	if d.MediaType != "application/json" || Classic.Describe.MediaType != "application/ld+json" {
		t.Errorf("media types %q and %q", d.MediaType, Classic.Describe.MediaType)
	}
	for cursor, quoted := range map[string]string{
		"earliest": `earliest`, `a"b\c`: `a\"b\\c`, "é, x; y=1": "é, x; y=1", `\"`: `\\\"`,
	} {
		want := `</hub>; rel="mercure"; last-event-id="` + quoted + `"; type="mercure"; content-type="application/json"`
		if got := d.Link("/hub", cursor); got != want {
			t.Errorf("Link of %q\ngot  %s\nwant %s", cursor, got, want)
		}
		if got := Classic.Describe.Link("/hub", cursor); got != `</hub>; rel="mercure"` {
			t.Errorf("classic Link %s", got)
		}
	}
}

// Covers: ACT-12, ACT-13, ACT-14, ACT-26, ACT-27, G-16, G-22.
func TestParseSubscriptionPath(t *testing.T) {
	for _, c := range []struct {
		path           string
		ok             bool
		status         int
		of, one        bool
		pattern, whose string
		kind           topic.Kind // 0 = classic
	}{
		{path: "", ok: true, status: 200},
		{path: "/", ok: true, status: 200, of: true},
		{path: "/a%2Fb", ok: true, status: 200, of: true, pattern: "a/b"},
		{path: "/a+b%20c", ok: true, status: 200, of: true, pattern: "a+b c"},
		{path: "/a%252Fb", ok: true, status: 200, of: true, pattern: "a%2Fb"},
		{path: "/a/urn%3auuid%3A1", ok: true, status: 200, one: true, pattern: "a", whose: "urn:uuid:1"},
		{path: "/a/", ok: true, status: 200, one: true, pattern: "a"},
		{path: "//x", ok: true, status: 200, one: true, whose: "x"},
		{path: "/exact", ok: true, status: 200, of: true, pattern: "exact"},
		{path: "/exact/a%2Fb", ok: true, status: 200, of: true, pattern: "a/b", kind: topic.Exact},
		{path: "/%65xact/", ok: true, status: 200, of: true, kind: topic.Exact},
		{path: "/Exact/a", ok: true, status: 200, one: true, pattern: "Exact", whose: "a"},
		{path: "/exact%20/a", ok: true, status: 200, one: true, pattern: "exact ", whose: "a"},
		{path: "/urlpattern/%2Fbooks%2F%3Aid", ok: true, status: 200, of: true, pattern: "/books/:id", kind: topic.URLPattern},
		{path: "/exact/a/urn%3auuid%3A1", ok: true, status: 200, one: true, pattern: "a", whose: "urn:uuid:1", kind: topic.Exact},
		{path: "/urlpattern/a/", ok: true, status: 200, one: true, pattern: "a", kind: topic.URLPattern},
		{path: "/topic/a/b", status: 200},
		{path: "/a/b/c", status: 200},
		{path: "/EXACT/b/c", status: 200},
		{path: "/exact/b/c/", status: 200},
		{path: "/a/b/c/d", status: 200},
		{path: "/exact/%zz", status: 400},
		{path: "/exact/a/%4", status: 400},
		{path: "/x/%C/y", status: 400},
		{path: "x", status: 200},
		{path: "/%zz", status: 400},
		{path: "/a/%4", status: 400},
		{path: "/%", status: 400},
	} {
		q, ok, err := ParseSubscriptionPath(c.path, true)
		if status := statusOf(t, err); status != c.status || ok != c.ok {
			t.Errorf("%q: %v, status %d, want %v and %d", c.path, ok, status, c.ok, c.status)
			continue
		}
		if !ok {
			continue
		}
		var want SubscriptionQuery
		if c.of || c.one {
			want = SubscriptionQuery{Of: c.of, One: c.one, Subscriber: c.whose, Selector: topic.Selector{Kind: max(c.kind, topic.Classic), Pattern: c.pattern}}
			want.Generation = GenerationOf(want.Selector.Kind)
		}
		if q != want {
			t.Errorf("%q: %+v, want %+v", c.path, q, want)
		}
		strict, ok, err := ParseSubscriptionPath(c.path, false)
		if err != nil || ok != (want.Generation != &Classic) || ok && strict != want {
			t.Errorf("%q without classic: %+v, %v, %v", c.path, strict, ok, err)
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
		for _, kind := range []topic.Kind{topic.Classic, topic.Exact, topic.URLPattern} {
			if _, taken := topic.KindOf(pattern); taken && kind == topic.Classic {
				continue // not addressable (G-16)
			}
			s := Subscription{Selector: topic.Selector{Kind: kind, Pattern: pattern}, Subscriber: subscriber}
			path := GenerationOf(kind).Describe.Path("", s)
			q, ok, err := ParseSubscriptionPath(path[len(SubscriptionsPath):], true)
			if err != nil || !ok || !q.One || q.Selector != s.Selector || q.Subscriber != subscriber {
				t.Fatalf("%q is read as %+v, %v, %v", path, q, ok, err)
			}
			if u, err := url.ParseRequestURI(path); err != nil || u.EscapedPath() != path && u.RawPath != path {
				t.Fatalf("%q: %v", path, err)
			}
			of := GenerationOf(kind).Describe.CollectionPath("", s.Selector)
			q, ok, err = ParseSubscriptionPath(of[len(SubscriptionsPath):], true)
			if err != nil || !ok || !q.Of || q.Selector != s.Selector {
				t.Fatalf("%q is read as %+v, %v, %v", of, q, ok, err)
			}
		}
	})
}

// Covers: G-17.
func TestSubscriptionQuerySelects(t *testing.T) {
	a, b := topic.Selector{Kind: topic.Classic, Pattern: "a"}, topic.Selector{Kind: topic.Classic, Pattern: "b"}
	exact, pattern := topic.Selector{Kind: topic.Exact, Pattern: "a"}, topic.Selector{Kind: topic.URLPattern, Pattern: "a"}
	classic, draft08 := SubscriptionQuery{Generation: &Classic}, SubscriptionQuery{Generation: &Draft08}
	of, one := SubscriptionQuery{Of: true, Selector: a}, SubscriptionQuery{One: true, Selector: a, Subscriber: "x"}
	for _, c := range []struct {
		q    SubscriptionQuery
		sel  topic.Selector
		who  string
		want bool
	}{
		{SubscriptionQuery{}, a, "x", false},
		{SubscriptionQuery{}, topic.Selector{Kind: 99}, "x", false},
		{classic, a, "x", true},
		{classic, exact, "x", false},
		{classic, pattern, "x", false},
		{classic, topic.Selector{Kind: 99}, "x", false},
		{draft08, a, "x", false},
		{draft08, exact, "x", true},
		{draft08, pattern, "x", true},
		{of, a, "y", true},
		{of, b, "x", false},
		{of, exact, "x", false},
		{one, a, "x", true},
		{one, a, "y", false},
		{one, b, "x", false},
		{one, exact, "x", false},
	} {
		if got := c.q.Selects(c.sel, c.who); got != c.want {
			t.Errorf("%+v selects %v of %s: %v", c.q, c.sel, c.who, got)
		}
	}
}
