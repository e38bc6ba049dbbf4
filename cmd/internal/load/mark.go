package load

import "strconv"

// mark is what the data of every update begins with, as text:
//
//	cb-RUN-PHASE-PUBLISHER-TOPIC-SEQUENCE-SENT-xxxx…
//
// in decimal digits; the rest is filled up to the size that was asked for.
type mark struct {
	run       uint32
	phase     uint32
	publisher int
	topic     int
	sequence  int64 // of this publisher's updates to this topic, from 0
	sent      int64 // nanoseconds since the run began, taken before the request is written
}

const (
	markPrefix = "cb-"
	// warming and measured are the phases: only what is measured is timed.
	warming  = 0
	measured = 1
)

// append writes m and fills up to size bytes.
func (m *mark) append(b []byte, size int) []byte {
	start := len(b)
	b = append(b, markPrefix...)
	for _, v := range [...]int64{int64(m.run), int64(m.phase), int64(m.publisher), int64(m.topic), m.sequence, m.sent} {
		b = strconv.AppendInt(b, v, 10)
		b = append(b, '-')
	}
	for len(b)-start < size {
		b = append(b, 'x')
	}
	return b
}

// parseMark reads the mark at the start of data.
func parseMark(data string) (mark, bool) {
	if len(data) < len(markPrefix) || data[:len(markPrefix)] != markPrefix {
		return mark{}, false
	}
	data = data[len(markPrefix):]
	var v [6]int64
	i := 0
	for k := range v {
		start := i
		for i < len(data) && data[i] >= '0' && data[i] <= '9' && i-start < 18 {
			v[k] = v[k]*10 + int64(data[i]-'0')
			i++
		}
		if i == start || i == len(data) || data[i] != '-' {
			return mark{}, false
		}
		i++
	}
	return mark{
		run: uint32(v[0]), phase: uint32(v[1]), publisher: int(v[2]), topic: int(v[3]), //nolint:gosec // a foreign mark may be any; it is compared, never trusted
		sequence: v[4], sent: v[5],
	}, true
}
