package hub

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

func lateEntry(pos int, id string, topics ...string) transport.Entry {
	e := entry(pos, id, topics...)
	e.Late = true
	return e
}

// written is what a subscriber read by hand writes of what is queued for it, as plain events.
func written(s *subscriber) string {
	var b strings.Builder
	for _, f := range queued(s) {
		b.Write(s.wire(f, false))
	}
	return b.String()
}

// TestLateEntries: one that comes after a higher position carries the id of the highest one that this client was
// sent, not one of an update that is not for it, and is none at all for a client that was sent nothing higher.
//
// Covers: SSE-C09.
func TestLateEntries(t *testing.T) {
	n := newNode(t, nil)
	one, both := n.listener(nil, "a"), n.listener(nil, "a", "b")
	n.fanout.deliver(entry(3, "three", "a"))
	n.fanout.deliver(entry(9, "nine", "b"))
	n.fanout.deliver(entry(10, "ten", "other"))
	if got := written(one) + written(both); got != "id: three\ndata: three\n\n"+"id: three\ndata: three\n\n"+"id: nine\ndata: nine\n\n" {
		t.Fatalf("%q", got)
	}
	n.fanout.deliver(lateEntry(5, "five", "a"))
	n.fanout.deliver(lateEntry(1, "one", "a"))
	n.fanout.deliver(lateEntry(6, "six", "a"))
	if got := written(one); got != "id: one\ndata: one\nid: three\n\n"+"id: five\ndata: five\n\n"+"id: six\ndata: six\n\n" {
		t.Errorf("to a client that was sent nothing above 3: %q", got)
	}
	want := ""
	for _, id := range []string{"one", "five", "six"} {
		want += fmt.Sprintf("id: %s\ndata: %s\nid: nine\n\n", id, id)
	}
	if got := written(both); got != want {
		t.Errorf("to a client that was sent 9: %q", got)
	}
	if head := n.fanout.join(watcher(t, "a")); head != 10 {
		t.Errorf("the head is %d, want 10", head)
	}
	if got := testutil.ToFloat64(n.metrics.Late); got != 4 {
		t.Errorf("%v late updates are counted, want 4", got)
	}
	if got := testutil.ToFloat64(n.metrics.FollowerMatched); got != 5 {
		t.Errorf("%v entries are counted as matching, want 5", got)
	}
}

// Covers: SSE-C09, SUB-22.
func TestALatePrivateEntryIsForTheGranted(t *testing.T) {
	n := newNode(t, nil)
	granted, denied := &counter{yes: true}, &counter{}
	yes, no := n.listener(granted.grant(), "a"), n.listener(denied.grant(), "a")
	n.fanout.deliver(entry(9, "nine", "a"))
	late := lateEntry(5, "five", "a")
	late.Update.Private = true
	n.fanout.deliver(late)
	if got := written(yes); !strings.Contains(got, "five") {
		t.Errorf("the granted gets %q", got)
	}
	if got := written(no); strings.Contains(got, "five") {
		t.Errorf("the other gets %q", got)
	}
}

// TestALateEntryIsKeptWhenTheQueueOverflows: the log is read again from the position only.
//
// Covers: SSE-C09, SUB-36.
func TestALateEntryIsKeptWhenTheQueueOverflows(t *testing.T) {
	n := newNode(t, func(o *Options) { o.SubscriberBuffer = 1 })
	s := n.listener(nil, "a")
	n.fanout.deliver(entry(5, "5", "a"))
	written(s)
	n.fanout.deliver(lateEntry(2, "2", "a")) // before it lags
	n.fanout.deliver(entry(8, "8", "a"))
	n.fanout.deliver(entry(10, "10", "a"))   // does not fit
	n.fanout.deliver(lateEntry(3, "3", "a")) // while it lags
	n.fanout.deliver(lateEntry(7, "7", "a")) // before what was dropped
	n.fanout.deliver(lateEntry(9, "9", "a")) // within it: the log has it too
	s.listen()
	var got string
	frames, lagged := s.take(nil, 1<<20)
	for _, f := range frames {
		got += string(s.wire(f, false))
	}
	if want := "id: 2\ndata: 2\nid: 5\n\n" + "id: 3\ndata: 3\nid: 5\n\n" + "id: 7\ndata: 7\n\n"; got != want || !lagged {
		t.Fatalf("%v, %q", lagged, got)
	}
	if upto := n.fanout.rejoin(s); upto != 10 || s.pos != 7 {
		t.Fatalf("reads (%d, %d]", s.pos, upto)
	}
	for _, pos := range []transport.Position{8, 9, 10} { // as catchUp does
		s.past.noteRead(7, pos)
		s.past.noteSent(pos, fmt.Sprint(pos))
		s.pos = pos
	}
	n.fanout.deliver(lateEntry(8, "8", "a")) // was read, so it is no hole
	n.fanout.deliver(lateEntry(4, "4", "a")) // was not
	n.fanout.deliver(entry(11, "11", "a"))
	if got := written(s); got != "id: 4\ndata: 4\nid: 10\n\n"+"id: 11\ndata: 11\n\n" {
		t.Errorf("%q", got)
	}
	if s.lateBytes != 0 || s.queued != 0 {
		t.Errorf("%d and %d bytes are counted in an empty queue", s.lateBytes, s.queued)
	}
}

// TestLateEntriesAreBounded: somebody for whom too many wait is cut, and that is said.
//
// Covers: SSE-C09, SUB-36.
func TestLateEntriesAreBounded(t *testing.T) {
	for name, hijack := range map[string]bool{"shard": true, "handler": false} {
		t.Run(name, func(t *testing.T) {
			change, book, _ := observed(func(o *Options) { o.SubscriberBuffer = 1; o.WriteTimeout = time.Minute })
			n := startNode(t, change)
			n.noHijack = !hijack
			_, br, _ := n.rawStream("HTTP/1.0", "topic=a", 64<<10)
			big := strings.Repeat("x", 100<<10)
			n.fanout.deliver(transport.Entry{Pos: 1000, Update: &spec.Update{Topics: []string{"a"}, ID: "first", Data: strings.Repeat(big, 20)}})
			s := n.fanout.snapshot()[0]
			eventually(t, "the client is stuck", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.queued == 0 })
			for i := range 4 {
				e := lateEntry(1+i, "late", "a")
				e.Update.Data = big
				n.fanout.deliver(e)
			}
			s.mu.Lock()
			waiting := s.lateBytes
			s.mu.Unlock()
			if s.endingWhy() != endLate || waiting > minLateBytes {
				t.Errorf("ending %v with %d bytes waiting", s.endingWhy(), waiting)
			}
			if _, err := io.Copy(io.Discard, br); err != nil { // the end is a planned one
				t.Error(err)
			}
			book.await(t, "stream cut, too many late entries wait for it: some are lost to its client", 1)
			eventually(t, "it is counted", func() bool { return n.ended(endLate) == 1 })
		})
	}
}

// TestPanicBeforeALateEntry: who was not reached finds out for itself.
//
// Covers: SSE-C09.
func TestPanicBeforeALateEntry(t *testing.T) {
	change, _, _ := observed(nil)
	n := newNode(t, change)
	mine := &subscriber{hub: n.Hub, selectors: []topic.Selector{{Kind: topic.Classic, Pattern: "{bad}"}}, matchers: []topic.Matcher{bomb{}}}
	mine.grant, mine.wake = &auth.Grant{Anonymous: true}, make(chan struct{}, 1)
	var good []*subscriber
	for range 20 {
		good = append(good, n.listener(nil, "{a}"), n.listener(nil, "b"))
	}
	n.fanout.deliver(entry(9, "nine", "a"))
	n.fanout.join(mine)
	n.fanout.deliver(lateEntry(5, "five", "a"))
	for i, s := range good {
		got := strings.Count(written(s), "data: five")
		if want := 1 - i%2; got != want {
			t.Errorf("subscriber %d got it %d times, want %d", i, got, want)
		}
	}
}

func TestPast(t *testing.T) {
	var p past
	p.floor = 10
	p.noteRead(10, 20) // the first catch-up
	p.noteRead(10, 25) // goes on
	p.noteRead(30, 30) // nothing
	p.noteRead(40, 50)
	p.noteRead(40, 55)
	p.noteRead(55, 60) // at once again
	p.noteRead(70, 71)
	var lacks []int
	for pos := range 76 {
		if p.lacks(transport.Position(pos)) {
			lacks = append(lacks, pos)
		}
	}
	want := []int{26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 72, 73, 74, 75}
	if !slices.Equal(lacks, want) {
		t.Errorf("lacks %v", lacks)
	}
	p.noteSent(75, "75")
	p.noteSent(74, "74")
	if p.sentID != "75" {
		t.Errorf("sent %q", p.sentID)
	}
	p.rewind(45)
	if p.lacks(45) || !p.lacks(46) || !p.lacks(71) || p.sentID != "" || len(p.read) != 1 {
		t.Errorf("after rewinding: %+v", p)
	}
	for i := range transport.Position(1000) {
		p.noteRead(100+10*i, 105+10*i)
	}
	if len(p.read) > maxStretches || p.lacks(100+9990+1) || !p.lacks(100+9990+6) {
		t.Errorf("%d stretches are remembered", len(p.read))
	}
}

// TestTheLogBeginsAgain: when it has lost its newest entries, or was made anew, positions are used again. Who was
// beyond goes on from there.
//
// Covers: SUB-36.
func TestTheLogBeginsAgain(t *testing.T) {
	change, book, _ := observed(nil)
	n := newNode(t, change)
	s := n.listener(nil, "a")
	for pos := 1; pos <= 9; pos++ {
		n.fanout.deliver(entry(pos, fmt.Sprint("old", pos), "a"))
	}
	written(s)
	n.fanout.appended.Store(12)
	n.fanout.deliver(entry(6, "new6", "a"))
	book.only(t, "the log has begun again before what was followed")
	if frames, lagged := s.take(nil, 1<<20); len(frames) != 0 || !lagged {
		t.Fatalf("%d frames, lagged %v", len(frames), lagged)
	}
	if upto := n.fanout.rejoin(s); upto != 6 || s.pos != 5 || n.fanout.appended.Load() != 6 {
		t.Errorf("reads (%d, %d]", s.pos, upto)
	}
	n.fanout.deliver(entry(7, "new7", "a"))
	if got := written(s); got != "id: new7\ndata: new7\n\n" {
		t.Errorf("%q", got)
	}
}
