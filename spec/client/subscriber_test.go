package client_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/client"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// reply answers one request.
type reply func(*http.Request) (*http.Response, error)

// script answers each request with the next of its answers; the last one is repeated. It needs no network,
// so it runs in a bubble.
type script struct {
	answers []reply
	seen    []*http.Request
	at      []time.Duration
	start   time.Time
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.start.IsZero() {
		s.start = time.Now()
	}
	n := min(len(s.seen), len(s.answers)-1)
	s.seen = append(s.seen, r)
	s.at = append(s.at, time.Since(s.start))
	return s.answers[n](r)
}

func (s *script) cursors() (c []string) {
	for _, r := range s.seen {
		c = append(c, r.Header.Get("Last-Event-ID"))
	}
	return c
}

func answer(status int, header map[string]string, body string) reply {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"text/event-stream"}}
		for k, v := range header {
			h.Set(k, v)
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

func stream(body string) reply { return answer(200, nil, body) }

func broken(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

// gone ends a script: the hub says not to come back.
var gone = answer(204, nil, "")

func TestSubscriberResumesAfterTheLastWholeEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []reply{
			stream(":\nretry: 10\nid: e1\ndata: one\n\nid: e2\ndata: tw"), // cut off in e2
			stream(":\nid: e2\nevent: t\ndata: two\n\n"),
			gone,
		}}
		sub := client.Subscriber{URL: "http://hub/x?y=1", Token: "T", Topics: []string{"a b", "{x}"}, HTTP: &http.Client{Transport: s}}
		var got []sse.Event
		err := sub.Run(t.Context(), func(e sse.Event) error {
			got = append(got, sse.Event{ID: e.ID, Type: e.Type, Data: e.Data})
			return nil
		})
		if err != nil {
			t.Errorf("204 is no error, got %v", err)
		}
		want := []sse.Event{{ID: "e1", Data: "one"}, {ID: "e2", Type: "t", Data: "two"}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
		if c := s.cursors(); !reflect.DeepEqual(c, []string{"", "e1", "e2"}) {
			t.Errorf("cursors %q", c)
		}
		r := s.seen[0]
		if got := r.URL.String(); got != "http://hub/x?y=1&topic=a+b&topic=%7Bx%7D" {
			t.Errorf("url %s", got)
		}
		if r.Header.Get("Accept") != "text/event-stream" || r.Header.Get("Authorization") != "Bearer T" {
			t.Errorf("header %v", r.Header)
		}
	})
}

// TestSubscriberKeepsItsCursorAsABrowserDoes looks at what the request after a stream asks for, and at the
// id of an event without one on the stream after it.
func TestSubscriberKeepsItsCursorAsABrowserDoes(t *testing.T) {
	for name, tt := range map[string]struct {
		first, stream string
		cursor, query string // of the second request
		id            string // of an event on the second stream that has none
	}{
		"an id without data":                    {"", "id: e1\ndata: x\n\nid: e2\n\n", "e2", "", "e2"},
		"an empty id":                           {"", "id: e1\ndata: x\n\nid:\ndata: y\n\n", "", "", ""},
		"an empty id without data":              {"e0", "id:\n\n", "", "", ""},
		"an id that is cut off":                 {"", "id: e1\ndata: x\n\nid: e2\ndata: y\n", "e1", "", "e1"},
		"no id at all":                          {"e0", ":\n\ndata: x\n\n", "e0", "", "e0"},
		"an id that no header holds":            {"", "id: a\x01b\ndata: x\n\n", "", "a\x01b", "a\x01b"},
		"an id that a header would be cut from": {"", "id:  e1 \ndata: x\n\n", "", " e1 ", " e1 "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []reply{stream(tt.stream), stream("data: last\n\n")}}
				sub := client.Subscriber{URL: "http://hub/?a=b", LastEventID: tt.first, HTTP: &http.Client{Transport: s}}
				err := sub.Run(t.Context(), func(e sse.Event) error {
					if e.Data != "last" {
						return nil
					}
					if e.ID != tt.id {
						t.Errorf("id %q, want %q", e.ID, tt.id)
					}
					return client.ErrStop
				})
				if err != nil || len(s.seen) != 2 {
					t.Fatalf("%d requests: %v", len(s.seen), err)
				}
				r := s.seen[1]
				if header := r.Header.Get("Last-Event-ID"); header != tt.cursor || r.URL.Query().Get("lastEventID") != tt.query {
					t.Errorf("header %q, query %s; want %q, %q", header, r.URL.RawQuery, tt.cursor, tt.query)
				}
			})
		})
	}
}

func TestSubscriberSpeaksTheGenerationOfItsSelectors(t *testing.T) {
	for name, tt := range map[string]struct {
		sub   client.Subscriber
		query string
	}{
		"classic":  {client.Subscriber{Topics: []string{"a b", "{c}"}}, "topic=a+b&topic=%7Bc%7D&lastEventID=%01"},
		"draft-08": {client.Subscriber{Match: []string{"a", "*"}, URLPatterns: []string{"/b/:c"}}, "match=a&match=%2A&match_urlpattern=%2Fb%2F%3Ac&last_event_id=%01"},
		"both":     {client.Subscriber{Topics: []string{"a"}, Match: []string{"b"}}, "topic=a&match=b&lastEventID=%01"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{answers: []reply{stream("data: x\n\n")}}
			tt.sub.URL, tt.sub.LastEventID, tt.sub.HTTP = "http://hub/", "\x01", &http.Client{Transport: s}
			if err := tt.sub.Run(t.Context(), func(sse.Event) error { return client.ErrStop }); err != nil || len(s.seen) != 1 {
				t.Fatalf("%d requests: %v", len(s.seen), err)
			}
			if got := s.seen[0].URL.RawQuery; got != tt.query {
				t.Errorf("query %s, want %s", got, tt.query)
			}
		})
	}
}

// Covers: SUB-02.
func TestSubscriberUsesQueryForWhatNoURLHolds(t *testing.T) {
	many := make([]string, 90)
	for i := range many {
		many[i] = fmt.Sprint("https://example.com/", strings.Repeat("x", 100), "/", i)
	}
	for name, tt := range map[string]struct {
		sub  client.Subscriber
		body bool
	}{
		"classic":            {client.Subscriber{Topics: many}, false},
		"both":               {client.Subscriber{Topics: []string{"a"}, Match: many}, false},
		"few of draft-08":    {client.Subscriber{Match: many[:10]}, false},
		"topics":             {client.Subscriber{Match: many}, true},
		"patterns":           {client.Subscriber{Match: many[:1], URLPatterns: many[1:]}, true},
		"a URL with a query": {client.Subscriber{URL: "http://hub/?x=y", Match: many}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			s := &script{answers: []reply{func(r *http.Request) (*http.Response, error) {
				b, err := io.ReadAll(r.Body)
				got = string(b)
				if err != nil {
					return nil, err
				}
				return stream("data: x\n\n")(r)
			}}}
			tt.sub.URL, tt.sub.HTTP, tt.sub.LastEventID = cmp.Or(tt.sub.URL, "http://hub/"), &http.Client{Transport: s}, "\x01"
			if err := tt.sub.Run(t.Context(), func(sse.Event) error { return client.ErrStop }); err != nil {
				t.Fatal(err)
			}
			r := s.seen[0]
			if !tt.body {
				if r.Method != http.MethodGet || got != "" || !strings.Contains(r.URL.RawQuery, "https%3A") {
					t.Errorf("%s with the query %.40q and the body %.40q, want GET", r.Method, r.URL.RawQuery, got)
				}
				return
			}
			form, err := url.ParseQuery(got)
			if err != nil || r.Method != "QUERY" || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.URL.String() != tt.sub.URL {
				t.Fatalf("%s %s, Content-Type %q, body %.80q (%v)", r.Method, r.URL, r.Header.Get("Content-Type"), got, err)
			}
			if !slices.Equal(slices.Concat(form["match"], form["match_urlpattern"]), many) || form.Get("last_event_id") != "\x01" {
				t.Errorf("the body is %.200q", got)
			}
		})
	}
}

func TestEndedIsTrueForStreamsOnly(t *testing.T) {
	hungUp := func(*http.Request) (*http.Response, error) { return nil, io.EOF }
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []reply{stream(""), hungUp, gone}}
		var ended []bool
		sub := client.Subscriber{
			URL: "http://hub/", HTTP: &http.Client{Transport: s},
			OnRetry: func(cause error, _ time.Duration) { ended = append(ended, client.Ended(cause)) },
		}
		if err := sub.Run(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(ended, []bool{true, false}) {
			t.Errorf("ended: %v; want true for the stream, false for the hub that hung up before it answered", ended)
		}
	})
}

func TestSubscriberWaitsAsAskedAndARandomTimeMore(t *testing.T) {
	for name, tt := range map[string]struct {
		before  []reply
		asked   time.Duration
		ceiling time.Duration
	}{
		"after a stream, the default":    {[]reply{stream("")}, 3 * time.Second, time.Second},
		"after a stream, the hub's time": {[]reply{stream("retry: 50\n")}, 50 * time.Millisecond, time.Second},
		"a refused stream that says when": {
			[]reply{stream("retry: 10\n"), answer(503, map[string]string{"Retry-After": "20"}, "")},
			20 * time.Second, 2 * time.Second,
		},
		"longer with each failure": {
			[]reply{stream("retry: 10\n"), broken, broken, broken},
			10 * time.Millisecond, 8 * time.Second,
		},
		"but not beyond half a minute": {
			append([]reply{stream("retry: 10\n")}, repeat(reply(broken), 40)...),
			10 * time.Millisecond, 30 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var least, most time.Duration
			for range 60 {
				synctest.Test(t, func(t *testing.T) {
					s := &script{answers: append(append([]reply{}, tt.before...), gone)}
					sub := client.Subscriber{URL: "http://hub/", HTTP: &http.Client{Transport: s}}
					if err := sub.Run(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
					n := len(s.at)
					if n != len(tt.before)+1 {
						t.Fatalf("%d requests, want %d", n, len(tt.before)+1)
					}
					wait := s.at[n-1] - s.at[n-2]
					if wait < tt.asked || wait > tt.asked+tt.ceiling {
						t.Errorf("waited %s, want %s to %s", wait, tt.asked, tt.asked+tt.ceiling)
					}
					if least == 0 || wait < least {
						least = wait
					}
					most = max(most, wait)
				})
			}
			if spread := most - least; spread < tt.ceiling/2 {
				t.Errorf("waits spread over %s only, of %s", spread, tt.ceiling)
			}
		})
	}
}

func repeat[T any](x T, n int) (xs []T) {
	for range n {
		xs = append(xs, x)
	}
	return xs
}

func TestSubscriberReportsLoss(t *testing.T) {
	for name, tt := range map[string]struct {
		cursor string
		header map[string]string
		want   client.Open
	}{
		"resumed":                 {"e1", map[string]string{"Last-Event-ID": "e1"}, client.Open{Sent: "e1", Got: "e1"}},
		"lost":                    {"e1", map[string]string{"Last-Event-ID": "earliest"}, client.Open{Sent: "e1", Got: "earliest", Lost: true}},
		"lost, by its new name":   {"e1", map[string]string{"Mercure-Last-Event-ID": "earliest"}, client.Open{Sent: "e1", Got: "earliest", Lost: true}},
		"everything asked for":    {"earliest", map[string]string{"Last-Event-ID": "earliest"}, client.Open{Sent: "earliest", Got: "earliest"}},
		"a hub that does not say": {"e1", nil, client.Open{Sent: "e1"}},
		"no cursor":               {"", nil, client.Open{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{answers: []reply{answer(200, tt.header, "data: x\n\n")}}
			var got []client.Open
			sub := client.Subscriber{
				URL: "http://hub/", LastEventID: tt.cursor, HTTP: &http.Client{Transport: s},
				OnOpen: func(o client.Open) { got = append(got, o) },
			}
			if err := sub.Run(t.Context(), func(sse.Event) error { return client.ErrStop }); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, []client.Open{tt.want}) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestSubscriberEndsWhen(t *testing.T) {
	mine := errors.New("mine")
	cancelled := errors.New("cancelled")
	for name, tt := range map[string]struct {
		answers  []reply
		fn       error
		cancel   bool
		first    bool
		want     error // nil with status 0 = no error
		status   int
		requests int
	}{
		"the function stops it":                {[]reply{stream("data: x\n\n")}, client.ErrStop, false, false, nil, 0, 1},
		"the function fails":                   {[]reply{stream("data: x\n\n")}, mine, false, false, mine, 0, 1},
		"refused":                              {[]reply{answer(401, nil, "")}, nil, false, false, nil, 401, 1},
		"refused later":                        {[]reply{stream(""), broken, answer(403, nil, "")}, nil, false, false, nil, 403, 3},
		"not a stream":                         {[]reply{answer(200, map[string]string{"Content-Type": "text/html"}, "")}, nil, false, false, nil, 200, 1},
		"the first attempt is refused for now": {[]reply{answer(503, nil, "")}, nil, false, false, nil, 503, 1},
		"unless told to go on":                 {[]reply{answer(503, nil, ""), answer(410, nil, "")}, nil, false, true, nil, 410, 2},
		"an event is too long":                 {[]reply{stream("data: " + strings.Repeat("x", 200) + "\n\n")}, nil, false, false, sse.ErrTooLong, 0, 1},
		"its context ends while waiting":       {[]reply{stream("")}, nil, true, false, cancelled, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: tt.answers}
				ctx, cancel := context.WithCancelCause(t.Context())
				sub := client.Subscriber{URL: "http://hub/", HTTP: &http.Client{Transport: s}, MaxEvent: 100, RetryFirst: tt.first}
				if tt.cancel {
					sub.OnRetry = func(cause error, _ time.Duration) {
						if !client.Ended(cause) {
							t.Errorf("cause %v, want an end of the stream", cause)
						}
						cancel(cancelled)
					}
				}
				err := sub.Run(ctx, func(sse.Event) error { return tt.fn })
				answer, refused := errors.AsType[*client.Error](err)
				switch {
				case tt.status != 0:
					if !refused || answer.Status != tt.status {
						t.Errorf("error %v, want status %d", err, tt.status)
					}
				case !errors.Is(err, tt.want):
					t.Errorf("error %v, want %v", err, tt.want)
				}
				if len(s.seen) != tt.requests {
					t.Errorf("%d requests, want %d", len(s.seen), tt.requests)
				}
				cancel(nil)
			})
		})
	}
}

// TestSubscriberLeavesTheConnection checks, over a real one, that a stopped subscriber hangs up and that
// cancelling ends a silent stream.
func TestSubscriberLeavesTheConnection(t *testing.T) {
	left := make(chan struct{}, 2)
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ":\ndata: x\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		left <- struct{}{}
	}))
	defer hub.Close()
	sub := client.Subscriber{URL: hub.URL, Topics: []string{"a"}}
	if err := sub.Run(t.Context(), func(sse.Event) error { return client.ErrStop }); err != nil {
		t.Error(err)
	}
	<-left

	ctx, cancel := context.WithCancel(t.Context())
	if err := sub.Run(ctx, func(sse.Event) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-left
}
