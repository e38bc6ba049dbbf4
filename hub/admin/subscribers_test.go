package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/hub/admin"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// fakeDirectory lists who it was told.
type fakeDirectory struct {
	list []transport.Presence
	err  error
}

func (d *fakeDirectory) Attend(context.Context, func(transport.Presence) []*spec.Update, func()) error {
	return nil
}
func (d *fakeDirectory) Enter(context.Context, transport.Presence) error    { return nil }
func (d *fakeDirectory) Leave(context.Context, string) (bool, error)        { return true, nil }
func (d *fakeDirectory) List(context.Context) ([]transport.Presence, error) { return d.list, d.err }

// present makes a presence with classic selectors.
func present(subscriber, subject string, patterns ...string) transport.Presence {
	p := transport.Presence{Subscriber: subscriber, Subject: subject}
	for _, s := range patterns {
		p.Selectors = append(p.Selectors, topic.Selector{Kind: topic.Classic, Pattern: s})
	}
	return p
}

func crowd() *fakeDirectory {
	return &fakeDirectory{list: []transport.Presence{
		present("1", "ann", "https://e.example/a", "https://e.example/{x}"),
		present("2", "ann", "https://e.example/a"),
		present("3", "", "*"),
		present("4", "bob", "https://e.example/b"),
	}}
}

// listed are the options of a hub that keeps a list, and carries orders out by noting them in c.
func listed(d *fakeDirectory, c *fakeCluster) admin.Options {
	return admin.Options{Directory: func() transport.Directory { return d }, Disconnect: c.Disconnect}
}

func TestSubscriptionsAreCounted(t *testing.T) {
	for query, want := range map[string]string{
		"":                                     "4 5 https://e.example/a=2 *=1 https://e.example/b=1 https://e.example/{x}=1 +0",
		"?topic=https://e.example/a":           "3 4 https://e.example/a=2 *=1 https://e.example/{x}=1 +0",
		"?topic=https%3A%2F%2Fe.example%2F{x}": "2 2 *=1 https://e.example/{x}=1 +0",
		"?topic=https://e.example/c":           "2 2 *=1 https://e.example/{x}=1 +0",
		"?limit=1":                             "4 5 https://e.example/a=2 +3",
		"?limit=0":                             "4 5 +4",
	} {
		w := ask(t, listed(crowd(), &fakeCluster{}), "GET", "/subscriptions/counts"+query, nil)
		var c admin.Counts
		if err := json.Unmarshal(w.Body.Bytes(), &c); err != nil || w.Code != 200 {
			t.Errorf("%s: status %d, %v: %s", query, w.Code, err, w.Body)
			continue
		}
		got := fmt.Sprint(c.Subscribers, " ", c.Subscriptions)
		for _, s := range c.Selectors {
			got += fmt.Sprintf(" %s=%d", s.Selector, s.Subscriptions)
		}
		if got += fmt.Sprint(" +", c.More); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
}

// The same text in three languages is three selectors, each matched in its own; relative ones by the hub's URL.
func TestSelectorsOfAllKindsAreCounted(t *testing.T) {
	d := &fakeDirectory{list: []transport.Presence{{Subscriber: "1", Selectors: []topic.Selector{
		{Kind: topic.Classic, Pattern: "/rooms/*"},
		{Kind: topic.Exact, Pattern: "/rooms/*"},
		{Kind: topic.URLPattern, Pattern: "/rooms/*"},
		{Kind: topic.URLPattern, Pattern: "https://hub.example/rooms/:id"},
		{Kind: topic.Exact, Pattern: "/rooms/7"},
	}}}}
	o := listed(d, &fakeCluster{})
	o.Base = &url.URL{Scheme: "https", Host: "hub.example", Path: "/.well-known/mercure"}
	for query, want := range map[string]string{
		"":                 "[{ /rooms/* 1} {exact /rooms/* 1} {urlpattern /rooms/* 1} {exact /rooms/7 1} {urlpattern https://hub.example/rooms/:id 1}]",
		"?topic=/rooms/7":  "[{urlpattern /rooms/* 1} {exact /rooms/7 1} {urlpattern https://hub.example/rooms/:id 1}]",
		"?topic=/rooms/*":  "[{ /rooms/* 1} {exact /rooms/* 1} {urlpattern /rooms/* 1} {urlpattern https://hub.example/rooms/:id 1}]",
		"?topic=/room/one": "[]",
	} {
		var c admin.Counts
		if err := json.Unmarshal(ask(t, o, "GET", "/subscriptions/counts"+query, nil).Body.Bytes(), &c); err != nil || fmt.Sprint(c.Selectors) != want {
			t.Errorf("%s: got %v, %v, want %s", query, c.Selectors, err, want)
		}
	}
}

func TestCountsThatCannotBeHad(t *testing.T) {
	starting := admin.Options{Directory: func() transport.Directory { return nil }}
	for name, tt := range map[string]struct {
		options admin.Options
		path    string
		status  int
		body    string
	}{
		"feature off":  {admin.Options{}, "", 404, "--subscriptions"},
		"too early":    {starting, "", 503, "starting"},
		"no directory": {listed(&fakeDirectory{err: transport.ErrUnavailable}, nil), "", 503, "unavailable"},
		"bad limit":    {listed(crowd(), nil), "?limit=x", 400, "limit"},
		"huge limit":   {listed(crowd(), nil), "?limit=100001", 400, "limit"},
		"nobody there": {listed(&fakeDirectory{}, nil), "", 200, `"selectors": []`},
	} {
		t.Run(name, func(t *testing.T) {
			w := ask(t, tt.options, "GET", "/subscriptions/counts"+tt.path, nil)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.body) {
				t.Errorf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
		})
	}
}

func TestSubscribersAreDisconnected(t *testing.T) {
	for name, tt := range map[string]struct {
		body   string
		status int
		answer string
		bans   []transport.Ban
	}{
		"a subject":               {`{"subject":"eve","for":"1h"}`, 200, `"streams": 2`, []transport.Ban{{Subject: "eve", For: time.Hour}}},
		"for a while":             {`{"subject":"eve"}`, 200, `"for": "5m0s"`, []transport.Ban{{Subject: "eve", For: 5 * time.Minute}}},
		"who may come back":       {`{"subject":"eve","for":"0s"}`, 200, `"for": "0s"`, []transport.Ban{{Subject: "eve"}}},
		"a subscriber":            {`{"subscriber":"2","for":"1h"}`, 200, `"subject": "ann"`, []transport.Ban{{Subscriber: "2", Subject: "ann", For: time.Hour}}},
		"a subscriber of no name": {`{"subscriber":"3"}`, 200, `"streams": 2`, []transport.Ban{{Subscriber: "3", For: 5 * time.Minute}}},
		"nobody":                  {`{"subscriber":"9"}`, 404, "no subscriber", nil},
		"both":                    {`{"subscriber":"1","subject":"ann"}`, 400, "either", nil},
		"neither":                 {`{"for":"5m"}`, 400, "either", nil},
		"not a duration":          {`{"subject":"eve","for":"5"}`, 400, "for: ", nil},
		"for ever":                {`{"subject":"eve","for":"25h"}`, 400, "24 hours", nil},
		"before":                  {`{"subject":"eve","for":"-1s"}`, 400, "24 hours", nil},
		"a misspelt name":         {`{"subjekt":"eve"}`, 400, "subjekt", nil},
		"no JSON":                 {"subject=eve", 400, "JSON", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := &fakeCluster{}
			w := post(t, listed(crowd(), c), tt.body, nil)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.answer) {
				t.Errorf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if !slices.Equal(c.bans, tt.bans) {
				t.Errorf("bans %+v, want %+v", c.bans, tt.bans)
			}
		})
	}
}

func TestDisconnectingThatFails(t *testing.T) {
	const subject, subscriber = `{"subject":"eve"}`, `{"subscriber":"1"}`
	for name, tt := range map[string]struct {
		options admin.Options
		body    string
		status  int
	}{
		"the node refuses":                  {listed(crowd(), &fakeCluster{err: transport.ErrRefused}), subject, 409},
		"no node serves":                    {listed(crowd(), &fakeCluster{err: transport.ErrUnavailable}), subject, 503},
		"a subject without a list":          {admin.Options{Disconnect: (&fakeCluster{}).Disconnect}, subject, 200},
		"a subscriber without a list":       {admin.Options{Disconnect: (&fakeCluster{}).Disconnect}, subscriber, 404},
		"a subscriber, list cannot be read": {listed(&fakeDirectory{err: transport.ErrUnavailable}, &fakeCluster{}), subscriber, 503},
		"no such order":                     {admin.Options{}, subject, 404},
	} {
		t.Run(name, func(t *testing.T) {
			if w := post(t, tt.options, tt.body, nil); w.Code != tt.status {
				t.Errorf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
		})
	}
	c := &fakeCluster{}
	if w := post(t, listed(crowd(), c), subject, http.Header{"Sec-Fetch-Site": {"cross-site"}}); w.Code != 403 || c.bans != nil {
		t.Errorf("an order of another page: status %d", w.Code)
	}
}

func post(t *testing.T, o admin.Options, body string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/subscribers/disconnect", strings.NewReader(body))
	r.Host = "127.0.0.1:3001"
	maps.Copy(r.Header, header)
	admin.Handler(o).ServeHTTP(w, r)
	return w
}
