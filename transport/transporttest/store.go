package transporttest

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

func testOrder(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	want := fill(t, tr, 300)
	for i := 1; i < len(want); i++ {
		if want[i].Pos <= want[i-1].Pos {
			t.Fatalf("position %d follows %d", want[i].Pos, want[i-1].Pos)
		}
	}
	if want[0].Pos == 0 {
		t.Error("the first entry has position 0")
	}
	got, err := read(t, tr, 0, All)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	s, last := span(t, tr), want[len(want)-1]
	if s.First != want[0].Pos || s.Last != last.Pos || s.LastID != last.Update.ID {
		t.Errorf("span is %+v, want %d to %d (%s)", s, want[0].Pos, last.Pos, last.Update.ID)
	}
	if st := tr.Stats(); st.Appends != 300 || st.AppendErrors != 0 || st.Retained != 300 || st.RetainedBytes == 0 {
		t.Errorf("stats are %+v", st)
	}
	// a hint may leave out what it does not select, and nothing else
	hint := []topic.Selector{{Kind: topic.Classic, Pattern: "https://example.com/books/3"}}
	var selected []transport.Entry
	for e, err := range tr.Scan(t.Context(), 0, All, hint) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Update.Topics[0] == hint[0].Pattern {
			selected = append(selected, e)
		}
	}
	var wantSelected []transport.Entry
	for _, e := range want {
		if e.Update.Topics[0] == hint[0].Pattern {
			wantSelected = append(wantSelected, e)
		}
	}
	same(t, selected, wantSelected)
}

func testFields(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	many := make([]string, 100)
	for i := range many {
		many[i] = "https://example.com/" + strings.Repeat("x", i*20)
	}
	var want []transport.Entry
	for _, u := range []*spec.Update{
		{Topics: []string{"https://example.com/a"}},
		{Topics: []string{"https://example.com/a"}, ID: "https://example.com/ids/1", Type: "t", Data: "d", Retry: 1<<64 - 1, Private: true},
		{Topics: []string{"a", "b", "a"}, Data: "several topics of no origin"},
		{Topics: []string{"https://one.example/a", "https://two.example:8443/b"}, Data: "several origins"},
		{Topics: []string{"https://one.example/a", "https://one.example/b"}, Data: "one origin"},
		{Topics: many, Data: "many topics"},
		{Topics: []string{" blanks at both ends "}, Type: " t ", Data: "  \n\r\n\r \x00 é 𝄞 \"quoted\" \\ <&>\u2028 "},
		{Topics: []string{"#general"}},
		{Topics: []string{"?x=1"}},
		{Topics: []string{"http://["}},
		{Topics: []string{"."}},
		{Topics: []string{"*.>"}},
		{Topics: []string{"HTTPS://EXAMPLE.com:443/a/../b\\c%2e?q#f"}},
		{Topics: []string{"urn:uuid:1"}},
		{Topics: []string{"mailto:é@example.com"}},
		{Topics: []string{"https://example.com/" + strings.Repeat("seg/", 500)}},
		{Topics: []string{"https://" + strings.Repeat("very-long-label.", 100) + "example/" + strings.Repeat("é", 500)}},
		{Topics: []string{"https://example.com/big"}, ID: strings.Repeat("ï", 512), Type: strings.Repeat("t", 1024), Data: strings.Repeat("0123456789abcdef", 1<<16-1024)},
	} {
		before := *u
		e := add(t, tr, u)
		if !equal(u, &before) {
			t.Errorf("append has changed the update to %+v", u)
		}
		expected := *u
		if expected.ID == "" {
			expected.ID = e.Update.ID
		}
		if !equal(e.Update, &expected) {
			t.Errorf("append returned %+v for %+v", e.Update, u)
		}
		want = append(want, transport.Entry{Pos: e.Pos, Update: &expected})
	}
	got, err := read(t, tr, 0, All)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	for _, e := range want {
		wantLocated(t, tr, e.Update.ID, e.Pos)
	}
}

func testIDs(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	seen := map[string]bool{}
	for _, e := range fill(t, tr, 50) {
		if seen[e.Update.ID] {
			t.Errorf("id %s given twice", e.Update.ID)
		}
		if !strings.HasPrefix(e.Update.ID, "urn:uuid:") {
			t.Errorf("id %s is no UUID URN", e.Update.ID)
		}
		seen[e.Update.ID] = true
		wantLocated(t, tr, e.Update.ID, e.Pos)
	}
	e := add(t, tr, named(1, "https://example.com/id/1"))
	if e.Update.ID != "https://example.com/id/1" {
		t.Errorf("the publisher's id became %s", e.Update.ID)
	}
	if s := span(t, tr); s.LastID != e.Update.ID {
		t.Errorf("last id is %q, want %q", s.LastID, e.Update.ID)
	}
}

func testEmpty(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	if s := span(t, tr); s.Last != 0 || s.First != 1 || s.LastID != "" {
		t.Errorf("span is %+v, want First 1 and Last 0", s)
	}
	got, err := read(t, tr, 0, All)
	if err != nil || len(got) != 0 {
		t.Errorf("scan yields %d entries, %v", len(got), err)
	}
	wantLocateError(t, tr, "urn:uuid:f81d4fae-7dec-41d0-a765-00a0c91e6bf6", transport.ErrUnknown)
	if st := tr.Stats(); !reflect.DeepEqual(st, transport.Stats{}) {
		t.Errorf("stats are %+v", st)
	}
}

func testRefusals(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	add(t, tr, update(0))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.Append(gone, update(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("append with a cancelled context: %v", err)
	}
	if impl.TooLarge > 0 {
		u := update(1)
		u.Data = strings.Repeat("x", impl.TooLarge)
		if _, err := tr.Append(t.Context(), u); !errors.Is(err, transport.ErrTooLarge) {
			t.Errorf("append of %d bytes: %v", impl.TooLarge, err)
		}
	}
	after := add(t, tr, update(2))
	got, err := read(t, tr, 1, All)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, []transport.Entry{after})
	if st := tr.Stats(); st.AppendErrors == 0 || st.Appends != 2 {
		t.Errorf("stats are %+v", st)
	}
}

func testReopen(t *testing.T, impl Implementation) {
	if impl.Reopen == nil {
		t.Skip("nothing outlives Close in this transport")
	}
	tr := impl.open(t, Limits{})
	want := fill(t, tr, 40)
	want = append(want, add(t, tr, named(40, "https://example.com/id/40")))
	for round := range 3 {
		shut(t, tr)
		tr = impl.Reopen(t, tr)
		t.Cleanup(func() { shut(t, tr) })
		got, err := read(t, tr, 0, All)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
		for _, e := range want {
			wantLocated(t, tr, e.Update.ID, e.Pos)
		}
		last := want[len(want)-1]
		if s := span(t, tr); s.Last != last.Pos || s.LastID != last.Update.ID {
			t.Errorf("span is %+v, want last %d %s", s, last.Pos, last.Update.ID)
		}
		live := make(chan transport.Entry, 10)
		if _, err := tr.Follow(t.Context(), func(e transport.Entry) { live <- e }); err != nil {
			t.Fatal(err)
		}
		e := add(t, tr, update(100+round))
		if e.Pos <= last.Pos {
			t.Fatalf("position %d after reopening, %d before", e.Pos, last.Pos)
		}
		same(t, []transport.Entry{receive(t, live, "follower")}, []transport.Entry{e})
		want = append(want, e)
	}
}
