package hub

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// form is how one generation says things, for tests that hold for both.
type form struct {
	*spec.Dialect
	param  string     // of a plain selector
	kind   topic.Kind // of what it makes
	events string     // a classic template that selects the events of all that it makes, and a grant for them
	own    bool       // who subscribes to that hears of it
	base   string     // of the API's paths that hold its plain selectors
}

var bothForms = []form{
	{&spec.Classic, spec.FieldTopic, topic.Classic, allEvents, true, apiPath},
	{&spec.Draft08, spec.ParamMatch, topic.Exact, apiPath + "/exact{/match}{/subscriber}", false, apiPath + "/exact"},
}

// inBothForms runs a test for each generation.
func inBothForms(t *testing.T, test func(*testing.T, form)) {
	t.Helper()
	for _, f := range bothForms {
		t.Run(f.Name, func(t *testing.T) { test(t, f) })
	}
}

// query asks for these plain selectors.
func (f form) query(selectors ...string) string {
	q := make([]string, len(selectors))
	for i, s := range selectors {
		q[i] = f.param + "=" + url.QueryEscape(s)
	}
	return strings.Join(q, "&")
}

// watch opens a stream of all events of this form. It is listed when watch returns.
func (f form) watch(n *node) *stream {
	n.t.Helper()
	s := n.subscribe("topic="+f.events, "X-Grant", f.events)
	if f.own {
		if e := s.told(); e.Topic != f.events || !e.Active {
			n.t.Errorf("a watcher hears %+v of itself first", e)
		}
		return s
	}
	eventually(n.t, "the watcher is listed", func() bool {
		list, err := n.Presences(n.t.Context())
		return err == nil && len(list) == 1
	})
	return s
}

// path is where the subscription of a plain selector is.
func (f form) path(selector, subscriber string) string {
	escape := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	return f.base + "/" + escape(selector) + "/" + escape(subscriber)
}

// ask asks the API with a token of this generation.
func (f form) ask(n *node, path string) *http.Response {
	return n.api(http.MethodGet, strings.TrimPrefix(path, apiPath), "X-Grant", "*", "X-Generation", f.Name)
}

// list is a collection, and its cursor.
func (f form) list(n *node, path string) (cursor string, subscriptions []told) {
	n.t.Helper()
	res := f.ask(n, path)
	var doc struct {
		LastEventID   string
		Subscriptions []told
	}
	if err := json.Unmarshal([]byte(slurp(n.t, res)), &doc); err != nil || res.StatusCode != http.StatusOK {
		n.t.Fatalf("list: %d, %v", res.StatusCode, err)
	}
	if f.Dialect == &spec.Classic {
		return doc.LastEventID, doc.Subscriptions
	}
	return cursorInLink(n.t, res.Header.Get("Link")), doc.Subscriptions
}

var linkCursor = regexp.MustCompile(`; last-event-id="((?:[^"\\]|\\.)*)"; `)

// cursorInLink reads a quoted-string.
func cursorInLink(t testing.TB, link string) string {
	t.Helper()
	m := linkCursor.FindStringSubmatch(link)
	if m == nil {
		t.Fatalf("no cursor in Link: %s", link)
	}
	return regexp.MustCompile(`\\(.)`).ReplaceAllString(m[1], "$1")
}

// told is a subscription event as a client reads it, or a member of a list.
type told struct {
	Context    string `json:"@context"`
	ID         string
	Type       string
	Topic      string
	MatchType  string `json:"match_type"`
	Match      string
	Subscriber string
	Active     bool
	Payload    json.RawMessage
}

// selector is the one that the document is about.
func (d *told) selector() topic.Selector {
	if kind, ok := topic.KindOf(d.MatchType); ok {
		return topic.Selector{Kind: kind, Pattern: d.Match}
	}
	return topic.Selector{Kind: topic.Classic, Pattern: d.Topic}
}

// told reads the next event, which has to be of one of the forms as a whole (ACT-06 … ACT-09).
func (s *stream) told() told {
	s.t.Helper()
	e, err := s.next()
	if err != nil {
		s.t.Fatalf("no event: %v", err)
	}
	var doc told
	if err := json.Unmarshal([]byte(e.Data), &doc); err != nil {
		s.t.Fatalf("%q: %v", e.Data, err)
	}
	classic := doc.Context == "https://mercure.rocks/" && doc.Type == "Subscription" && doc.MatchType == "" && doc.Match == "" && e.Type == ""
	draft08 := doc.Context == "" && doc.Type == "subscription" && doc.MatchType != "" && doc.Topic == "" && e.Type == "mercure"
	if !classic && !draft08 {
		s.t.Errorf("the event of type %q is of neither form: %s", e.Type, e.Data)
	}
	return doc
}

// ended returns the pattern of the next event, which has to be an end of subscriber's.
func (s *stream) ended(t *testing.T, subscriber string) string {
	t.Helper()
	e := s.told()
	if e.Active || e.Subscriber != subscriber {
		t.Errorf("%+v, want an end of %s", e, subscriber)
	}
	return e.selector().Pattern
}
