package hub

import (
	"bytes"
	"io"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// decodeAll reads a stream to its end.
func decodeAll(t *testing.T, wire []byte) []sse.Event {
	t.Helper()
	dec := sse.NewDecoder(bytes.NewReader(wire), 16<<20)
	var events []sse.Event
	for {
		e, err := dec.Next()
		if err == io.EOF { //nolint:errorlint // the decoder's contract
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
}

// unchunk takes the chunk framing off; every frame must be one chunk of its own.
func unchunk(t *testing.T, wire []byte) []byte {
	t.Helper()
	b, err := io.ReadAll(httputil.NewChunkedReader(io.MultiReader(bytes.NewReader(wire), strings.NewReader("0\r\n\r\n"))))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Covers: SSE-W2, SSE-W3, SSE-W6, SSE-W8.
func TestFrameWire(t *testing.T) {
	for name, u := range map[string]spec.Update{
		"small":         {ID: "1", Data: "x"},
		"everything":    {ID: "é", Type: "price", Retry: 1 << 63, Data: "a\nb\r\nc\rd\n"},
		"no data":       {ID: "2"},
		"like a chunk":  {ID: "3", Data: "0\r\n\r\n"},
		"16 bytes":      {ID: "4", Data: "xx"},
		"large":         {ID: "5", Data: strings.Repeat("x\n", 300_000)},
		"largest lines": {ID: "6", Data: strings.Repeat("y", 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			u.Topics = []string{"a"}
			f := newFrame(transport.Entry{Pos: 7, Update: &u})
			if f.size() != len(f.wire(true)) {
				t.Errorf("size %d, %d bytes", f.size(), len(f.wire(true)))
			}
			plain := f.wire(false)
			if got := unchunk(t, f.wire(true)); !bytes.Equal(got, plain) {
				t.Error("the two forms differ")
			}
			data := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(u.Data)
			want := sse.Event{ID: u.ID, Type: u.Type, Data: data, Retry: u.Retry}
			if events := decodeAll(t, plain); len(events) != 1 || events[0] != want {
				t.Errorf("decoded %d events", len(events))
			}
			if cap(plain) != len(plain) {
				t.Error("appending to the event would write into the shared buffer")
			}
			two := append(bytes.Clone(f.wire(true)), f.wire(true)...)
			if events := decodeAll(t, unchunk(t, two)); len(events) != 2 {
				t.Errorf("two frames in a row decode to %d events", len(events))
			}
		})
	}
}

// TestLateFrame: an update recovered out of order does not set the client's cursor back.
//
// Covers: SSE-C09.
func TestLateFrame(t *testing.T) {
	u := &spec.Update{Topics: []string{"a"}, ID: "old", Data: "x"}
	f := newFrame(transport.Entry{Pos: 1, Late: true, Update: u})
	want := "id: old\ndata: x\nid: newest\n\n"
	if got := string(f.wireAfter("newest", false)); got != want {
		t.Errorf("late frame %q, want %q", got, want)
	}
	if got := string(unchunk(t, f.wireAfter("newest", true))); got != want {
		t.Errorf("late frame, chunked: %q, want %q", got, want)
	}
	if got := string(f.wire(false)); got != "id: old\ndata: x\n\n" {
		t.Errorf("to a client that has nothing higher: %q", got)
	}
}

func TestAppendRaw(t *testing.T) {
	if got := string(appendRaw([]byte("x"), heartbeat, false)); got != "x:\n" {
		t.Errorf("%q", got)
	}
	if got := string(appendRaw([]byte("x"), heartbeat, true)); got != "x2\r\n:\n\r\n" {
		t.Errorf("%q", got)
	}
}
