package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/hub/admin"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// fakeCluster has one node, called a.
type fakeCluster struct {
	err    error
	orders []string
	bans   []transport.Ban
}

func (c *fakeCluster) Cluster(context.Context) (transport.ClusterState, error) {
	return transport.ClusterState{
		Node:   "a",
		Nodes:  []transport.Node{{Name: "a", Answers: true, Position: 7, NodeReport: transport.NodeReport{Ready: true}}},
		Stream: transport.Stream{Name: "cinnabar", Quorum: true},
	}, c.err
}

func (c *fakeCluster) Node() (string, string)                             { return "a", "cluster" }
func (c *fakeCluster) Serve(context.Context, transport.NodeControl) error { return nil }
func (c *fakeCluster) Peers() int                                         { return 0 }

func (c *fakeCluster) order(verb, name string) error {
	if name != "a" {
		return fmt.Errorf("%s %q: %w", verb, name, transport.ErrNoNode)
	}
	if c.err == nil {
		c.orders = append(c.orders, verb+" "+name)
	}
	return c.err
}

func (c *fakeCluster) DrainNode(_ context.Context, name string) error { return c.order("drain", name) }

func (c *fakeCluster) Disconnect(_ context.Context, b transport.Ban) (transport.Banned, error) {
	if err := b.Validate(); err != nil {
		return transport.Banned{}, err
	}
	if c.err != nil {
		return transport.Banned{}, c.err
	}
	c.bans = append(c.bans, b)
	return transport.Banned{Streams: 2, Nodes: []transport.NodeBanned{{Name: "a", Answers: true, Streams: 2}, {Name: "b"}}}, nil
}

func (c *fakeCluster) UndrainNode(_ context.Context, name string) error {
	return c.order("undrain", name)
}

func ask(t *testing.T, o admin.Options, method, target string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody)
	r.Host = "127.0.0.1:3001"
	maps.Copy(r.Header, header)
	admin.Handler(o).ServeHTTP(w, r)
	return w
}

func TestClusterAnswers(t *testing.T) {
	of := func(c *fakeCluster) admin.Options {
		return admin.Options{Cluster: func() transport.Cluster { return c }}
	}
	const drain = "/cluster/nodes/a/drain"
	for name, tt := range map[string]struct {
		options admin.Options
		method  string
		path    string
		status  int
		body    string
	}{
		"state":                    {of(&fakeCluster{}), "GET", "/cluster", 200, `"quorum": true`},
		"drain":                    {of(&fakeCluster{}), "POST", drain, 202, "begun"},
		"a name that needs escape": {of(&fakeCluster{}), "POST", "/cluster/nodes/a%2Fb/undrain", 404, "a/b"},
		"no such node":             {of(&fakeCluster{}), "POST", "/cluster/nodes/b/drain", 404, `"b": no node of this name answers`},
		"a node refuses":           {of(&fakeCluster{err: transport.ErrRefused}), "POST", drain, 409, "refuses"},
		"no answer":                {of(&fakeCluster{err: transport.ErrUnavailable}), "POST", drain, 503, "unavailable"},
		"closed":                   {of(&fakeCluster{err: transport.ErrClosed}), "GET", "/cluster", 503, "closed"},
		"an order is no question":  {of(&fakeCluster{}), "GET", drain, 405, ""},
		"a log in memory":          {admin.Options{}, "GET", "/cluster", 404, "memory"},
		"an order to one":          {admin.Options{}, "POST", drain, 404, "memory"},
		"too early":                {admin.Options{Cluster: func() transport.Cluster { return nil }}, "GET", "/cluster", 503, "starting"},
	} {
		t.Run(name, func(t *testing.T) {
			w := ask(t, tt.options, tt.method, tt.path, nil)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.body) {
				t.Errorf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
		})
	}
}

func TestClusterStateIsWhatTheNodesSay(t *testing.T) {
	w := ask(t, admin.Options{Cluster: func() transport.Cluster { return &fakeCluster{} }}, "GET", "/cluster", nil)
	var s transport.ClusterState
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if w.Header().Get("Content-Type") != "application/json" || s.Node != "a" || len(s.Nodes) != 1 || s.Nodes[0].Position != 7 || !s.Nodes[0].Ready {
		t.Errorf("%v %+v", w.Header(), s)
	}
}

// TestOrdersFromPagesAreRefused: a page in the browser of somebody on this machine can send a POST to a loopback
// listener without a preflight.
func TestOrdersFromPagesAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		header http.Header
		status int
	}{
		"a command line":               {nil, 202},
		"a page of another site":       {http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}, 403},
		"another port of this machine": {http.Header{"Sec-Fetch-Site": {"same-site"}, "Origin": {"http://127.0.0.1:8080"}}, 403},
		"an old browser":               {http.Header{"Origin": {"https://evil.example"}}, 403},
		"a page without an origin":     {http.Header{"Origin": {"null"}}, 403},
		"a page of this listener":      {http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://127.0.0.1:3001"}}, 202},
		"typed into the address bar":   {http.Header{"Sec-Fetch-Site": {"none"}}, 202},
		"an old browser, our own page": {http.Header{"Origin": {"http://127.0.0.1:3001"}}, 202},
	} {
		t.Run(name, func(t *testing.T) {
			c := &fakeCluster{}
			w := ask(t, admin.Options{Cluster: func() transport.Cluster { return c }}, "POST", "/cluster/nodes/a/undrain", tt.header)
			want := []string{"undrain a"}
			if tt.status != 202 {
				want = nil
			}
			if w.Code != tt.status || !slices.Equal(c.orders, want) {
				t.Errorf("status %d, want %d; orders %q", w.Code, tt.status, c.orders)
			}
		})
	}
}
