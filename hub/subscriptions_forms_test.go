package hub

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// mixed lists subscriptions of all kinds: the same patterns in each.
func mixed() *directory {
	p := transport.Presence{
		Subscriber: "urn:uuid:1",
		Selectors: []topic.Selector{
			{Kind: topic.Classic, Pattern: "a/b"},
			{Kind: topic.Exact, Pattern: "a/b"},
			{Kind: topic.URLPattern, Pattern: "a/b"},
			{Kind: topic.Classic, Pattern: "exact"},
			{Kind: topic.Exact, Pattern: "urn:uuid:1"},
		},
		Payloads: []json.RawMessage{json.RawMessage(`{"n":1}`), json.RawMessage(`{"n":2}`), nil, nil, nil},
	}
	return listedDirectory(p, presentAs(topic.Exact, "urn:uuid:2", `{"n":3}`, "a/b"), presentAs(topic.Classic, "urn:uuid:3", "", "c"))
}

// Covers: ACT-13, ACT-14, ACT-16, ACT-18, ACT-20, ACT-21, ACT-27, ACT-30, G-16.
func TestDraft08SubscriptionAPI(t *testing.T) {
	n := startNode(t, withDirectory(mixed()))
	id := n.publish("topic", "x", "data", "y", "id", `é "1\2"`)
	const (
		head = `{"id":"/.well-known/mercure/subscriptions/`
		one  = head + `exact/a%2Fb/urn%3Auuid%3A1","type":"subscription","match_type":"exact","match":"a/b","subscriber":"urn:uuid:1","active":true,"payload":{"n":2}}`
		two  = head + `exact/a%2Fb/urn%3Auuid%3A2","type":"subscription","match_type":"exact","match":"a/b","subscriber":"urn:uuid:2","active":true,"payload":{"n":3}}`
		url  = head + `urlpattern/a%2Fb/urn%3Auuid%3A1","type":"subscription","match_type":"urlpattern","match":"a/b","subscriber":"urn:uuid:1","active":true}`
		own  = head + `exact/urn%3Auuid%3A1/urn%3Auuid%3A1","type":"subscription","match_type":"exact","match":"urn:uuid:1","subscriber":"urn:uuid:1","active":true}`
	)
	for path, want := range map[string]string{
		"/exact/a%2Fb/urn%3Auuid%3A1":      one,
		"/exact/a%2fb/urn:uuid:1":          one,
		"/exact/a%2Fb/urn%3Auuid%3A2":      two,
		"/urlpattern/a%2Fb/urn%3Auuid%3A1": url,
		"/urlpattern/a%2Fb":                head + `urlpattern/a%2Fb","type":"subscriptions","subscriptions":[` + url + "]}",
		"/urlpattern/a%2fb":                head + `urlpattern/a%2Fb","type":"subscriptions","subscriptions":[` + url + "]}",
		"/exact/nobody":                    head + `exact/nobody","type":"subscriptions","subscriptions":[]}`,
		"/exact/urn%3Auuid%3A1":            head + `exact/urn%3Auuid%3A1","type":"subscriptions","subscriptions":[` + own + "]}", // not the one of the classic topic `exact`
		"/exact/a%2Fb/urn%3Auuid%3A3":      "404",
		"/exact/c/urn%3Auuid%3A3":          "404",
		"/urlpattern/a%2Fb/urn%3Auuid%3A2": "404",
		"/topic/a%2Fb/urn%3Auuid%3A1":      "404",
		"/regexp/a%2Fb/urn%3Auuid%3A1":     "404",
		"/EXACT/a%2Fb/urn%3Auuid%3A1":      "404",
		"/exact/a%2Fb/urn%3Auuid%3A1/":     "404",
		"/exact/a/b/urn%3Auuid%3A1":        "404",
		"/exact/a%252Fb/urn%3Auuid%3A1":    "404",
	} {
		for _, generation := range bothForms { // the path alone decides, whatever the token
			res := generation.ask(n, apiPath+path)
			body := slurp(t, res)
			if want == "404" {
				if res.StatusCode != http.StatusNotFound {
					t.Errorf("%q: %d %s, want 404", path, res.StatusCode, body)
				}
				continue
			}
			if res.StatusCode != http.StatusOK || body != want || res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%q: %d %s\ngot  %s\nwant %s", path, res.StatusCode, res.Header.Get("Content-Type"), body, want)
			}
			link := `</.well-known/mercure>; rel="mercure"; last-event-id="é \"1\\2\""; type="mercure"; content-type="application/json"`
			if got := res.Header.Get("Link"); got != link || cursorInLink(t, got) != id {
				t.Errorf("%q: Link %s", path, got)
			}
			if got := res.Header.Get("ETag"); got != `"%C3%A9%20%221\2%22"` || strings.Contains(strings.Join(res.Header.Values("Vary"), ","), "Accept,") {
				t.Errorf("%q: ETag %s, Vary %q", path, got, res.Header.Values("Vary"))
			}
		}
	}
	_, list := bothForms[1].list(n, apiPath+"/exact/a%2Fb")
	if len(list) != 2 || list[0].Subscriber == list[1].Subscriber || list[0].Match != "a/b" || list[1].MatchType != "exact" {
		t.Errorf("two subscribers are listed as %+v", list)
	}
	for path, status := range map[string]int{ // classic paths beside
		"/a%2Fb": 200, "/a%2Fb/urn%3Auuid%3A1": 200, "/exact": 200, "/urlpattern": 200, "/c/urn%3Auuid%3A3": 200, "/urn%3Auuid%3A1": 200,
	} {
		res := n.api(http.MethodGet, path, "X-Grant", "*", "X-Generation", "draft-08")
		if body := slurp(t, res); res.StatusCode != status || res.Header.Get("Content-Type") != "application/ld+json" || strings.Contains(body, "match") {
			t.Errorf("%q: %d %s", path, res.StatusCode, body)
		}
	}
}

// Without the classic generation its paths do not exist, and nobody sees its subscriptions.
//
// Covers: G-16, G-22, ACT-13.
func TestListsWithoutClassic(t *testing.T) {
	n := startNode(t, func(o *Options) { o.Directory, o.NoClassic = mixed(), true })
	for path, status := range map[string]int{
		"": 200, "/exact/a%2Fb": 200, "/exact/a%2Fb/urn%3Auuid%3A1": 200, "/urlpattern/a%2Fb": 200,
		"/a%2Fb": 404, "/a%2Fb/urn%3Auuid%3A1": 404, "/exact": 404, "/": 404, "/topic/a%2Fb/urn%3Auuid%3A1": 404,
	} {
		res := n.api(http.MethodGet, path, "X-Grant", "*", "Accept", "application/ld+json")
		if body := slurp(t, res); res.StatusCode != status || status == 200 && (res.Header.Get("Content-Type") != "application/json" || strings.Contains(body, `"topic"`)) {
			t.Errorf("%q: %d %s", path, res.StatusCode, body)
		}
		if status == 200 && res.Header.Get("ETag") != `"earliest"` { // there is one form of each
			t.Errorf("%q: ETag %s", path, res.Header.Get("ETag"))
		}
	}
	if _, list := bothForms[1].list(n, apiPath); len(list) != 4 {
		t.Errorf("%d are listed, want 4", len(list))
	}
}

// One URL lists everything of one generation: that of the token, else what the client asks for, else what the operator
// has chosen. Answers of the two never pass for each other.
//
// Covers: G-17, ACT-24.
func TestTheListOfEverythingHasTwoForms(t *testing.T) {
	const ld, plain = "application/ld+json", "application/json"
	for _, byDefault := range []string{"", "classic", "draft-08"} {
		n := startNode(t, func(o *Options) { o.Directory, o.DefaultGeneration = mixed(), byDefault })
		id := n.publish("topic", "x", "data", "y", "id", "i1")
		otherwise := map[string]string{"": ld, "classic": ld, "draft-08": plain}[byDefault]
		for _, c := range []struct{ generation, accept, want string }{
			{"classic", "", ld},
			{"classic", plain, ld},
			{"classic", ld, ld},
			{"draft-08", "", plain},
			{"draft-08", plain, plain},
			{"draft-08", ld, plain},
			{"", ld, ld},
			{"", "text/html, " + ld + ";q=0.5", ld},
			{"", "", otherwise},
			{"", "*/*", otherwise},
			{"", plain, otherwise},
			{"", ld + ";q=0", otherwise},
		} {
			headers := []string{"X-Grant", apiPath, "X-Generation", c.generation, "Accept", c.accept}
			res := n.api(http.MethodGet, "", headers...)
			body := slurp(t, res)
			if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != c.want {
				t.Errorf("default %q, %+v: %d %s", byDefault, c, res.StatusCode, res.Header.Get("Content-Type"))
				continue
			}
			own := map[string]int{ld: 3, plain: 4}[c.want]
			if n := strings.Count(body, `"active":true`); n != own || strings.Contains(body, `"match_type"`) == (c.want == ld) || strings.Contains(body, `"lastEventID"`) != (c.want == ld) {
				t.Errorf("default %q, %+v: %d subscriptions: %s", byDefault, c, n, body)
			}
			tag := map[string]string{ld: `"i1"`, plain: `"i1;draft-08"`}[c.want]
			if res.Header.Get("ETag") != tag || res.Header.Get("Vary") != "Accept, Authorization, Cookie" {
				t.Errorf("ETag %s, want %s; Vary %q", res.Header.Get("ETag"), tag, res.Header.Values("Vary"))
			}
			for sent, status := range map[string]int{`"i1"`: 200, `"i1;draft-08"`: 200, tag: 304, "W/" + tag: 304} {
				again := n.api(http.MethodGet, "", append(headers, "If-None-Match", sent)...)
				if slurp(t, again); again.StatusCode != status || again.Header.Get("Vary") != "Accept, Authorization, Cookie" {
					t.Errorf("%+v, If-None-Match %s: %d, want %d; Vary %q", c, sent, again.StatusCode, status, again.Header.Values("Vary"))
				}
			}
			if c.want == plain && cursorInLink(t, res.Header.Get("Link")) != id {
				t.Errorf("Link %s", res.Header.Get("Link"))
			}
		}
	}
	if _, err := New(Options{Authorizer: &openDoor{}, Transport: boundedLog(t, 1), DefaultGeneration: "draft-09"}); err == nil || !strings.Contains(err.Error(), "draft-09") {
		t.Errorf("a default that does not exist: %v", err)
	}
}

// Before anything was dispatched the cursor is the beginning, also where it is in a header.
//
// Covers: ACT-20, ACT-24.
func TestCursorOfAnEmptyLog(t *testing.T) {
	n := startNode(t, withDirectory(newDirectory()))
	f := bothForms[1]
	if cursor, list := f.list(n, apiPath+"/exact/a"); cursor != spec.Earliest || len(list) != 0 {
		t.Errorf("cursor %q, %+v", cursor, list)
	}
	for _, sent := range []string{`"earliest"`, `W/"earliest"`, "earliest"} {
		res := n.api(http.MethodGet, "/exact/a", "X-Grant", "*", "If-None-Match", sent)
		if slurp(t, res); res.StatusCode != http.StatusNotModified || res.Header.Get("ETag") != `"earliest"` || !strings.Contains(res.Header.Get("Link"), `last-event-id="earliest"`) {
			t.Errorf("If-None-Match %s: %d %v", sent, res.StatusCode, res.Header)
		}
	}
}

// The grant is on the path as sent, whichever the form, in the language of the token's selectors.
//
// Covers: ACT-14.
func TestDraft08ListsNeedAGrant(t *testing.T) {
	n := startNode(t, withDirectory(listedDirectory(presentAs(topic.Exact, "urn:uuid:1", "", "a b"))))
	for _, c := range []struct {
		grant, path string
		status      int
	}{
		{apiPath + "/exact/a%20b", "/exact/a%20b", 200},
		{apiPath + "/exact/a%20b", "/exact/%61%20b", 403},
		{apiPath + "/exact/a%20b", "/exact/a%20b?x=1", 200},
		{apiPath + "/exact/a%20b", "/exact/a%20b/urn%3Auuid%3A1", 403},
		{apiPath + "/exact/a%20b{/subscriber}", "/exact/a%20b/urn%3Auuid%3A1", 200},
		{apiPath + "/exact/a b", "/exact/a%20b", 403},
		{apiPath + "{/match_type}{/match}{/subscriber}", "/exact/a%20b/urn%3Auuid%3A1", 200},
		{allEvents, "/exact/a%20b/urn%3Auuid%3A1", 403},
		{allEvents, "/exact/a%20b", 200}, // looks like the classic one, and is what was asked for
		{"a b", "/exact/a%20b", 403},
		{"", "/exact/a%20b", 403},
	} {
		for _, f := range bothForms {
			res := n.api(http.MethodGet, c.path, "X-Grant", c.grant, "X-Generation", f.Name)
			if body := slurp(t, res); res.StatusCode != c.status {
				t.Errorf("grant %q, path %q: %d %s, want %d", c.grant, c.path, res.StatusCode, body, c.status)
			}
		}
	}
}
