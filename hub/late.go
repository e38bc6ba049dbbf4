package hub

import (
	"slices"

	"github.com/cinnabar-hub/cinnabar/spec/sse"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// A late entry is one that the transport recovered after it had handed out a higher position. It is the one
// exception to the order (SSE-C09), and the node's order is not a subscriber's: whether an entry is late, or
// already known, differs from one to the next. past is what each of them remembers to tell.
//
//	  known         live          read          live          read      live …
//	────────────┼─────────────┼────────────┼──────────────┼──────────┼──────────► position
//	          floor         after        upto           after       upto
//
// What lies in a stretch read from the log was written then, if it matched, also when the follower had yet to
// bring it: the log is complete. In a live stretch a hole may be left, and a late entry fills it. Written after a
// higher one, its block ends with the id of the highest update that this client was sent, so that the client's
// cursor does not go back; any other id, such as the newest of the node, might be of an update that is not for it.

// past is a subscriber's record of what it has read and sent. Owned by the consumer.
type past struct {
	floor  transport.Position // everything up to here was read from the log or is not wanted
	read   []stretch          // read from the log later, in order, apart from each other
	sent   transport.Position // the highest update written on this stream, 0 = none
	sentID string             // its event id
}

// stretch is the part of the log after `after` up to and including upto.
type stretch struct{ after, upto transport.Position }

// maxStretches bounds what is remembered of a subscriber that falls behind again and again. A late entry so old that
// its place is forgotten is written, perhaps for the second time: a client knows a repetition by its id.
const maxStretches = 64

// noteRead notes that the log was read completely from after `after` up to upto.
func (p *past) noteRead(after, upto transport.Position) {
	if upto <= after {
		return
	}
	last := len(p.read) - 1
	switch {
	case after <= p.floor && last < 0:
		p.floor = max(p.floor, upto)
	case last >= 0 && after <= p.read[last].upto:
		p.read[last].upto = max(p.read[last].upto, upto)
	case last+1 < maxStretches:
		p.read = append(p.read, stretch{after, upto})
	default:
		copy(p.read, p.read[1:])
		p.read[last] = stretch{after, upto}
	}
}

// lacks reports whether an entry at pos has not been read from the log and is wanted.
func (p *past) lacks(pos transport.Position) bool {
	return pos > p.floor && !slices.ContainsFunc(p.read, func(s stretch) bool { return s.after < pos && pos <= s.upto })
}

// noteSent notes an update written to the client.
func (p *past) noteSent(pos transport.Position, id string) {
	if pos > p.sent {
		p.sent, p.sentID = pos, id
	}
}

// rewind forgets what lies after pos.
func (p *past) rewind(pos transport.Position) {
	p.floor = min(p.floor, pos)
	p.read = slices.DeleteFunc(p.read, func(s stretch) bool { return s.after >= pos })
	if last := len(p.read) - 1; last >= 0 {
		p.read[last].upto = min(p.read[last].upto, pos)
	}
	if p.sent > pos {
		p.sent, p.sentID = 0, ""
	}
}

// wants reports whether a frame goes to the client. Called by the consumer.
func (s *subscriber) wants(f *frame) bool {
	if !f.late {
		return f.pos > s.pos
	}
	return s.past.lacks(f.pos) && (!f.unsure || s.selects(f.update))
}

// wire returns what to write of a frame, and notes it as written; nil if the client is to have nothing of it.
func (s *subscriber) wire(f *frame, chunked bool) []byte {
	if !s.wants(f) {
		return nil
	}
	if f.pos < s.past.sent {
		s.hub.metrics.Late.Inc()
		return f.wireAfter(s.past.sentID, chunked)
	}
	s.pos = max(s.pos, f.pos)
	s.past.noteSent(f.pos, f.id)
	return f.wire(chunked)
}

// wireAfter encodes a late frame for a client whose cursor stands at cursorID.
func (f *frame) wireAfter(cursorID string, chunked bool) []byte {
	ev := event(f.update)
	ev.CursorID = cursorID
	b := sse.AppendEvent(make([]byte, 0, sse.EventSize(ev)), ev)
	if !chunked {
		return b
	}
	return appendRaw(make([]byte, 0, len(b)+maxChunkHead+2), b, true)
}

// minLateBytes is how much of late frames may wait for any subscriber, however small its queue.
const minLateBytes = 256 << 10

// offerLate queues a late frame at its place. Unlike others it is not given up when the queue overflows, because
// the log is not read again where it stands; a subscriber for which too many wait is cut. The subscriber's lock is held.
func (s *subscriber) offerLate(f *frame) {
	if s.lateBytes > 0 && s.lateBytes+f.size() > max(minLateBytes, s.hub.o.SubscriberBuffer) {
		s.ending.CompareAndSwap(int32(endNone), int32(endLate))
		s.notifyLocked()
		return
	}
	i, _ := slices.BinarySearchFunc(s.queue, f.pos, func(q *frame, pos transport.Position) int {
		if q.pos < pos {
			return -1
		}
		return 1
	})
	s.queue = slices.Insert(s.queue, i, f)
	s.lateBytes += f.size()
	s.notifyLocked()
}
