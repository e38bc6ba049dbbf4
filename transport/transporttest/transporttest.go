// Package transporttest is the suite that every implementation of transport.Transport passes.
package transporttest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// Limits is the retention a log is opened with. Zero means no limit, or one that the suite does not reach
// with its few megabytes.
type Limits struct {
	MaxMessages int
	MaxAge      time.Duration
}

// Implementation is what is tested.
type Implementation struct {
	// Open makes an empty log. The suite closes it.
	Open func(t *testing.T, l Limits) transport.Transport
	// Reopen opens again what tr, which has been closed, had stored; nil if nothing outlives Close.
	Reopen func(t *testing.T, tr transport.Transport) transport.Transport
	// TooLarge is a length of data that the log cannot store; 0 if there is none worth trying.
	TooLarge int
	// ReadAhead is the largest number of entries that a scan may hold; at most 1000.
	ReadAhead int
}

// All is a position beyond the end of every log.
const All = transport.Position(math.MaxUint64)

// Run runs the suite.
func Run(t *testing.T, impl Implementation) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, Implementation)
	}{
		{"positions grow and a scan yields what was appended", testOrder},
		{"every field survives", testFields},
		{"ids are given or kept", testIDs},
		{"an empty log answers", testEmpty},
		{"an append that cannot be is refused", testRefusals},
		{"resume at each edge", testEdges},
		{"scan ends when the caller stops or cancels", testScanEnds},
		{"locate knows its own ids only", testLocateForeign},
		{"the earliest of repeated ids counts", testRepeatedID},
		{"a repeated id counts from the first while nothing after that is lost", testRepeatedIDAtEdge},
		{"trimmed entries are noticed", testTrim},
		{"trimmed ids are located while nothing after them is lost", testLocateTrimmed},
		{"a scan notices that it is overtaken by retention", testTrimDuringScan},
		{"entries age", testAge},
		{"the follower starts at the end", testFollowFromEnd},
		{"concurrent publishers make one order", testOneOrder},
		{"joining has no gap and no duplicate", testJoin},
		{"a slow follower gets every entry", testSlowFollower},
		{"a second follower is refused", testSecondFollow},
		{"the follower ends with its context", testFollowEnds},
		{"close waits for the follower", testCloseWaits},
		{"close acknowledges pending appends", testClosePending},
		{"a closed log refuses", testClosed},
		{"what was acknowledged is there after reopening", testReopen},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, impl) })
	}
}

// open opens a log that is closed when the test ends.
func (impl Implementation) open(t *testing.T, l Limits) transport.Transport {
	t.Helper()
	tr := impl.Open(t, l)
	t.Cleanup(func() { shut(t, tr) })
	return tr
}

// shut closes tr; closing twice is harmless.
func shut(t *testing.T, tr transport.Transport) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	if err := tr.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// update makes the i-th update of a test, without an id.
func update(i int) *spec.Update {
	return &spec.Update{
		Topics: []string{fmt.Sprintf("https://example.com/books/%d", i%7)},
		Data:   fmt.Sprintf("data %d", i),
	}
}

// named makes the i-th update with the publisher's id.
func named(i int, id string) *spec.Update {
	u := update(i)
	u.ID = id
	return u
}

// add appends u and fails the test on an error.
func add(t *testing.T, tr transport.Transport, u *spec.Update) transport.Entry {
	t.Helper()
	e, err := tr.Append(t.Context(), u)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	if e.Update == nil || e.Update.ID == "" || e.Late {
		t.Fatalf("append returned %+v", e)
	}
	return e
}

// fill appends n updates without ids.
func fill(t *testing.T, tr transport.Transport, n int) []transport.Entry {
	t.Helper()
	entries := make([]transport.Entry, n)
	for i := range entries {
		entries[i] = add(t, tr, update(i))
	}
	return entries
}

// read collects a scan.
func read(t *testing.T, tr transport.Transport, after, upto transport.Position) ([]transport.Entry, error) {
	t.Helper()
	var got []transport.Entry
	for e, err := range tr.Scan(t.Context(), after, upto, nil) {
		if err != nil {
			return got, err
		}
		got = append(got, e)
	}
	return got, nil
}

// same fails the test when the entries differ in position or in any field of their updates.
func same(t *testing.T, got, want []transport.Entry) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d entries %s, want %d %s", len(got), brief(got), len(want), brief(want))
	}
	for i := range got {
		if got[i].Pos != want[i].Pos || !equal(got[i].Update, want[i].Update) {
			t.Fatalf("entry %d is %d %+v, want %d %+v", i, got[i].Pos, got[i].Update, want[i].Pos, want[i].Update)
		}
	}
}

func brief(es []transport.Entry) string {
	if len(es) == 0 {
		return "(none)"
	}
	return fmt.Sprintf("(%d … %d)", es[0].Pos, es[len(es)-1].Pos)
}

func equal(a, b *spec.Update) bool {
	return slices.Equal(a.Topics, b.Topics) && a.ID == b.ID && a.Type == b.Type &&
		a.Data == b.Data && a.Retry == b.Retry && a.Private == b.Private
}

// wantLocated fails the test unless id is located at pos.
func wantLocated(t *testing.T, tr transport.Transport, id string, pos transport.Position) {
	t.Helper()
	if got, err := tr.Locate(t.Context(), id); err != nil || got != pos {
		t.Errorf("locate %q: %d, %v; want %d", id, got, err, pos)
	}
}

// wantLocateError fails the test unless Locate returns the error want.
func wantLocateError(t *testing.T, tr transport.Transport, id string, want error) {
	t.Helper()
	if pos, err := tr.Locate(t.Context(), id); !errors.Is(err, want) {
		t.Errorf("locate %q: %d, %v; want %v", id, pos, err, want)
	}
}

// span returns the span.
func span(t *testing.T, tr transport.Transport) transport.Span {
	t.Helper()
	s, err := tr.Span(t.Context())
	if err != nil {
		t.Fatalf("span: %v", err)
	}
	return s
}

// receive takes the next value, or fails the test after a generous time.
func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v, ok := <-c:
		if !ok {
			t.Fatalf("%s: channel closed", what)
		}
		return v
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: nothing came", what)
	}
	panic("unreachable")
}
