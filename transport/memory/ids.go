package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// Bounds of what is remembered about publishers' ids whose updates have been trimmed. Ids of the hub
// need no memory.
const (
	maxTrimmedIDs   = 1 << 16
	maxTrimmedBytes = 4 << 20
)

// index maps publishers' ids to positions: to the earliest one when an id was used again while nothing after
// its update was lost (REC-12, REC-14). It outlives the updates by a bounded number, oldest forgotten first.
type index struct {
	at       map[string]transport.Position
	gone     []mark // in the order of their positions
	goneSize int    // bytes of the ids in gone
}

type mark struct {
	id  string
	pos transport.Position
}

func newIndex() index { return index{at: map[string]transport.Position{}} }

// add notes that id stands at pos in a log that begins at first.
func (x *index) add(id string, pos, first transport.Position) {
	if old, ok := x.at[id]; !ok || old+1 < first {
		x.at[id] = pos
	}
}

// trimmed notes that the update at pos has left the log.
func (x *index) trimmed(id string, pos transport.Position) {
	if x.at[id] != pos {
		return // a repetition of an id known by an earlier position
	}
	x.gone = append(x.gone, mark{id, pos})
	x.goneSize += len(id)
	for len(x.gone) > maxTrimmedIDs || (x.goneSize > maxTrimmedBytes && len(x.gone) > 1) {
		m := x.gone[0]
		x.gone[0] = mark{}
		x.gone = x.gone[1:]
		x.goneSize -= len(m.id)
		if x.at[m.id] == m.pos { // else published again since
			delete(x.at, m.id)
		}
	}
}

// Locate finds an event id; see transport.Transport. When an id was used again while nothing after
// its first update was lost, the first counts, even after it has left the log: what follows it may be lost.
// Of publishers' ids that have left the log the newest 65,536 are known (up to 4 MiB of them).
func (l *Log) Locate(_ context.Context, eventID string) (transport.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed {
		return 0, fmt.Errorf("memory: locate %q: %w", eventID, transport.ErrClosed)
	}
	l.trim(time.Now(), 0, 0)
	pos, ok := l.own(eventID)
	if !ok {
		pos, ok = l.ids.at[eventID]
	}
	switch {
	case !ok:
		return 0, fmt.Errorf("memory: locate %q: %w", eventID, transport.ErrUnknown)
	case pos+1 < l.first():
		return 0, fmt.Errorf("memory: locate %q: %w", eventID, transport.ErrTrimmed)
	default:
		return pos, nil
	}
}

// own decodes an id given by this log. The key is this log's alone, so that a check value of zero and a
// position that exists prove the id. Called with mu held.
func (l *Log) own(id string) (transport.Position, bool) {
	pos, check, ok := l.codec.Decode(id)
	if !ok || check != 0 || pos == 0 || transport.Position(pos) > l.tail.entry.Pos {
		return 0, false
	}
	return transport.Position(pos), true
}
