package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"
)

// DefaultMaxEvent bounds an event when NewDecoder is given no bound.
const DefaultMaxEvent = 4 << 20

// ErrTooLong says that a line, or the data of one event, is longer than the decoder's bound.
var ErrTooLong = errors.New("sse: event longer than the bound")

// Decoder reads events from a text/event-stream as a browser does: lines end with CR, LF or CRLF, one
// byte order mark at the start is skipped, unknown fields are ignored, an event without data is not
// reported and a block cut off by the end of the stream is dropped. It is not safe for concurrent use.
// Source: WHATWG HTML §9.2.6.
type Decoder struct {
	// OnComment, if not nil, is called from Next with the text after the colon of every comment line.
	OnComment func(text string)

	r        *bufio.Reader
	maxEvent int
	err      error // sticky

	line    []byte
	started bool // the first line has been seen
	skipLF  bool // the last line ended with CR: a LF that follows belongs to it

	data      []byte
	hasData   bool
	eventType string
	block     uint64 // retry field of the block being read

	id       string // the last id field read
	lastID   string // id as of the last blank line
	retry    uint64
	hasRetry bool
}

// NewDecoder makes a decoder of r. maxEvent bounds, in bytes, each line and the data of each event;
// 0 means DefaultMaxEvent.
func NewDecoder(r io.Reader, maxEvent int) *Decoder {
	if maxEvent <= 0 {
		maxEvent = DefaultMaxEvent
	}
	return &Decoder{r: bufio.NewReader(r), maxEvent: maxEvent}
}

// LastEventID returns the cursor a client would send now: the last id field before the last blank line that
// was read, with or without data. Empty when there was none, or when an empty id field cleared it.
func (d *Decoder) LastEventID() string { return d.lastID }

// SetLastEventID sets the cursor with which the stream was asked for. It is the ID of events before the
// stream's first id field, as in a browser that has reconnected. Call it before Next.
func (d *Decoder) SetLastEventID(id string) { d.id, d.lastID = id, id }

// Retry returns the last reconnection time that was read, in milliseconds, and whether there was one.
func (d *Decoder) Retry() (ms uint64, ok bool) { return d.retry, d.hasRetry }

// Next returns the next event as soon as its blank line has been read. ID is the cursor at that moment,
// which persists from event to event; Retry is what this block said, 0 for nothing. At the end of the
// stream the error is io.EOF; it is ErrTooLong beyond the bound, or the reader's. Errors are final.
func (d *Decoder) Next() (Event, error) {
	for d.err == nil {
		if d.err = d.readLine(); d.err != nil {
			break
		}
		if len(d.line) > 0 {
			d.err = d.field(d.line)
			continue
		}
		if e, ok := d.dispatch(); ok {
			return e, nil
		}
	}
	return Event{}, d.err
}

// readLine fills d.line without waiting for the byte after a CR.
func (d *Decoder) readLine() error {
	d.line = d.line[:0]
	for {
		if _, err := d.r.Peek(1); err != nil {
			return err
		}
		chunk, _ := d.r.Peek(d.r.Buffered()) // cannot fail, and does not read
		if d.skipLF {
			d.skipLF = false
			if chunk[0] == '\n' {
				d.discard(1)
				continue
			}
		}
		end := indexBreak(chunk)
		text := chunk
		if end >= 0 {
			text = chunk[:end]
		}
		if len(d.line)+len(text) > d.maxEvent {
			return ErrTooLong
		}
		d.line = append(d.line, text...)
		if end < 0 {
			d.discard(len(chunk))
			continue
		}
		d.skipLF = chunk[end] == '\r'
		d.discard(end + 1)
		break
	}
	if !d.started {
		d.started = true
		d.line = bytes.TrimPrefix(d.line, []byte("\uFEFF"))
	}
	return nil
}

// discard drops n buffered bytes, which cannot fail.
func (d *Decoder) discard(n int) { _, _ = d.r.Discard(n) }

// indexBreak returns the place of the first CR or LF in b, or -1.
func indexBreak(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

func (d *Decoder) field(line []byte) error {
	if !utf8.Valid(line) {
		line = []byte(decodeUTF8(line))
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(name) == 0 {
		if d.OnComment != nil {
			d.OnComment(string(value))
		}
		return nil
	}
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "event":
		d.eventType = string(value)
	case "data":
		if len(d.data)+len(value)+1 > d.maxEvent {
			return ErrTooLong
		}
		d.data = append(append(d.data, value...), '\n')
		d.hasData = true
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			d.id = string(value)
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 64); err == nil && onlyDigits(value) {
			d.retry, d.hasRetry, d.block = ms, true, ms
		}
	}
	return nil
}

func (d *Decoder) dispatch() (Event, bool) {
	d.lastID = d.id
	e := Event{ID: d.id, Type: d.eventType, Retry: d.block}
	ok := d.hasData
	if ok {
		e.Data = string(d.data[:len(d.data)-1])
	}
	d.data, d.hasData, d.eventType, d.block = d.data[:0], false, "", 0
	return e, ok
}

func onlyDigits(s []byte) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) > 0
}
