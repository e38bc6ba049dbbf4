package transporttest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

func testEdges(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	want := fill(t, tr, 6)
	positions := []transport.Position{0}
	for _, e := range want {
		positions = append(positions, e.Pos)
	}
	last := want[len(want)-1].Pos
	for _, after := range append(positions, last+1, last+100) {
		for _, upto := range append(positions, last+1, All) {
			var expected []transport.Entry
			for _, e := range want {
				if e.Pos > after && e.Pos <= upto {
					expected = append(expected, e)
				}
			}
			got, err := read(t, tr, after, upto)
			if err != nil {
				t.Fatalf("scan (%d, %d]: %v", after, upto, err)
			}
			same(t, got, expected)
		}
	}
}

func testScanEnds(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	want := fill(t, tr, 2*impl.ReadAhead+100)
	var got []transport.Entry
	for e, err := range tr.Scan(t.Context(), 0, All, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e); len(got) == 5 {
			break
		}
	}
	same(t, got, want[:5])

	ctx, cancel := context.WithCancel(t.Context())
	n, failures := 0, 0
	for _, err := range tr.Scan(ctx, 0, All, nil) {
		if err == nil {
			if n++; n == 3 {
				cancel()
			}
			continue
		}
		if failures++; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled scan: %v", err)
		}
	}
	cancel()
	if failures != 1 || n > impl.ReadAhead {
		t.Errorf("cancelled after 3, the scan yielded %d entries and %d errors", n, failures)
	}

	// many scans at once, each whole
	type result struct {
		n   int
		err error
	}
	results := make(chan result)
	for range 20 {
		go func() {
			var r result
			for e, err := range tr.Scan(t.Context(), 0, All, nil) {
				if err != nil || e.Pos != want[r.n].Pos {
					r.err = fmt.Errorf("after %d entries: position %d, %w", r.n, e.Pos, err)
					break
				}
				r.n++
			}
			results <- r
		}()
	}
	for range 20 {
		if r := receive(t, results, "concurrent scan"); r.n != len(want) || r.err != nil {
			t.Errorf("concurrent scan read %d of %d entries: %v", r.n, len(want), r.err)
		}
	}
}

func testLocateForeign(t *testing.T, impl Implementation) {
	tr, other := impl.open(t, Limits{}), impl.open(t, Limits{})
	fill(t, tr, 5)
	for _, e := range fill(t, other, 5) {
		wantLocateError(t, tr, e.Update.ID, transport.ErrUnknown)
	}
	for _, id := range []string{
		"", "earliest", "*", "1", "no such id", "urn:uuid:", "urn:uuid:f81d4fae-7dec-41d0-a765-00a0c91e6bf6",
		"urn:uuid:f81d4fae-7dec-81d0-a765-00a0c91e6bf6", "\x00", "é", ">", "a.*.b",
	} {
		wantLocateError(t, tr, id, transport.ErrUnknown)
	}
}

func testRepeatedID(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	add(t, tr, update(0))
	own := add(t, tr, update(1))
	first := add(t, tr, named(2, "e1"))
	add(t, tr, update(3))
	second := add(t, tr, named(4, "e1"))
	if second.Pos <= first.Pos {
		t.Fatalf("the second e1 is at %d, the first at %d", second.Pos, first.Pos)
	}
	wantLocated(t, tr, "e1", first.Pos)
	// an id of the hub's used again by a publisher
	if again := add(t, tr, named(5, own.Update.ID)); again.Pos <= second.Pos {
		t.Fatalf("the repeated id is at %d", again.Pos)
	}
	wantLocated(t, tr, own.Update.ID, own.Pos)
	got, err := read(t, tr, first.Pos, All)
	if err != nil || len(got) != 3 {
		t.Errorf("after the first e1 there are %d entries, %v; want 3", len(got), err)
	}
}

// testRepeatedIDAtEdge: an update has left the log and is published again, but nothing after it is lost: who
// resumes with its id still gets everything that came after the first (REC-12, REC-14).
func testRepeatedIDAtEdge(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{MaxMessages: 3})
	var want []transport.Entry
	for i, id := range []string{"m1", "m2", "m3", "m4", "m5", "m3"} {
		want = append(want, add(t, tr, named(i, id)))
	}
	wantLocated(t, tr, "m3", want[2].Pos)
	got, err := read(t, tr, want[2].Pos, All)
	if err != nil {
		t.Fatalf("scan after the first m3: %v", err)
	}
	same(t, got, want[3:])
}

func testTrim(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{MaxMessages: 3})
	want := fill(t, tr, 10)
	if s := span(t, tr); s.First != want[7].Pos || s.Last != want[9].Pos {
		t.Errorf("span is %+v, want %d to %d", s, want[7].Pos, want[9].Pos)
	}
	for i := range want {
		got, err := read(t, tr, want[i].Pos, All)
		if i < 6 {
			if !errors.Is(err, transport.ErrTrimmed) || len(got) != 0 {
				t.Errorf("scan after entry %d: %d entries, %v; want ErrTrimmed", i, len(got), err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("scan after entry %d: %v", i, err)
		}
		same(t, got, want[i+1:])
	}
	if _, err := read(t, tr, 0, All); !errors.Is(err, transport.ErrTrimmed) {
		t.Errorf("scan from the beginning: %v, want ErrTrimmed", err)
	}
	if _, err := read(t, tr, 0, want[2].Pos); !errors.Is(err, transport.ErrTrimmed) {
		t.Errorf("scan of a part that has left: %v, want ErrTrimmed", err)
	}
	if st := tr.Stats(); st.Retained != 3 {
		t.Errorf("stats are %+v, want 3 retained", st)
	}
}

func testLocateTrimmed(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{MaxMessages: 4})
	var want []transport.Entry
	for i := range 10 {
		u := update(i)
		if i%2 == 1 {
			u.ID = fmt.Sprintf("https://example.com/id/%d", i)
		}
		want = append(want, add(t, tr, u))
		for j, e := range want {
			if first := max(i+1-4, 0); j < first-1 {
				wantLocateError(t, tr, e.Update.ID, transport.ErrTrimmed)
			} else {
				wantLocated(t, tr, e.Update.ID, e.Pos)
			}
		}
	}
	// published again after it has left, an id stands at its new place
	again := add(t, tr, named(10, want[1].Update.ID))
	wantLocated(t, tr, want[1].Update.ID, again.Pos)
}

func testTrimDuringScan(t *testing.T, impl Implementation) {
	n := 2*impl.ReadAhead + 50
	tr := impl.open(t, Limits{MaxMessages: n})
	want := fill(t, tr, n)
	upto := want[n-1].Pos
	var got []transport.Entry
	var failed error
	for e, err := range tr.Scan(t.Context(), 0, upto, nil) {
		if err != nil {
			failed = err
			continue
		}
		if got = append(got, e); len(got) == 1 {
			fill(t, tr, n) // everything that was there has left
		}
	}
	if !errors.Is(failed, transport.ErrTrimmed) {
		t.Errorf("overtaken scan: %v after %d of %d entries, want ErrTrimmed", failed, len(got), n)
	}
	if len(got) > impl.ReadAhead {
		t.Errorf("%d entries were held, at most %d may be", len(got), impl.ReadAhead)
	}
	same(t, got, want[:len(got)])
}

func testAge(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{MaxAge: time.Second})
	want := fill(t, tr, 3)
	want = append(want, add(t, tr, named(3, "e3")))
	last := want[3]
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		s := span(t, tr)
		if s.Last != last.Pos {
			t.Fatalf("span is %+v, want last %d", s, last.Pos)
		}
		if s.First == last.Pos+1 {
			tick.Stop()
			break
		}
	}
	wantLocated(t, tr, "e3", last.Pos)
	for _, e := range want[:3] {
		wantLocateError(t, tr, e.Update.ID, transport.ErrTrimmed)
	}
	if _, err := read(t, tr, 0, All); !errors.Is(err, transport.ErrTrimmed) {
		t.Errorf("scan of what has aged: %v, want ErrTrimmed", err)
	}
	if got, err := read(t, tr, last.Pos, All); err != nil || len(got) != 0 {
		t.Errorf("scan after the last: %d entries, %v", len(got), err)
	}
	next := add(t, tr, update(4))
	if next.Pos <= last.Pos {
		t.Errorf("position %d follows %d", next.Pos, last.Pos)
	}
	wantLocated(t, tr, "e3", last.Pos)
}
