package jetstream

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

func named(topic string) *spec.Update { return &spec.Update{Topics: []string{topic}} }

// names returns the filters in use and those that are being left.
func (r *registry) names() (used, leaving []string) {
	for name, flt := range r.filters {
		if flt.users > 0 {
			used = append(used, name)
		} else {
			leaving = append(leaving, name)
		}
	}
	slices.Sort(used)
	slices.Sort(leaving)
	return used, leaving
}

func TestFiltersAreCounted(t *testing.T) {
	f := newInterestFollower(&Log{subjects: newSubjects("p", nil, ""), follower: newFollower(nil), opts: Options{MaxFilters: 100}})
	a, b := classic("https://example.com/{x}"), classic("https://example.com/books/{x}")
	shared := []string{"m.-.-", "m.https.example=2Ecom", "t.-.>"}
	want := func(used ...string) {
		t.Helper()
		used = append(used, shared...)
		slices.Sort(used)
		if got, _ := f.names(); !slices.Equal(got, used) {
			t.Errorf("%q are used, want %q", got, used)
		}
	}
	wide, narrow := "t.https.example=2Ecom.>", "t.https.example=2Ecom.books.>"
	waits, _ := f.register([]topic.Selector{a, a})
	if len(waits) != 1 {
		t.Fatalf("%d rounds", len(waits))
	}
	want(wide)
	if more, _ := f.register([]topic.Selector{b}); !slices.Equal(more, waits) {
		t.Error("what is added before the fence is sent waits for another one")
	}
	want(wide, narrow)
	confirm(waits[0].filters, 7)
	f.next = nil
	for reached, want := range map[transport.Position]transport.Position{5: 7, 9: 9} { // nothing may have come since
		f.reached = reached
		if waits, from := f.register([]topic.Selector{b}); len(waits) > 0 || from != want {
			t.Errorf("a filter that stands since 7, when %d is reached: %d rounds, from %d", reached, len(waits), from)
		}
		f.Remove(b)
	}
	f.Remove(a)
	want(wide, narrow)
	f.Remove(a, b, b, classic("never added")) // once too often
	shared = nil
	want()
	early, late := time.Now().Add(minLeave/2), time.Now().Add(minLeave+spreadLeave)
	if due := f.due(early, false); len(due) > 0 {
		t.Error("filters are left at once")
	}
	f.register([]topic.Selector{b})
	shared = []string{"m.-.-", "m.https.example=2Ecom", "t.-.>"}
	want(narrow)
	if due := f.due(late, false); len(due) != 1 || f.filters[wide] != nil {
		t.Errorf("%d filters are left, want %s", len(due), wide)
	}
	if len(f.watched) != 1 || len(f.leaving) > 0 {
		t.Errorf("%d selectors, %d filters without users", len(f.watched), len(f.leaving))
	}
}

func TestManyFiltersBecomeWide(t *testing.T) {
	f := newInterestFollower(&Log{subjects: newSubjects("p", nil, ""), follower: newFollower(nil), opts: Options{MaxFilters: 20}})
	var all []topic.Selector
	add := func(format string, n int) {
		for i := range n {
			s := classic(fmt.Sprintf(format, i))
			all = append(all, s)
			f.register([]topic.Selector{s})
		}
	}
	add("https://many.example/%d", 10)
	add("https://few.example/%d", 5)
	add("rel/%d", 2)
	if used, _ := f.names(); len(used) != 10+5+2+3 {
		t.Fatalf("%d filters: %q", len(used), used)
	}
	add("https://few.example/x%d", 1)
	used, leaving := f.names()
	if len(used) != 1+6+2+3 || len(leaving) != 10 || !slices.Contains(used, "t.https.many=2Eexample.>") {
		t.Fatalf("used %q, leaving %q", used, leaving)
	}
	far := time.Now().Add(time.Hour)
	narrow := f.filters[leaving[0]]
	narrow.confirmed = true
	if due := f.due(far, false); len(due) > 0 {
		t.Error("a narrow filter is left before the wide one stands")
	}
	confirm(f.next.filters, 1)
	if due := f.due(far, false); len(due) != 10 {
		t.Errorf("%d narrow filters are left, want 10", len(due))
	}
	add("https://many.example/again%d", 1)
	if used, _ := f.names(); len(used) != 1+6+2+3 {
		t.Errorf("one more of the wide origin: %q", used)
	}
	for i := range 20 { // of as many origins, none of which has many
		add(fmt.Sprintf("https://o%d.example/%%d", i), 1)
	}
	if used, _ := f.names(); !slices.Equal(used, []string{everything}) {
		t.Errorf("too many origins: %q", used)
	}
	f.Remove(all...)
	confirm(f.next.filters, 2)
	f.due(far, false)
	if len(f.filters)+len(f.watched)+len(f.leaving)+len(f.wide) > 0 {
		t.Errorf("left behind: %d filters, %d selectors, %d leaving, %d wide", len(f.filters), len(f.watched), len(f.leaving), len(f.wide))
	}
}

func TestRegistryCoversAsFiltersDo(t *testing.T) {
	r := newRegistry()
	for _, name := range []string{"t.https.a.>", "t.-.x", "m.>"} {
		r.use(name)
	}
	for subject, want := range map[string]bool{
		"t.https.a.b.c": true, "t.https.a.h": true, "t.https.a": false, "t.https.b.h": false, "t.-.x": true, "t.-.y": false, "m.-.-": true, "s": false,
	} {
		if got := r.covers(subject); got != want {
			t.Errorf("%s: %v", subject, got)
		}
	}
	r.use(everything)
	if !r.covers("s") {
		t.Error("everything does not cover s")
	}
}

// What nobody follows any more is left a while later, and the frames of it no longer come.
func TestFiltersAreLeft(t *testing.T) {
	t.Parallel()
	s, prefix := sharedServers(t)
	l := openExternal(t, s, Options{Prefix: prefix, Follow: FollowInterest})
	in, err := l.Follow(t.Context(), func(transport.Entry) {})
	if err != nil {
		t.Fatal(err)
	}
	calm(t, l)
	if _, err := in.Add(t.Context(), classic("a"), classic("b")); err != nil {
		t.Fatal(err)
	}
	in.Remove(classic("a"))
	began := time.Now()
	eventually(t, "the filter to be left", func() bool { return l.Stats().Filters == 2 })
	if after := time.Since(began); after < minLeave {
		t.Errorf("left after %v", after)
	}
	before := l.Stats().BusMessages
	add(t, l, named("a"))
	e := add(t, l, named("b"))
	eventually(t, "the other to be heard", func() bool { pos, _, _ := l.interesting(); return pos >= e.Pos })
	if n := l.Stats().BusMessages - before; n != 1 {
		t.Errorf("%d frames, want the one that is followed", n)
	}
}

func TestAnswersToFences(t *testing.T) {
	for _, c := range []struct {
		data, status string
		want         transport.Position
		err          error
	}{
		{`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 42"},"stream":"x","seq":0}`, "", 42, nil},
		{`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: constant"}}`, "", 0, errFenceText},
		{`{"stream":"x","seq":43}`, "", 0, errFenceText}, // it was stored
		{`+OK`, "", 0, errFenceText},
		{`{"error":{"code":400,"err_code":10002,"description":"resource limits exceeded for account"}}`, "", unnumbered, nil},
		{``, statusNoServer, 0, nats.ErrNoResponders},
	} {
		m := &nats.Msg{Data: []byte(c.data), Header: nats.Header{headerStatus: {c.status}}}
		if got, err := readFence(m); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s %s: %d, %v", c.status, c.data, got, err)
		}
	}
	busy := &nats.Msg{Data: []byte(`{"error":{"code":503,"err_code":10077,"description":"resources"}}`)}
	if _, err := readFence(busy); err == nil || errors.Is(err, errFenceText) {
		t.Errorf("a server in trouble: %v", err)
	}
	leaderless := &nats.Msg{Data: []byte(`{"state":{"last_seq":7},"cluster":{"name":"c"}}`)}
	if _, err := readEnd(leaderless); !errors.Is(err, errLeaderless) {
		t.Errorf("a copy without a leader: %v", err)
	}
}
