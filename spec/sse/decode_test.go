package sse

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func TestDecoderReadsAsABrowser(t *testing.T) {
	tests := []struct {
		name, stream string
		want         []Event
	}{
		{"the examples of the standard", "data: YHOO\ndata: +2\ndata: 10\n\n", []Event{{Data: "YHOO\n+2\n10"}}},
		{
			"comment, id kept and cleared", ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
			[]Event{{Data: "first event", ID: "1"}, {Data: "second event"}, {Data: " third event"}},
		},
		{"field without a colon", "data\n\ndata\ndata\n\ndata:", []Event{{Data: ""}, {Data: "\n"}}},
		{"one space is dropped", "data:test\n\ndata: test\n\n", []Event{{Data: "test"}, {Data: "test"}}},
		{"CR, LF and CRLF mixed", "data: a\rdata: b\r\ndata: c\n\rdata: d\r\r", []Event{{Data: "a\nb\nc"}, {Data: "d"}}},
		{"CRLF is one break", "data: a\r\n\r\ndata: b\r\n\r\n", []Event{{Data: "a"}, {Data: "b"}}},
		{"byte order mark", "\uFEFFdata: a\n\n\uFEFFdata: b\n\n", []Event{{Data: "a"}}},
		{"only one byte order mark", "\uFEFF\uFEFFdata: a\n\ndata: b\n\n", []Event{{Data: "b"}}},
		{"id persists", "id: 1\ndata: a\n\ndata: b\n\n", []Event{{ID: "1", Data: "a"}, {ID: "1", Data: "b"}}},
		{"id with NUL is ignored", "id: 1\ndata: a\n\nid: 2\x003\ndata: b\n\n", []Event{{ID: "1", Data: "a"}, {ID: "1", Data: "b"}}},
		{"id without data moves the cursor", "id: 1\n\ndata: b\n\n", []Event{{ID: "1", Data: "b"}}},
		{"the last id of a block counts", "id: e5\ndata: x\nid: e9\n\n", []Event{{ID: "e9", Data: "x"}}},
		{"type is for one event", "event: t\ndata: a\n\nevent: u\n\ndata: b\n\n", []Event{{Type: "t", Data: "a"}, {Data: "b"}}},
		{
			"retry of digits", "retry: 12\ndata: a\n\nretry: 1a\ndata: b\n\nretry: +3\ndata: c\n\nretry\ndata: d\n\n",
			[]Event{{Retry: 12, Data: "a"}, {Data: "b"}, {Data: "c"}, {Data: "d"}},
		},
		{"unknown and case-different fields", "Data: x\nfoo: y\ndata : z\n\ndata: a\n\n", []Event{{Data: "a"}}},
		{"ill-formed UTF-8", "data: \xff\xe2\x82\xf0\x9f\x98x\xed\xa0\x80\n\n", []Event{{Data: "\uFFFD\uFFFD\uFFFDx\uFFFD\uFFFD\uFFFD"}}},
		{"a block cut off", "data: a\n\ndata: b\n", []Event{{Data: "a"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.stream), iotest.OneByteReader(strings.NewReader(tt.stream))} {
				var got []Event
				d := NewDecoder(r, 0)
				for {
					e, err := d.Next()
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, e)
				}
				if !reflect.DeepEqual(got, tt.want) {
					t.Errorf("%q\ngot  %+v\nwant %+v", tt.stream, got, tt.want)
				}
			}
		})
	}
}

func TestDecoderDoesNotWaitForTheByteAfterCR(t *testing.T) {
	r, w := io.Pipe()
	d := NewDecoder(r, 0)
	var writer sync.WaitGroup
	writer.Go(func() {
		if _, err := w.Write([]byte("data: a\r\r")); err != nil { // and nothing more until Next has answered
			t.Error(err)
		}
	})
	e, err := d.Next()
	if err != nil || e.Data != "a" {
		t.Errorf("%+v, %v", e, err)
	}
	writer.Wait()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := d.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

func TestDecoderTellsCommentsCursorAndRetry(t *testing.T) {
	var comments []string
	d := NewDecoder(strings.NewReader(":\n: hi\nretry: 3000\nid: 7\n\n"), 0)
	d.OnComment = func(s string) { comments = append(comments, s) }
	if _, ok := d.Retry(); ok {
		t.Error("retry before there was one")
	}
	if e, err := d.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%+v, %v", e, err)
	}
	if !reflect.DeepEqual(comments, []string{"", " hi"}) {
		t.Errorf("comments %q", comments)
	}
	if ms, ok := d.Retry(); ms != 3000 || !ok || d.LastEventID() != "7" {
		t.Errorf("retry %d, %v, cursor %q", ms, ok, d.LastEventID())
	}
}

func TestDecoderMovesTheCursorAtTheBlankLine(t *testing.T) {
	for name, tt := range map[string]struct{ stream, cursor string }{
		"nothing said":               {":\n\n", "e0"},
		"in a block with data":       {"id: e1\ndata: a\n\n", "e1"},
		"in a block without":         {"id: e1\n\n", "e1"},
		"cleared":                    {"id: e1\n\nid:\n\n", ""},
		"in a block that is cut off": {"id: e1\n\nid: e2\ndata: b\n", "e1"},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDecoder(strings.NewReader(tt.stream), 0)
			d.SetLastEventID("e0")
			for {
				if _, err := d.Next(); err != nil {
					break
				}
			}
			if got := d.LastEventID(); got != tt.cursor {
				t.Errorf("cursor %q, want %q", got, tt.cursor)
			}
		})
	}
	d := NewDecoder(strings.NewReader("data: a\n\n"), 0)
	d.SetLastEventID("e0")
	if e, err := d.Next(); err != nil || e.ID != "e0" {
		t.Errorf("an event before the first id: %+v, %v", e, err)
	}
}

func TestDecoderRefusesWhatIsTooLong(t *testing.T) {
	for name, stream := range map[string]string{
		"a line": "data: " + strings.Repeat("x", 100),
		"data":   strings.Repeat("data: xxxxxxxx\n", 12) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDecoder(strings.NewReader(stream+"\ndata: y\n\n"), 64)
			for range 2 { // the error is final
				if e, err := d.Next(); !errors.Is(err, ErrTooLong) {
					t.Errorf("%+v, %v", e, err)
				}
			}
		})
	}
	d := NewDecoder(strings.NewReader("data: "+strings.Repeat("x", 58)+"\n\n"), 64)
	if e, err := d.Next(); err != nil || len(e.Data) != 58 {
		t.Errorf("at the bound: %+v, %v", e, err)
	}
}

func TestDecoderPassesTheReadersErrorOn(t *testing.T) {
	boom := errors.New("boom")
	d := NewDecoder(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(boom)), 0)
	if e, err := d.Next(); err != nil || e.Data != "a" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := d.Next(); !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
}

// FuzzDecoder compares the decoder with the algorithm applied to the whole stream at once.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte("\uFEFFid: 1\r\ndata: a\rdata\n\n:c\n\nretry: 5\nevent:x\ndata:\n\n"))
	f.Add([]byte("data: \xe2\x82\n\r\rid\x00:\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		d := NewDecoder(iotest.OneByteReader(bytes.NewReader(stream)), 1<<20)
		want := decodeWhole(string(stream))
		for _, w := range want {
			got, err := d.Next()
			if err != nil || got != w {
				t.Fatalf("%q\ngot  %+v, %v\nwant %+v", stream, got, err, w)
			}
			if !utf8.ValidString(got.Data + got.ID + got.Type) {
				t.Fatalf("ill-formed text in %+v", got)
			}
		}
		if e, err := d.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("%q: one more: %+v, %v", stream, e, err)
		}
	})
}

// decodeWhole is the algorithm of the standard, written for clarity.
func decodeWhole(s string) (events []Event) {
	s = strings.TrimPrefix(s, "\uFEFF")
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	lines := strings.Split(s, "\n")
	var e Event
	var data []string
	for _, line := range lines[:len(lines)-1] {
		line = decodeUTF8([]byte(line))
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != nil {
				e.Data = strings.Join(data, "\n")
				events = append(events, e)
			}
			e, data = Event{ID: e.ID}, nil
		case name == "data":
			data = append(data, value)
		case name == "event":
			e.Type = value
		case name == "id" && !strings.Contains(value, "\x00"):
			e.ID = value
		case name == "retry" && value != "" && strings.Trim(value, "0123456789") == "":
			var ms uint64
			fits := true
			for _, c := range value {
				next := ms*10 + uint64(c-'0')
				fits = fits && ms <= (1<<64-1)/10 && next >= ms*10
				ms = next
			}
			if fits {
				e.Retry = ms
			}
		}
	}
	return events
}

func BenchmarkDecoder(b *testing.B) {
	one := AppendEvent(nil, Event{ID: "urn:uuid:bb3de268-05b0-4c65-b44e-8f9acefc29d6", Data: strings.Repeat("x", 1024)})
	stream := bytes.Repeat(one, 100)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		d := NewDecoder(bytes.NewReader(stream), 0)
		for range 100 {
			if _, err := d.Next(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
