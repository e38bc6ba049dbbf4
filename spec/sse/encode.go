package sse

import (
	"strconv"
	"strings"
)

// Comment is a whole comment line: it says that the connection lives and ends no event (SSE-W10).
const Comment = ":\n"

// AppendEvent appends e to dst as one block, blank line included, and returns the extended slice. It
// allocates nothing when dst has room for EventSize(e) more bytes. Fields are written in the order
// event, retry, id, data, then the cursor (SSE-W2, SSE-C09); data is split on CRLF, CR and LF, and an
// empty value still gives one data line (SSE-W3, SSE-W4).
//
// Type, ID and CursorID must hold no CR, LF or NUL, which publication guarantees (SSE-W7); a field that
// does is left out, because writing it would let its author forge other fields.
// Source: WHATWG HTML §9.2.5; REQUIREMENTS SSE-W1 … SSE-W10.
func AppendEvent(dst []byte, e Event) []byte {
	if e.Type != "" {
		dst = appendField(dst, "event: ", e.Type)
	}
	if e.Retry > 0 {
		dst = AppendRetry(dst, e.Retry)
	}
	if e.ID != "" {
		dst = appendField(dst, "id: ", e.ID)
	}
	dst = appendData(dst, e.Data)
	if e.CursorID != "" {
		dst = appendField(dst, "id: ", e.CursorID)
	}
	return append(dst, '\n')
}

// AppendRetry appends a retry line of ms milliseconds without a blank line, so that nothing is
// dispatched (SSE-W12).
func AppendRetry(dst []byte, ms uint64) []byte {
	dst = append(dst, "retry: "...)
	dst = strconv.AppendUint(dst, ms, 10)
	return append(dst, '\n')
}

// EventSize returns how many bytes AppendEvent writes for e.
func EventSize(e Event) int {
	n := 1 + len("data: \n") + len(e.Data)
	if e.Type != "" && singleLine(e.Type) {
		n += len("event: \n") + len(e.Type)
	}
	if e.Retry > 0 {
		n += len("retry: \n") + digits(e.Retry)
	}
	if e.ID != "" && singleLine(e.ID) {
		n += len("id: \n") + len(e.ID)
	}
	if e.CursorID != "" && singleLine(e.CursorID) {
		n += len("id: \n") + len(e.CursorID)
	}
	// A break of one byte becomes the line feed of one line and the name of the next; CRLF saves a byte.
	breaks := strings.Count(e.Data, "\n")
	if strings.IndexByte(e.Data, '\r') >= 0 {
		crlf := strings.Count(e.Data, "\r\n")
		breaks += strings.Count(e.Data, "\r") - crlf
		n -= crlf
	}
	return n + breaks*len("data: ")
}

func appendField(dst []byte, name, value string) []byte {
	if !singleLine(value) {
		return dst
	}
	dst = append(dst, name...)
	dst = append(dst, value...)
	return append(dst, '\n')
}

// appendData writes one data line per line of s. Each kind of break is looked for once per occurrence,
// so a text full of one kind is not searched again and again for the other.
func appendData(dst []byte, s string) []byte {
	lf, cr := strings.IndexByte(s, '\n'), strings.IndexByte(s, '\r')
	start := 0
	for lf >= 0 || cr >= 0 {
		end, next := lf, lf+1
		if lf < 0 || cr >= 0 && cr < lf {
			end, next = cr, cr+1
			if cr+1 == lf {
				next = lf + 1
			}
		}
		dst = appendLine(dst, s[start:end])
		start = next
		if lf >= 0 && lf < start {
			lf = indexFrom(s, start, '\n')
		}
		if cr >= 0 && cr < start {
			cr = indexFrom(s, start, '\r')
		}
	}
	return appendLine(dst, s[start:])
}

func appendLine(dst []byte, line string) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, line...)
	return append(dst, '\n')
}

func indexFrom(s string, from int, c byte) int {
	if i := strings.IndexByte(s[from:], c); i >= 0 {
		return from + i
	}
	return -1
}

func singleLine(s string) bool {
	for i := range len(s) {
		if c := s[i]; c == '\n' || c == '\r' || c == 0 {
			return false
		}
	}
	return true
}

func digits(v uint64) int {
	n := 1
	for ; v >= 10; v /= 10 {
		n++
	}
	return n
}
