package hub

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// twoDoors is an Authorizer whose grants are of draft-08 with X-Generation: draft-08 and classic otherwise. Everybody may
// publish; a subscriber is granted the selector in X-Grant, an exact one or a URL pattern (X-Type) under draft-08.
type twoDoors struct{}

func (twoDoors) Authorize(r *http.Request, act spec.Action) (*auth.Grant, error) {
	if r.Header.Get("X-Generation") != spec.Draft08.Name {
		return (&openDoor{}).Authorize(r, act)
	}
	g := &auth.Grant{Action: act, Dialect: spec.Draft08.Name, Expires: time.Now().Add(time.Hour)}
	sel := topic.Selector{Kind: topic.Exact, Pattern: r.Header.Get("X-Grant")}
	if r.Header.Get("X-Type") == topic.TypeURLPattern {
		sel.Kind = topic.URLPattern
	}
	if act == spec.ActionPublish {
		sel.Pattern = spec.Wildcard
	}
	if sel.Pattern == "" {
		return g, nil
	}
	m, err := topic.Compile(sel, &url.URL{Scheme: "http", Host: "localhost", Path: spec.DefaultHubPath}, topic.Limits{})
	g.Topics = []topic.Matcher{m}
	return g, err
}

func fromDraft08(headers ...string) []string {
	return append([]string{"X-Generation", spec.Draft08.Name}, headers...)
}

// Covers: PUB-07, PUB-08, PUB-09, PUB-23, G-11, SEC-02.
func TestReservedTopicsOfBothGenerations(t *testing.T) {
	raw, err := os.ReadFile("../spec/vectors/reserved-topics.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Cases []struct {
			ID, Topic     string
			Draft08Status int `json:"draft08_status"`
			ClassicStatus int `json:"classic_status"`
		}
	}
	if err := json.Unmarshal(raw, &v); err != nil || len(v.Cases) != 41 {
		t.Fatalf("%d cases, want 41: %v", len(v.Cases), err)
	}
	n := newNode(t, func(o *Options) {
		o.Authorizer, o.PublicURL = twoDoors{}, mustParse(t, "https://hub.example.com/.well-known/mercure")
	})
	for _, c := range v.Cases {
		t.Run(c.ID, func(t *testing.T) {
			form := url.Values{"topic": {c.Topic}}.Encode()
			if w := n.post(form, fromDraft08()...); w.Code != c.Draft08Status {
				t.Errorf("%q of a draft-08 publisher: %d, want %d: %s", c.Topic, w.Code, c.Draft08Status, w.Body)
			}
			if w := n.post(form); w.Code != c.ClassicStatus {
				t.Errorf("%q of a classic publisher: %d, want %d: %s", c.Topic, w.Code, c.ClassicStatus, w.Body)
			}
			if w := n.post("topic=a&"+form, fromDraft08()...); w.Code != c.Draft08Status {
				t.Errorf("%q as an alternate: %d, want %d: %s", c.Topic, w.Code, c.Draft08Status, w.Body)
			}
		})
	}
}

// Covers: PUB-17, G-12, PUB-10, MAT-17, PUB-12, PUB-06, G-13.
func TestFieldsAreTheSameForBothGenerations(t *testing.T) {
	n := newNode(t, func(o *Options) { o.Authorizer = twoDoors{} })
	for form, status := range map[string]int{
		"topic=a": 200, "topic=a&type=mercure": 400, "topic=a&type=Mercure": 200, "topic=*": 400, "topic=a&id=earliest": 400,
		"topic=a&id=%23x": 400, "topic=a%0A": 400, "topic=a&type=%E2%80%AE": 400, "topic=a&target=b": 400,
	} {
		for generation, headers := range map[string][]string{"classic": nil, "draft-08": fromDraft08()} {
			if w := n.post(form, headers...); w.Code != status {
				t.Errorf("%s, %s: %d, want %d: %s", form, generation, w.Code, status, w.Body)
			}
		}
	}
}

// An update reaches whoever selects its topics, whatever generation published it and whatever one reads. A private one
// is checked against the reader's own grants.
//
// Covers: MAT-19, G-21, D08-16, CLA-02, SUB-22.
func TestUpdatesCrossGenerations(t *testing.T) {
	n := startNode(t, func(o *Options) { o.Authorizer = twoDoors{} })
	readers := map[string]*stream{
		"classic":             n.subscribe("topic=/books/{id}", "X-Grant", "/books/{id}"),
		"classic, no grant":   n.subscribe("topic=/books/{id}"),
		"classic, elsewhere":  n.subscribe("topic=/books/{id}", "X-Grant", "/films/{id}"),
		"draft-08":            n.subscribe("match=/books/1", fromDraft08("X-Grant", "/books/1")...),
		"draft-08, all":       n.subscribe("match=*", fromDraft08("X-Grant", "*")...),
		"draft-08, no grant":  n.subscribe("match=/books/1", fromDraft08()...),
		"draft-08, elsewhere": n.subscribe("match=/books/1", fromDraft08("X-Grant", "/books/{id}")...), // no template there
		"draft-08, pattern":   n.subscribe("match_urlpattern=/books/:id", fromDraft08("X-Grant", "/books/:id", "X-Type", "urlpattern")...),
		"draft-08, patterns":  n.subscribe("match_urlpattern=/books/:id", fromDraft08("X-Grant", "/films/:id", "X-Type", "urlpattern")...),
		"mixed parameters":    n.subscribe("match=/books/1&topic=/books/{id}", fromDraft08("X-Grant", "/books/1")...),
		"foreign parameters":  n.subscribe("topic=/books/{id}", fromDraft08("X-Grant", "/books/1")...),
		"foreign parameters2": n.subscribe("match=/books/1", "X-Grant", "/books/{id}"),
	}
	post := func(form string, headers ...string) {
		t.Helper()
		if w := n.post(form, headers...); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", form, w.Code, w.Body)
		}
	}
	post("topic=/books/1&data=classic-private&private=on")
	post("topic=/books/1&data=draft-private&private=on", fromDraft08()...)
	post("topic=/books/1&data=classic")
	post("topic=/books/1&data=draft", fromDraft08()...)
	for name, s := range readers {
		switch name {
		case "classic, no grant", "classic, elsewhere", "draft-08, no grant", "draft-08, elsewhere", "draft-08, patterns":
			s.want("classic", "draft")
		default:
			s.want("classic-private", "draft-private", "classic", "draft")
		}
	}
}

// Covers: SUB-08, SUB-09, SUB-10, SUB-11, SUB-12, SUB-13, SUB-14, SUB-15, SUB-17, SUB-20, G-09, G-10, MAT-07, MAT-09, MAT-16.
func TestMatchersOfARequest(t *testing.T) {
	n := startNode(t, nil)
	for query, c := range map[string]struct {
		status int
		gets   []string // of the topics below, in this order
	}{
		"match=a":                              {200, []string{"a"}},
		"match_exact=a":                        {200, []string{"a"}},
		"match=a&match=b&match_exact=c":        {200, []string{"a", "b", "c"}},
		"match=a&match=a&match_exact=a":        {200, []string{"a"}},
		"match=*":                              {200, []string{"a", "b", "c", "a;b", "é", "{x}", "100%"}},
		"match_exact=*":                        {200, []string{"a", "b", "c", "a;b", "é", "{x}", "100%"}},
		"match={x}":                            {200, []string{"{x}"}},
		"topic={x}":                            {200, []string{"a", "b", "c", "{x}"}},
		"topic={x}&match=%C3%A9&match=a":       {200, []string{"a", "b", "c", "é", "{x}"}},
		"match=a;b":                            {200, []string{"a;b"}},
		"match=100%":                           {200, []string{"100%"}},
		"%6Datch=%61":                          {200, []string{"a"}},
		"match=e%CC%81":                        {200, nil},           // é in two characters
		"match=/a":                             {200, nil},           // no base
		"match_urlpattern=a":                   {200, []string{"a"}}, // both relative to the hub
		"match_urlpattern=:any":                {200, []string{"a", "b", "c", "a;b", "é", "{x}", "100%"}},
		"match_urlpattern=*":                   {200, []string{"a", "b", "c", "a;b", "é", "{x}", "100%"}},
		"match_urlpattern=/a":                  {200, nil},
		"match=b&match_urlpattern=a&topic={x}": {200, []string{"a", "b", "c", "{x}"}},
		"match_urlpattern=/(":                  {400, nil},

		"":                            {400, nil},
		"other=a":                     {400, nil},
		"Match=a":                     {400, nil},
		"match=a&Match=b":             {400, nil},
		"match=a&MATCHES=1":           {400, nil},
		"match=a&matchId=3":           {400, nil},
		"match=a&match_regexp=x":      {400, nil},
		"match=a&match_Exact=x":       {400, nil},
		"topic=a&match%5Furl=x":       {400, nil},
		"match=%00":                   {400, nil},
		"match=%FF":                   {400, nil},
		"match=%E2%80%AE":             {400, nil},
		"match=%C2%85":                {400, nil},
		"match=a&match_exact=%7F":     {400, nil},
		"match_urlpattern=%0A":        {400, nil},
		"topic=a&match=b&topic=%0A":   {400, nil},
		"match=a&match_exact&topic=b": {200, []string{"a", "b"}},
	} {
		t.Run(query, func(t *testing.T) {
			n := *n
			n.t = t
			res := n.get(query)
			if c.status == http.StatusOK { // with the mark that comes last
				res = n.get(query + "&match_exact=the+end")
			}
			if res.StatusCode != c.status {
				t.Fatalf("%d, want %d: %s", res.StatusCode, c.status, slurp(t, res))
			}
			if c.status != http.StatusOK {
				return
			}
			s := n.wantStream(res)
			for _, one := range []string{"a", "b", "c", "a;b", "é", "{x}", "100%"} {
				n.publish("topic", one, "data", query+one)
			}
			for _, one := range c.gets {
				s.want(query + one)
			}
			n.publish("topic", "the end", "data", query)
			if e, err := s.next(); err != nil || e.Data != query {
				t.Errorf("one too many: %q, %v", e.Data, err)
			}
		})
	}
}

// A refusal says which parameter, and which of many selectors, in our words.
//
// Covers: SUB-17.
func TestARefusedSelectorIsNamed(t *testing.T) {
	n := startNode(t, func(o *Options) { o.Limits.Variables = 2 })
	long := "https://example.com/" + strings.Repeat("é", 100) + "/("
	for query, want := range map[string]string{
		"match_urlpattern=*&match_urlpattern=/(&match=b":       `the parameter "match_urlpattern" has a selector that is not a valid URL pattern, or one that is not supported: "/(" (`,
		"match_urlpattern=" + url.QueryEscape(long):            `: "https://example.com/` + strings.Repeat("é", 30) + `"… (`,
		"match=b&match_urlpattern=/:a/:b/:c":                   `the parameter "match_urlpattern" has a selector that is too complex: at most 4096 bytes and 2 variables or groups are allowed: "/:a/:b/:c" (`,
		"match=b&topic=" + url.QueryEscape("x{?a}{?b}{?c}{d}"): `the parameter "topic" has a selector that is too complex: at most 4096 bytes and 2 variables or groups are allowed: "x{?a}{?b}{?c}{d}" (`,
	} {
		res := n.get(query)
		if got := slurp(t, res); res.StatusCode != http.StatusBadRequest || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s, want 400 with %s", query, res.StatusCode, got, want)
		}
	}
}

// A hub of draft-08 alone knows nothing of the other generation.
//
// Covers: G-22, REC-03, REC-10, G-08.
func TestWithoutClassic(t *testing.T) {
	n := startNode(t, func(o *Options) { o.NoClassic, o.Authorizer = true, twoDoors{} })
	for _, id := range []string{"e1", "e2"} {
		n.publish("topic", "a", "id", id, "data", id)
	}
	for _, query := range []string{"topic=a", "match=a&topic=b", "match=a&%74opic=b"} {
		if res := n.get(query); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", query, res.StatusCode)
		}
	}
	if res := n.query("match=a", "topic=b"); res.StatusCode != http.StatusBadRequest {
		t.Errorf("topic in the body of a query: %d", res.StatusCode)
	}
	for name, c := range map[string]struct {
		query, header, echo string
		want                []string
	}{
		"its own parameter": {"match=a&last_event_id=e1", "", "e1", []string{"e2"}},
		"the header":        {"match=a", "e1", "e1", []string{"e2"}},
		"both":              {"match=a&last_event_id=e2", "e1", "e1", []string{"e2"}},
		"the classic name":  {"match=a&lastEventID=e1", "", "", nil},
		"its old spellings": {"match=a&Last-Event-ID=e1&last-event-id=e1&Last-Event-Id=e1", "", "", nil},
		"an empty one":      {"match=a&last_event_id=", "", "earliest", nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := *n
			n.t = t
			var headers []string
			if c.header != "" {
				headers = []string{spec.HeaderLastEventID, c.header}
			}
			s := n.subscribe(c.query, headers...)
			if got := s.res.Header.Get(spec.HeaderMercureLastEventID); got != c.echo {
				t.Errorf("the cursor is answered with %q, want %q", got, c.echo)
			}
			if got := s.res.Header.Values(spec.HeaderLastEventID); len(got) > 0 {
				t.Errorf("the classic header is sent: %q", got)
			}
			s.want(c.want...)
			n.publish("topic", "a", "type", "end", "data", name)
			for {
				e, err := s.next()
				if err != nil || e.Type != "end" {
					t.Fatalf("%+v, %v", e, err)
				}
				if e.Data == name {
					return
				}
			}
		})
	}
	if w := n.serve(http.MethodHead, spec.DefaultHubPath+"?match=a&last_event_id=e1", ""); w.Header().Get(spec.HeaderMercureLastEventID) != "e1" || w.Header().Get(spec.HeaderLastEventID) != "" {
		t.Errorf("HEAD: %v", w.Header())
	}
}
