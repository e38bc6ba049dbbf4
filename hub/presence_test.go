package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

const (
	allEvents = "/.well-known/mercure/subscriptions{/topic}{/subscriber}"
	apiPath   = "/.well-known/mercure/subscriptions"
)

// withDirectory turns active subscriptions on.
func withDirectory(d transport.Directory) func(*Options) { return func(o *Options) { o.Directory = d } }

var subscriberID = regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// Covers: ACT-02, ACT-03, ACT-04, ACT-05, ACT-06, ACT-07, ACT-08, ACT-09, ACT-10, ACT-11, G-15.
func TestSubscriptionsAreTold(t *testing.T) {
	for name, hijack := range map[string]bool{"shard": true, "handler": false} {
		for _, f := range bothForms {
			t.Run(name+" "+f.Name, func(t *testing.T) { subscriptionsAreTold(t, f, hijack) })
		}
	}
}

func subscriptionsAreTold(t *testing.T, f form, hijack bool) {
	t.Helper()
	d := newDirectory()
	n := startNode(t, withDirectory(d))
	n.noHijack = !hijack
	watch := f.watch(n)
	one := n.subscribe(f.query("a b", "c", "c"))
	first, second := watch.told(), watch.told()
	a, c := topic.Selector{Kind: f.kind, Pattern: "a b"}, topic.Selector{Kind: f.kind, Pattern: "c"}
	if first.selector() != a || second.selector() != c || !first.Active || !second.Active {
		t.Errorf("%+v, %+v", first, second)
	}
	if first.Subscriber != second.Subscriber || !subscriberID.MatchString(first.Subscriber) {
		t.Errorf("subscribers %q and %q", first.Subscriber, second.Subscriber)
	}
	if want := f.path("a b", first.Subscriber); first.ID != want || !strings.Contains(want, "/a%20b/urn%3Auuid%3A") {
		t.Errorf("id %q, want %q", first.ID, want)
	}
	if len(d.all()) != 2 {
		t.Errorf("%d are listed, want 2", len(d.all()))
	}
	two := n.subscribe(f.query("c"))
	if other := watch.told(); other.Subscriber == first.Subscriber || other.selector() != c {
		t.Errorf("another connection is %+v", other)
	}
	_ = one.res.Body.Close()
	ends := []string{watch.ended(t, first.Subscriber), watch.ended(t, first.Subscriber)}
	if slices.Sort(ends); !slices.Equal(ends, []string{"a b", "c"}) {
		t.Errorf("ends of %q are told", ends)
	}
	_ = two.res.Body.Close()
	watch.told()
	eventually(t, "forgotten", func() bool { return len(d.all()) == 1 })
}

// Each subscription of one stream is told of in the form of its own parameter, once.
//
// Covers: G-10, G-15, SUB-12.
func TestEachSubscriptionInItsOwnForm(t *testing.T) {
	d := newDirectory()
	n := startNode(t, withDirectory(d))
	watch := n.subscribe("topic=*", "X-Grant", "*")
	watch.told()
	s := n.subscribe("match=a&topic=a&topic=b/{c}&match_urlpattern=*&match_exact=*&match_exact=a")
	want := []topic.Selector{
		{Kind: topic.Classic, Pattern: "a"},
		{Kind: topic.Classic, Pattern: "b/{c}"},
		{Kind: topic.Exact, Pattern: "a"},
		{Kind: topic.URLPattern, Pattern: "*"},
		{Kind: topic.Exact, Pattern: "*"},
	}
	for i, w := range want {
		if e := watch.told(); e.selector() != w || !e.Active {
			t.Errorf("event %d is %+v, want %v", i, e, w)
		}
	}
	_ = s.res.Body.Close()
	for range want {
		if e := watch.told(); e.Active || !slices.Contains(want, e.selector()) {
			t.Errorf("%+v is no end of these", e)
		}
	}
	n.publish("topic", "/end", "data", `{"type":"subscription","match_type":"none"}`)
	if e, err := watch.next(); err != nil || !strings.Contains(e.Data, "none") {
		t.Errorf("there is more: %+v, %v", e, err)
	}
}

// With both forms, what the other generation can say is told of in its form as well.
//
// Covers: G-15.
func TestBothFormsOfEvents(t *testing.T) {
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprint("strict ", strict), func(t *testing.T) {
			d := newDirectory()
			n := startNode(t, func(o *Options) { o.Directory, o.BothEvents, o.NoClassic = d, true, strict })
			watch := n.subscribe("match=*", "X-Grant", "*")
			query := "match=a&match=p/{q}&match_urlpattern=*&match=both&match=*"
			want := map[topic.Selector]string{
				{Kind: topic.Exact, Pattern: "a"}: `"A"`, {Kind: topic.Exact, Pattern: "p/{q}"}: "", {Kind: topic.URLPattern, Pattern: "*"}: "",
				{Kind: topic.Exact, Pattern: "both"}: "", {Kind: topic.Exact, Pattern: "*"}: "",
			}
			own := 1
			if !strict {
				query += "&topic=both&topic=b&topic=b/{c}"
				own = 2
				maps.Copy(want, map[topic.Selector]string{
					{Kind: topic.Classic, Pattern: "both"}: "", {Kind: topic.Classic, Pattern: "b"}: `"B"`, {Kind: topic.Classic, Pattern: "b/{c}"}: "",
					{Kind: topic.Classic, Pattern: "a"}: `"A"`, {Kind: topic.Classic, Pattern: "*"}: "", {Kind: topic.Exact, Pattern: "b"}: `"B"`,
				})
			}
			for range own {
				watch.told()
			}
			s := n.subscribe(query, "X-Payloads", `{"a":"A","b":"B"}`)
			var subscriber string
			hear := func(active bool) {
				t.Helper()
				heard := map[topic.Selector]string{}
				for range want {
					e := watch.told()
					if _, twice := heard[e.selector()]; twice || e.Active != active || e.ID != spec.GenerationOf(e.selector().Kind).Describe.Path(n.o.Path, spec.Subscription{Selector: e.selector(), Subscriber: e.Subscriber}) {
						t.Errorf("%+v", e)
					}
					heard[e.selector()], subscriber = string(e.Payload), e.Subscriber
				}
				if !maps.Equal(heard, want) {
					t.Errorf("heard %v, want %v", heard, want)
				}
			}
			hear(true)
			for _, p := range d.all() {
				if p.Subscriber != subscriber {
					continue
				}
				dead := map[string]bool{}
				for _, u := range d.gone(p) {
					dead[u.Topics[0]] = true
				}
				if len(dead) != len(want) {
					t.Errorf("after the death of the node %v are told, want %d", dead, len(want))
				}
			}
			_ = s.res.Body.Close()
			hear(false)
			n.publish("topic", "/end", "data", `{"type":"subscription","match_type":"none"}`)
			if e, err := watch.next(); err != nil || !strings.Contains(e.Data, "none") {
				t.Errorf("there is more: %+v, %v", e, err)
			}
		})
	}
}

// Whoever has a kind of selector that this version does not know is told of and listed by those who do.
func TestKindsOfAnotherVersion(t *testing.T) {
	p := present("urn:uuid:1", "", "a")
	p.Selectors = append(p.Selectors, topic.Selector{Kind: 99, Pattern: "?"})
	d := listedDirectory(p)
	n := startNode(t, withDirectory(d))
	if events := d.gone(p); len(events) != 1 || !strings.Contains(events[0].Data, `"topic":"a"`) {
		t.Errorf("%+v", events)
	}
	for _, f := range bothForms {
		if _, list := f.list(n, apiPath); len(list) > 1 || len(list) == 1 && list[0].Topic != "a" {
			t.Errorf("%s lists %+v", f.Name, list)
		}
	}
}

// Covers: ACT-29, ACT-30, D08-19.
func TestPayloadsOfSubscriptions(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		want    [3]string // of a, b and c
	}{
		"one for all":      {[]string{"X-Payload", "{ \"user\":\t7 }"}, [3]string{`{"user":7}`, `{"user":7}`, `{"user":7}`}},
		"none":             {nil, [3]string{}},
		"one each":         {[]string{"X-Payloads", `{"a": {"n": 1}, "b": {"n":2}}`}, [3]string{`{"n":1}`, `{"n":2}`, ""}},
		"the same each":    {[]string{"X-Payloads", `{"a": {}, "b": {}, "c": {}}`}, [3]string{"{}", "{}", "{}"}},
		"for all of them":  {[]string{"X-Payloads", `{"*": {}}`}, [3]string{"{}", "{}", "{}"}},
		"the first counts": {[]string{"X-Payloads", `{"*": {}, "a": {"n":1}}`}, [3]string{"{}", "{}", "{}"}},
		"for none of them": {[]string{"X-Payloads", `{"x": {}}`}, [3]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			inBothForms(t, func(t *testing.T, f form) {
				t.Helper()
				n := startNode(t, withDirectory(newDirectory()))
				watch := f.watch(n)
				s := n.subscribe(f.query("a", "b", "c"), c.headers...)
				for i, pattern := range []string{"a", "b", "c"} {
					e := watch.told()
					if e.selector().Pattern != pattern || string(e.Payload) != c.want[i] {
						t.Errorf("%+v has the payload %s, want %s", e, e.Payload, c.want[i])
					}
					var doc told
					if err := json.Unmarshal([]byte(slurp(t, f.ask(n, e.ID))), &doc); err != nil || string(doc.Payload) != c.want[i] {
						t.Errorf("its document has the payload %s, want %s (%v)", doc.Payload, c.want[i], err)
					}
				}
				_, list := f.list(n, apiPath)
				for _, doc := range list {
					i := strings.Index("abc", doc.selector().Pattern)
					if i >= 0 && string(doc.Payload) != c.want[i] {
						t.Errorf("in the list %+v has the payload %s, want %s", doc, doc.Payload, c.want[i])
					}
				}
				_ = s.res.Body.Close()
				for range 3 {
					e := watch.told()
					if want := c.want[strings.Index("abc", e.selector().Pattern)]; string(e.Payload) != want {
						t.Errorf("the end %+v has the payload %s, want %s", e, e.Payload, want)
					}
				}
			})
		})
	}
}

// Whoever hears of a subscription finds it in a list, and nobody is in a list any more of whom the end was heard.
//
// Covers: ACT-11, ACT-19, ACT-22.
func TestListedBeforeItIsTold(t *testing.T) { inBothForms(t, listedBeforeItIsTold) }

func listedBeforeItIsTold(t *testing.T, f form) {
	t.Helper()
	d := newDirectory()
	n := startNode(t, withDirectory(d))
	watch := f.watch(n)
	for i := range 50 {
		s := n.subscribe(f.query(fmt.Sprint("t", i)))
		for _, there := range []bool{true, false} {
			e := watch.told()
			w := n.serve(http.MethodGet, e.ID, "", "X-Grant", "*")
			if status := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[there]; w.Code != status || e.Active != there {
				t.Fatalf("%+v, then its document is %d", e, w.Code)
			}
			_ = s.res.Body.Close()
		}
	}
}

// A list and its cursor leave nothing out: whatever changed after the list comes after the cursor.
//
// Covers: ACT-19, ACT-20.
func TestListAndCursorMissNothing(t *testing.T) { inBothForms(t, listAndCursorMissNothing) }

func listAndCursorMissNothing(t *testing.T, f form) {
	t.Helper()
	d := newDirectory()
	n := startNode(t, withDirectory(d))
	stop := make(chan struct{})
	var churn sync.WaitGroup
	for i := range 4 {
		churn.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				res := n.get(f.query(fmt.Sprint("churn", i)))
				_ = res.Body.Close()
			}
		})
	}
	type document struct {
		cursor string
		all    []told
	}
	lists := make([]document, 20)
	for i := range lists {
		lists[i].cursor, lists[i].all = f.list(n, apiPath)
		time.Sleep(2 * time.Millisecond)
	}
	close(stop)
	churn.Wait()
	eventually(t, "everybody has left", func() bool { return len(d.all()) == 0 })
	eventually(t, "everything is told", func() bool { return testutil.ToFloat64(n.metrics.PresenceWaiting) == 0 })
	for i, doc := range lists {
		there := map[string]bool{}
		for _, s := range doc.all {
			there[s.ID] = true
		}
		last := n.publish("topic", "/end", "data", "end")
		s := n.subscribe("topic=/end&topic="+f.events, "X-Grant", f.events, "Last-Event-ID", doc.cursor)
		for {
			e, err := s.next()
			if err != nil {
				t.Fatal(err)
			}
			if e.ID == last {
				break
			}
			if e.Data == "end" {
				continue
			}
			var one told
			if err := json.Unmarshal([]byte(e.Data), &one); err != nil {
				t.Fatal(err)
			}
			if there[one.ID] = one.Active; one.Topic == "/end" || one.Topic == f.events {
				delete(there, one.ID) // readers like this one
			}
		}
		for id, active := range there {
			if active {
				t.Errorf("list %d at %q: %s is still there", i, doc.cursor, id)
			}
		}
		_ = s.res.Body.Close()
	}
}

// A stream that is over before anybody could write it down is told of all the same.
//
// Covers: ACT-02, ACT-11.
func TestBriefStreamsAreTold(t *testing.T) {
	d := newDirectory()
	entering, release := make(chan struct{}, 2*workersServing), make(chan struct{})
	d.onEnter = func(context.Context) error {
		entering <- struct{}{}
		<-release
		return nil
	}
	n := startNode(t, withDirectory(d))
	for range workersServing { // keep all workers busy
		n.subscribe("topic=busy")
		<-entering
	}
	watch := n.subscribe("topic="+strings.ReplaceAll(allEvents, "{/topic}", "/brief"), "X-Grant", allEvents)
	_ = n.subscribe("topic=brief").res.Body.Close()
	eventually(t, "the brief one has left", func() bool { return n.Connections() == workersServing+1 })
	close(release)
	if begin, end := watch.told(), watch.told(); !begin.Active || end.Active || begin.ID != end.ID {
		t.Errorf("%+v, then %+v", begin, end)
	}
	eventually(t, "all but the brief one are listed", func() bool { return len(d.all()) == workersServing+1 })
}

// Covers: ACT-01.
func TestWithoutDirectoryThereIsNothing(t *testing.T) {
	n := startNode(t, nil)
	watch := n.subscribe("topic=/end&topic="+allEvents, "X-Grant", allEvents)
	n.subscribe("topic=a")
	for _, path := range []string{apiPath, apiPath + "/a", apiPath + "/a/b"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost} {
			if w := n.serve(method, path, "", "X-Grant", "*"); w.Code != http.StatusNotFound {
				t.Errorf("%s %s: %d, want 404", method, path, w.Code)
			}
		}
	}
	n.publish("topic", "/end", "data", "end")
	watch.want("end")
	if _, err := n.Presences(t.Context()); !errors.Is(err, ErrNoSubscriptions) {
		t.Errorf("presences: %v", err)
	}
}

// A stream that could not be registered is told to nobody.
//
// Covers: ACT-11.
func TestNobodyHearsOfAStreamThatFailed(t *testing.T) {
	d := newDirectory()
	fails := false
	n := startNode(t, func(o *Options) {
		o.Directory = d
		o.Transport = &faultyLog{Transport: boundedLog(t, 100), onLocate: func() error {
			if fails {
				return transport.ErrUnavailable
			}
			return nil
		}}
	})
	watch := n.subscribe("topic=/end&topic="+allEvents, "X-Grant", allEvents)
	watch.told()
	watch.told()
	fails = true
	if res := n.get("topic=a", "Last-Event-ID", "x"); res.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("status %d", res.StatusCode)
	}
	n.publish("topic", "/end", "data", "end")
	watch.want("end")
	if len(d.all()) != 1 {
		t.Errorf("%d are listed, want the watcher", len(d.all()))
	}
}

// A directory that cannot be written delays what is told, and no stream.
//
// Covers: ACT-11.
func TestDirectoryFails(t *testing.T) {
	d := newDirectory()
	var down atomic.Bool
	down.Store(true)
	d.onEnter = func(context.Context) error {
		if down.Load() {
			return transport.ErrUnavailable
		}
		return nil
	}
	n := startNode(t, withDirectory(d))
	brief := n.subscribe("topic=brief")
	s := n.subscribe("topic=a&topic="+allEvents, "X-Grant", allEvents)
	n.publish("topic", "a", "data", "served")
	s.want("served")
	eventually(t, "tried", func() bool { return testutil.ToFloat64(n.metrics.PresenceFailures.WithLabelValues("enter")) >= 3 })
	_ = brief.res.Body.Close()
	eventually(t, "left", func() bool { return n.Connections() == 1 })
	down.Store(false)
	if a, b := s.told(), s.told(); a.Topic != "a" || b.Topic != allEvents || !a.Active || !b.Active {
		t.Errorf("%+v %+v", a, b)
	}
	n.publish("topic", "a", "data", "nobody heard of the brief one")
	s.want("nobody heard of the brief one")
}

// A log that takes nothing for a while gets every event in the end, in order.
//
// Covers: ACT-02.
func TestLogFails(t *testing.T) {
	d := newDirectory()
	var calls atomic.Int64
	n := startNode(t, func(o *Options) {
		o.Directory = d
		o.Transport = &faultyLog{Transport: boundedLog(t, 1000), onAppend: func(context.Context) error {
			if calls.Add(1)%3 != 0 {
				return transport.ErrUnavailable
			}
			return nil
		}}
	})
	watch := n.subscribe("topic="+allEvents, "X-Grant", allEvents)
	watch.told()
	s := n.subscribe("topic=1&topic=2&topic=3")
	for _, want := range []string{"1", "2", "3"} {
		if e := watch.told(); e.Topic != want || !e.Active {
			t.Errorf("%+v, want %s", e, want)
		}
	}
	_ = s.res.Body.Close()
	left := []string{watch.told().Topic, watch.told().Topic, watch.told().Topic}
	if slices.Sort(left); !slices.Equal(left, []string{"1", "2", "3"}) {
		t.Errorf("ends of %q", left)
	}
}

// A node that was taken for dead enters and announces its streams again.
//
// Covers: ACT-28.
func TestLostAndEnteredAgain(t *testing.T) { inBothForms(t, lostAndEnteredAgain) }

func lostAndEnteredAgain(t *testing.T, f form) {
	t.Helper()
	d := newDirectory()
	n := startNode(t, withDirectory(d))
	watch := f.watch(n)
	n.subscribe(f.query("a", "b"))
	first, second := watch.told(), watch.told()
	for _, p := range d.all() {
		for i, u := range d.gone(p) {
			var doc told
			if err := json.Unmarshal([]byte(u.Data), &doc); err != nil || !u.Private || doc.Active || doc.selector() != p.Selectors[i] || u.Topics[0] != doc.ID ||
				u.Type != spec.GenerationOf(p.Selectors[i].Kind).Describe.EventType {
				t.Errorf("%+v: %v", u, err)
			}
		}
	}
	d.forget()
	again := map[string]string{}
	for range map[bool]int{true: 3, false: 2}[f.own] {
		e := watch.told()
		if !e.Active {
			t.Errorf("%+v", e)
		}
		again[e.ID] = e.Subscriber
	}
	if again[first.ID] != first.Subscriber || again[second.ID] != second.Subscriber {
		t.Errorf("announced %q, it was %+v and %+v", again, first, second)
	}
	eventually(t, "both are listed again", func() bool { return len(d.all()) == 2 })
}

// The ends of a node's subscriptions are told before it is out of service.
//
// Covers: ACT-02, SUB-38.
func TestShutdownTellsEverything(t *testing.T) {
	for _, way := range []string{"drain", "stop"} {
		t.Run(way, func(t *testing.T) {
			d := newDirectory()
			n := startNode(t, withDirectory(d))
			const streams = 200
			for i := range streams {
				n.subscribe(fmt.Sprintf("topic=t%d&match=t%d", i, i))
			}
			eventually(t, "listed", func() bool { return len(d.all()) == streams })
			if way == "drain" {
				if err := n.Drain(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			} else {
				n.stop()
			}
			if left := len(d.all()); left != 0 {
				t.Errorf("%d are still listed", left)
			}
			active := 0
			for e, err := range n.log.Scan(t.Context(), 0, 1<<40, nil) {
				if err != nil {
					t.Fatal(err)
				}
				if active--; strings.Contains(e.Update.Data, `"active":true`) {
					active += 2
				}
			}
			if active != 0 {
				t.Errorf("%d more begins than ends were told", active)
			}
		})
	}
}

// A hub stops in time although nothing can be written any more.
func TestStopsWithoutDirectory(t *testing.T) {
	d := newDirectory()
	d.onLeave = func(context.Context) error { return transport.ErrUnavailable }
	inBubble(t, withDirectory(d), func(c *crowd) {
		c.open()
		synctest.Wait()
		c.end()
		synctest.Wait()
		if got := testutil.ToFloat64(c.metrics.PresenceFailures.WithLabelValues("leave")); got == 0 {
			t.Error("leaving did not fail")
		}
	})
}

// end lets all clients leave.
func (c *crowd) end() {
	for _, s := range c.fanout.snapshot() {
		s.end(endClient)
	}
}

// Covers: SUB-28.
func TestAttendIsTriedAgainAndHoldsNothingUp(t *testing.T) {
	d := newDirectory()
	var tries atomic.Int64
	d.onAttend = func(context.Context) error {
		if tries.Add(1) < 4 {
			return transport.ErrUnavailable
		}
		return nil
	}
	inBubble(t, withDirectory(d), func(c *crowd) {
		w := c.open()
		synctest.Wait()
		if w.Code != http.StatusOK || len(d.all()) != 0 {
			t.Errorf("status %d, %d listed", w.Code, len(d.all()))
		}
		if w := c.serve(http.MethodGet, apiPath, "", "X-Grant", "*"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("a list that is not complete: %d", w.Code)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(d.all()) != 1 {
			t.Errorf("%d are listed after the directory came", len(d.all()))
		}
	})
}

// as opens a stream with a subject.
func (c *crowd) as(subject, query string) (leave func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, spec.DefaultHubPath+"?"+query, nil)
	subject, issuer, _ := strings.Cut(subject, "@")
	r.Header.Set("X-Subject", subject)
	r.Header.Set("X-Issuer", issuer)
	c.all.Go(func() { c.Handler().ServeHTTP(w, r) })
	synctest.Wait()
	return func() { cancel(); synctest.Wait() }
}

// events returns what was told from a position on, as + or -, a colon for draft-08, and the pattern.
func (c *crowd) events(after *transport.Position) string {
	synctest.Wait()
	var list []string
	for e, err := range c.log.Scan(c.t.Context(), *after, 1<<40, nil) {
		if err != nil {
			c.t.Fatal(err)
		}
		*after = e.Pos
		var doc told
		if err := json.Unmarshal([]byte(e.Update.Data), &doc); err != nil {
			c.t.Fatal(err)
		}
		generation := map[bool]string{true: ":"}[doc.MatchType != ""]
		list = append(list, map[bool]string{true: "+", false: "-"}[doc.Active]+generation+doc.selector().Pattern)
	}
	return strings.Join(list, " ")
}

func TestRejoinGrace(t *testing.T) {
	d := newDirectory()
	grace := func(o *Options) { o.Directory, o.RejoinGrace = d, 10*time.Second }
	want := func(c *crowd, pos *transport.Position, what, events string) {
		t.Helper()
		if got := c.events(pos); got != events {
			t.Errorf("%s: %q is told, want %q", what, got, events)
		}
	}
	// Workers take those who leave at the same time in any order.
	together := func(c *crowd, pos *transport.Position, what, events string) {
		t.Helper()
		got, expected := strings.Fields(c.events(pos)), strings.Fields(events)
		slices.Sort(got)
		if slices.Sort(expected); !slices.Equal(got, expected) {
			t.Errorf("%s: %q is told, want %q", what, got, expected)
		}
	}
	inBubble(t, grace, func(c *crowd) {
		var pos transport.Position
		leave := c.as("sub", "topic=a&topic=b")
		want(c, &pos, "coming", "+a +b")
		id := d.all()[0].Subscriber
		leave()
		time.Sleep(9 * time.Second)
		want(c, &pos, "away", "")
		if len(d.all()) != 1 {
			t.Error("whoever is away for a moment is listed")
		}
		leave = c.as("sub", "topic=b&topic=a")
		time.Sleep(time.Minute)
		want(c, &pos, "back in time", "")
		if d.all()[0].Subscriber != id || testutil.ToFloat64(c.metrics.Rejoins) != 1 {
			t.Errorf("%+v", d.all())
		}
		other := c.as("sub", "topic=a")
		want(c, &pos, "other selectors", "+a")
		stranger := c.as("other", "topic=a&topic=b")
		want(c, &pos, "another subject", "+a +b")
		leave()
		other()
		stranger()
		time.Sleep(11 * time.Second)
		together(c, &pos, "away for good", "-b -a -a -b -a")
		if len(d.all()) != 0 {
			t.Errorf("%+v are listed", d.all())
		}
		leave = c.as("sub", "topic=a&match=a")
		want(c, &pos, "too late", "+a +:a")
		leave()
		if n, err := c.Disconnect(c.ctx, transport.Ban{Subject: "sub"}); n != 0 || err != nil {
			t.Errorf("%d streams, %v", n, err)
		}
		want(c, &pos, "disconnected while away", "-:a -a")

		leave = c.as("sub@https://a.example", "topic=a")
		want(c, &pos, "of an issuer", "+a")
		leave()
		stranger = c.as("sub@https://b.example", "topic=a")
		want(c, &pos, "the same subject of another issuer", "+a")
		leave = c.as("sub@https://a.example", "topic=a")
		want(c, &pos, "of the issuer, back in time", "")
		leave()
		stranger()
		time.Sleep(11 * time.Second)
		together(c, &pos, "of issuers, away for good", "-a -a")

		leave = c.as("sub", "match=a&match_urlpattern=*&topic=*")
		want(c, &pos, "draft-08", "+* +:a +:*")
		leave()
		stranger = c.as("sub", "match=a&match=*&topic=*")
		want(c, &pos, "the same patterns of other kinds", "+* +:a +:*")
		leave = c.as("sub", "match_urlpattern=*&match_exact=a&topic=*")
		want(c, &pos, "draft-08 back in time", "")
		leave()
		stranger()
		time.Sleep(11 * time.Second)
		together(c, &pos, "draft-08 away for good", "-:* -:a -* -:* -:a -*")

		nobody := c.as("", "topic=a")
		want(c, &pos, "no subject", "+a")
		nobody()
		want(c, &pos, "no subject, gone", "-a")

		leave = c.as("sub", "topic=a")
		want(c, &pos, "again", "+a")
		leave()
		d.forget()
		want(c, &pos, "the node was taken for dead", "")
		time.Sleep(11 * time.Second)
		want(c, &pos, "and told nothing more", "")
		leave = c.as("sub", "topic=a")
		want(c, &pos, "and again", "+a")
		leave()
		if err := c.Drain(c.ctx, 0); err != nil {
			t.Error(err)
		}
		want(c, &pos, "drained", "-a")
	})
}
