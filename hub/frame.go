package hub

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// frame is one update in wire form, encoded once per node and shared by everyone who reads it.
// It is immutable, chunk framing included, so that a chunked connection needs no copy of its own.
type frame struct {
	pos    transport.Position
	late   bool
	unsure bool // late ones: whether it is for a subscriber has yet to be found out
	id     string
	update *spec.Update // of late ones, nil else
	buf    []byte       // chunk size line, event, CRLF
	event  []byte       // the part of buf between the two
}

// maxChunkHead is the longest chunk size line: 16 hexadecimal digits and CRLF.
const maxChunkHead = 18

// newFrame encodes e.
func newFrame(e transport.Entry) *frame {
	ev := event(e.Update)
	size := sse.EventSize(ev)
	var head [maxChunkHead]byte
	h := appendChunkHead(head[:0], size)

	buf := make([]byte, 0, len(h)+size+2)
	buf = append(buf, h...)
	buf = sse.AppendEvent(buf, ev)
	body := buf[len(h):]
	buf = append(buf, '\r', '\n')
	f := &frame{
		pos: e.Pos, late: e.Late, id: strings.Clone(e.Update.ID), // subscribers keep it, and nothing else of the update
		buf: buf, event: slices.Clip(body),
	}
	if e.Late {
		f.update = e.Update
	}
	return f
}

// event is an update as the stream has it.
func event(u *spec.Update) sse.Event {
	return sse.Event{ID: u.ID, Type: u.Type, Data: u.Data, Retry: u.Retry}
}

// wire returns the bytes to write: with chunk framing or without.
func (f *frame) wire(chunked bool) []byte {
	if chunked {
		return f.buf
	}
	return f.event
}

// size is what the frame counts for in a subscriber's queue, in bytes.
func (f *frame) size() int { return len(f.buf) }

// appendChunkHead appends the size line of a chunk of size bytes.
func appendChunkHead(dst []byte, size int) []byte {
	return append(strconv.AppendInt(dst, int64(size), 16), '\r', '\n')
}

// appendRaw appends bytes that are no event (a comment, a retry field) to dst, as one chunk if chunked.
func appendRaw(dst, b []byte, chunked bool) []byte {
	if !chunked {
		return append(dst, b...)
	}
	dst = append(appendChunkHead(dst, len(b)), b...)
	return append(dst, '\r', '\n')
}
