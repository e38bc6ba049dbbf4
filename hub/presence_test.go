package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/cinnabar-hub/cinnabar/transport"
)

const (
	allEvents = "/.well-known/mercure/subscriptions{/topic}{/subscriber}"
	apiPath   = "/.well-known/mercure/subscriptions"
)

// withDirectory turns active subscriptions on.
func withDirectory(d transport.Directory) func(*Options) { return func(o *Options) { o.Directory = d } }

// told is a subscription event as a client reads it.
type told struct {
	Context    string `json:"@context"`
	ID         string
	Type       string
	Topic      string
	Subscriber string
	Active     bool
	Payload    json.RawMessage
}

func (s *stream) told() told {
	s.t.Helper()
	e, err := s.next()
	if err != nil {
		s.t.Fatalf("no event: %v", err)
	}
	if e.Type != "" {
		s.t.Errorf("the event has the type %q", e.Type)
	}
	var doc told
	if err := json.Unmarshal([]byte(e.Data), &doc); err != nil {
		s.t.Fatalf("%q: %v", e.Data, err)
	}
	return doc
}

var subscriberID = regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// Covers: ACT-02, ACT-03, ACT-06, ACT-09, ACT-10, ACT-11.
func TestSubscriptionsAreTold(t *testing.T) {
	for name, hijack := range map[string]bool{"shard": true, "handler": false} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory()
			n := startNode(t, withDirectory(d))
			n.noHijack = !hijack
			watch := n.subscribe("topic="+allEvents, "X-Grant", allEvents)
			if own := watch.told(); own.Topic != allEvents || !own.Active {
				t.Errorf("a watcher of everything hears %+v of itself first", own)
			}
			one := n.subscribe("topic=a%20b&topic=c&topic=c")
			first, second := watch.told(), watch.told()
			if first.Topic != "a b" || second.Topic != "c" || !first.Active || !second.Active {
				t.Errorf("%+v, %+v", first, second)
			}
			if first.Subscriber != second.Subscriber || !subscriberID.MatchString(first.Subscriber) {
				t.Errorf("subscribers %q and %q", first.Subscriber, second.Subscriber)
			}
			if want := apiPath + "/a%20b/" + strings.ReplaceAll(first.Subscriber, ":", "%3A"); first.ID != want {
				t.Errorf("id %q, want %q", first.ID, want)
			}
			if len(d.all()) != 2 {
				t.Errorf("%d are listed, want 2", len(d.all()))
			}
			two := n.subscribe("topic=c")
			if other := watch.told(); other.Subscriber == first.Subscriber || other.Topic != "c" {
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
		})
	}
}

// ended returns the topic of the next event, which has to be an end of subscriber's.
func (s *stream) ended(t *testing.T, subscriber string) string {
	t.Helper()
	e := s.told()
	if e.Active || e.Subscriber != subscriber {
		t.Errorf("%+v, want an end of %s", e, subscriber)
	}
	return e.Topic
}

// Whoever hears of a subscription finds it in a list, and nobody is in a list any more of whom the end was heard.
//
// Covers: ACT-11, ACT-19.
func TestListedBeforeItIsTold(t *testing.T) {
	d := newDirectory()
	n := startNode(t, withDirectory(d))
	watch := n.subscribe("topic="+allEvents, "X-Grant", allEvents)
	watch.told()
	for i := range 50 {
		s := n.subscribe(fmt.Sprintf("topic=t%d", i))
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
// Covers: ACT-19.
func TestListAndCursorMissNothing(t *testing.T) {
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
				res := n.get(fmt.Sprintf("topic=churn%d", i))
				_ = res.Body.Close()
			}
		})
	}
	type document struct {
		LastEventID   string
		Subscriptions []told
	}
	var lists []document
	for range 20 {
		var doc document
		if err := json.Unmarshal(n.serve(http.MethodGet, apiPath, "", "X-Grant", "*").Body.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		lists = append(lists, doc)
		time.Sleep(2 * time.Millisecond)
	}
	close(stop)
	churn.Wait()
	eventually(t, "everybody has left", func() bool { return len(d.all()) == 0 })
	eventually(t, "everything is told", func() bool { return testutil.ToFloat64(n.metrics.PresenceWaiting) == 0 })
	for i, doc := range lists {
		there := map[string]bool{}
		for _, s := range doc.Subscriptions {
			there[s.ID] = true
		}
		last := n.publish("topic", "/end", "data", "end")
		s := n.subscribe("topic=/end&topic="+allEvents, "X-Grant", allEvents, "Last-Event-ID", doc.LastEventID)
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
			if there[one.ID] = one.Active; one.Topic == "/end" || one.Topic == allEvents {
				delete(there, one.ID) // readers like this one
			}
		}
		for id, active := range there {
			if active {
				t.Errorf("list %d at %q: %s is still there", i, doc.LastEventID, id)
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
	if len(d.all()) != workersServing+1 {
		t.Errorf("%d are listed", len(d.all()))
	}
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
func TestLostAndEnteredAgain(t *testing.T) {
	d := newDirectory()
	n := startNode(t, withDirectory(d))
	watch := n.subscribe("topic="+allEvents, "X-Grant", allEvents)
	watch.told()
	n.subscribe("topic=a")
	first := watch.told()
	for _, p := range d.all() {
		for i, u := range d.gone(p) {
			var doc told
			if err := json.Unmarshal([]byte(u.Data), &doc); err != nil || !u.Private || doc.Active || doc.Topic != p.Selectors[i].Pattern || u.Topics[0] != doc.ID {
				t.Errorf("%+v: %v", u, err)
			}
		}
	}
	d.forget()
	again := map[string]string{}
	for range 2 {
		e := watch.told()
		if !e.Active {
			t.Errorf("%+v", e)
		}
		again[e.Topic] = e.Subscriber
	}
	if again["a"] != first.Subscriber {
		t.Errorf("announced %q as a, it was %q", again["a"], first.Subscriber)
	}
	if len(d.all()) != 2 {
		t.Errorf("%d are listed", len(d.all()))
	}
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
				n.subscribe(fmt.Sprintf("topic=t%d", i))
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
	r.Header.Set("X-Subject", subject)
	c.all.Go(func() { c.Handler().ServeHTTP(w, r) })
	synctest.Wait()
	return func() { cancel(); synctest.Wait() }
}

// events returns what was told from a position on, as + or - and the topic.
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
		list = append(list, map[bool]string{true: "+", false: "-"}[doc.Active]+doc.Topic)
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
		want(c, &pos, "away for good", "-b -a -a -b -a")
		if len(d.all()) != 0 {
			t.Errorf("%+v are listed", d.all())
		}
		leave = c.as("sub", "topic=a")
		want(c, &pos, "too late", "+a")
		leave()
		if n, err := c.Disconnect(c.ctx, transport.Ban{Subject: "sub"}); n != 0 || err != nil {
			t.Errorf("%d streams, %v", n, err)
		}
		want(c, &pos, "disconnected while away", "-a")

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
