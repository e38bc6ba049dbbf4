package hub

import (
	"sync/atomic"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// Bounds of what replays keeps: 1,024 updates, of at most 4 KiB with their topics, and their wire form.
const (
	replayPlaces = 1 << 10
	replayBytes  = 4 << 10
)

// replays keeps the wire form of updates that were read from the log of late, so that a storm of clients that all
// missed the same ones has them encoded once. It pays where the transport hands out one update to all who read it.
// The zero value is ready. Safe for concurrent use.
type replays struct {
	places [replayPlaces]atomic.Pointer[replayedUpdate]
}

// replayedUpdate is one of them; immutable.
type replayedUpdate struct {
	update *spec.Update // it is of this very one
	frame  *frame       // nil: it has been read once, and who knows whether it is again
}

// wire returns the wire form of e, nil if there is none that is shared.
func (r *replays) wire(e transport.Entry, chunked bool) []byte {
	place := &r.places[uint64(e.Pos)%replayPlaces]
	known := place.Load()
	switch {
	case known == nil || known.update != e.Update:
		if small(e.Update) {
			place.Store(&replayedUpdate{update: e.Update})
		}
		return nil
	case known.frame == nil:
		known = &replayedUpdate{update: e.Update, frame: newFrame(e)}
		place.Store(known)
	}
	return known.frame.wire(chunked)
}

// small reports whether u may be kept.
func small(u *spec.Update) bool {
	n := sse.EventSize(event(u))
	for _, t := range u.Topics {
		n += len(t)
	}
	return n <= replayBytes
}
