package sse

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAppendEventWritesTheBytesOfTheProtocol(t *testing.T) {
	tests := []struct {
		name string
		e    Event
		want string
	}{
		{"all fields in order", Event{Type: "t", Retry: 10, ID: "e1", Data: "x"}, "event: t\nretry: 10\nid: e1\ndata: x\n\n"},
		{"empty data still gives a line", Event{ID: "e1"}, "id: e1\ndata: \n\n"},
		{"retry zero is absent", Event{ID: "e1", Data: "x", Retry: 0}, "id: e1\ndata: x\n\n"},
		{"LF, CR and CRLF are breaks", Event{ID: "e", Data: "a\nb\rc\r\nd"}, "id: e\ndata: a\ndata: b\ndata: c\ndata: d\n\n"},
		{"LF CR are two breaks", Event{ID: "e", Data: "a\n\rb"}, "id: e\ndata: a\ndata: \ndata: b\n\n"},
		{"CR CRLF are two breaks", Event{ID: "e", Data: "a\r\r\nb"}, "id: e\ndata: a\ndata: \ndata: b\n\n"},
		{"breaks at the edges survive", Event{ID: "e", Data: "\na\r"}, "id: e\ndata: \ndata: a\ndata: \n\n"},
		{"nothing else breaks", Event{ID: "e", Data: "a\u2028b\u0085c\vd\fe"}, "id: e\ndata: a\u2028b\u0085c\vd\fe\n\n"},
		{"a late entry does not move the cursor back", Event{ID: "e5", Data: "x", CursorID: "e9"}, "id: e5\ndata: x\nid: e9\n\n"},
		{"a field that could forge others is left out", Event{ID: "a\nb", Type: "a\rb", CursorID: "a\x00", Data: "x"}, "data: x\n\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(AppendEvent(nil, tt.e)); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if got := EventSize(tt.e); got != len(tt.want) {
				t.Errorf("size %d, want %d", got, len(tt.want))
			}
			if got := string(AppendEvent([]byte("before"), tt.e)); got != "before"+tt.want {
				t.Errorf("appended: %q", got)
			}
		})
	}
}

func TestAppendEventAllocatesNothingIntoARightSizedSlice(t *testing.T) {
	e := Event{ID: "urn:uuid:1", Type: "t", Retry: 3000, Data: strings.Repeat("line\r\n", 100), CursorID: "c"}
	buf := make([]byte, 0, EventSize(e))
	if n := testing.AllocsPerRun(100, func() { buf = AppendEvent(buf[:0], e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if len(buf) != cap(buf) {
		t.Errorf("%d bytes written into %d", len(buf), cap(buf))
	}
}

func TestRetryLineDispatchesNothing(t *testing.T) {
	d := NewDecoder(strings.NewReader(Comment+string(AppendRetry(nil, 2750))), 0)
	if e, err := d.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("event %+v, %v", e, err)
	}
	if ms, ok := d.Retry(); ms != 2750 || !ok {
		t.Errorf("retry %d, %v", ms, ok)
	}
}

// FuzzRoundTrip checks that what is written is read again, and that nothing in a field can add another.
func FuzzRoundTrip(f *testing.F) {
	f.Add("e1", "chat", "a\r\nb", uint64(10), "e9")
	f.Add("", "", "\n\r\r\n", uint64(0), "")
	f.Add("a\nb", "x\x00", "data: y\n\nid: z", uint64(1<<63), "\r")
	f.Add(" a", ":", "\xff\xe2\x82", uint64(7), "é")
	f.Fuzz(func(t *testing.T, id, kind, data string, retry uint64, cursor string) {
		e := Event{ID: id, Type: kind, Data: data, Retry: retry, CursorID: cursor}
		wire := AppendEvent(nil, e)
		if len(wire) != EventSize(e) {
			t.Fatalf("%d bytes, EventSize says %d", len(wire), EventSize(e))
		}
		want := Event{Data: decodeUTF8([]byte(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data))), Retry: retry}
		for _, v := range []struct {
			to   *string
			text string
		}{{&want.Type, kind}, {&want.ID, id}, {&want.ID, cursor}} {
			if v.text != "" && !strings.ContainsAny(v.text, "\r\n\x00") {
				*v.to = decodeUTF8([]byte(v.text))
			}
		}
		d := NewDecoder(iotest.HalfReader(bytes.NewReader(wire)), 1<<30)
		got, err := d.Next()
		if err != nil || got != want {
			t.Fatalf("wire %q\ngot  %+v, %v\nwant %+v", wire, got, err, want)
		}
		if e, err := d.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("a second event: %+v, %v", e, err)
		}
	})
}

func BenchmarkAppendEvent(b *testing.B) {
	for name, data := range map[string]string{
		"64B": strings.Repeat("x", 64), "1kB": strings.Repeat("x", 1024), "1kB-lines": strings.Repeat("0123456789abcde\n", 64),
	} {
		b.Run(name, func(b *testing.B) {
			e := Event{ID: "urn:uuid:bb3de268-05b0-4c65-b44e-8f9acefc29d6", Data: data}
			buf := make([]byte, 0, EventSize(e))
			b.SetBytes(int64(cap(buf)))
			b.ReportAllocs()
			for b.Loop() {
				buf = AppendEvent(buf[:0], e)
			}
		})
	}
}
