package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// Where an event id is found. The hub's own ids are encrypted positions: nothing is stored for them, and
// the message at the position proves the id by its check value. Publishers' ids stand in an index stream,
// one message for each:
//
//	<prefix>.ids.<hash of the id>    epoch position
//
// The first one wins, as the earliest of repeated ids counts (REC-14), until something after it has left the
// log and the id is published again.

// Locate finds an event id; see transport.Transport.
func (l *Log) Locate(ctx context.Context, eventID string) (transport.Position, error) {
	pos, err := l.locate(ctx, eventID)
	if err != nil {
		return 0, fmt.Errorf("jetstream: locate %q: %w", eventID, l.orClosed(err))
	}
	return pos, nil
}

func (l *Log) locate(ctx context.Context, eventID string) (transport.Position, error) {
	if l.isClosed() {
		return 0, transport.ErrClosed
	}
	x, err := l.extent(ctx)
	if err != nil {
		return 0, err
	}
	if n, _, ok := l.identity.Load().codec.Decode(eventID); ok && transport.Position(n) <= x.last && n > 0 {
		pos := transport.Position(n)
		if pos+1 < x.first {
			return 0, transport.ErrTrimmed
		}
		if ok, err := l.stands(ctx, eventID, pos, x); err != nil || ok {
			return pos, err
		}
	}
	indexed := true // or there is no index
	if !l.opts.NoIDIndex {
		entry, found, err := l.lookupID(ctx, eventID)
		if err != nil {
			return 0, err
		}
		indexed = entry.revision > 0
		if found && entry.pos <= x.last {
			if entry.pos+1 < x.first {
				return 0, transport.ErrTrimmed
			}
			if ok, err := l.stands(ctx, eventID, entry.pos, x); err != nil || ok {
				return entry.pos, err
			}
		}
	}
	pos, err := l.locateRecent(ctx, eventID, x)
	if errors.Is(err, transport.ErrUnknown) && !indexed {
		// "not found" is also the server's answer when it cannot read: unknown would have the client lose history
		if known, err := l.indexKnows(ctx, eventID); err != nil {
			return 0, err
		} else if known {
			return 0, fmt.Errorf("%w: the id index could not be read", transport.ErrUnavailable)
		}
	}
	return pos, err
}

// indexKnows asks the index, without reading it, whether it has an entry for the id.
func (l *Log) indexKnows(ctx context.Context, eventID string) (bool, error) {
	state, err := readState(ctx, l.inbox, idsName(l.opts.Prefix), fmt.Appendf(nil, `{"subjects_filter":%q}`, l.subjects.id(eventID)))
	return len(state.Subjects) > 0, err
}

// stands reports whether the update at pos has this id. An update that is gone, singly or as the last one
// before the retained part, cannot contradict.
func (l *Log) stands(ctx context.Context, eventID string, pos transport.Position, x extent) (bool, error) {
	if pos < x.first {
		return true, nil
	}
	e, found := l.window.at(pos)
	if !found {
		var err error
		if e, found, err = l.at(ctx, pos); err != nil {
			return false, err
		}
	}
	return !found || e.Update.ID == eventID, nil
}

// locateRecent looks an id up in recent history: it knows ids that are not in the index yet, or no ids are.
func (l *Log) locateRecent(ctx context.Context, eventID string, x extent) (transport.Position, error) {
	reach := transport.Position(mendReach)
	if l.opts.NoIDIndex {
		reach = windowReach
	}
	after := max(x.last-min(x.last, reach), x.first-1)
	if x.last > after {
		if _, err := l.extendWindow(ctx, after, x.last, x); err != nil && !errors.Is(err, transport.ErrTrimmed) {
			return 0, err
		}
	}
	pos, ok := l.window.find(eventID)
	if !ok {
		return 0, transport.ErrUnknown
	}
	if pos+1 < x.first {
		return 0, transport.ErrTrimmed
	}
	return pos, nil
}

// idEntry is what the index knows of an id.
type idEntry struct {
	pos      transport.Position
	revision uint64 // sequence of the index message; 0 for none
	foreign  bool   // written for another epoch of the log
}

// lookupID asks the index.
func (l *Log) lookupID(ctx context.Context, eventID string) (entry idEntry, found bool, err error) {
	entry, err = l.getID(ctx, l.subjects.id(eventID))
	return entry, entry.revision > 0 && !entry.foreign, err
}

// getID reads the index message that is the last one on subject.
func (l *Log) getID(ctx context.Context, subject string) (idEntry, error) {
	ask := fmt.Appendf(nil, `{"last_by_subj":%q}`, subject)
	msgs, err := l.inbox.request(ctx, directGetSubject+idsName(l.opts.Prefix), ask, false)
	if err != nil {
		return idEntry{}, err
	}
	m := msgs[0]
	switch status := m.Header.Get(headerStatus); {
	case status == statusNone:
		return idEntry{}, nil
	case status != "":
		return idEntry{}, fmt.Errorf("%w: read id index: %s", transport.ErrUnavailable, status)
	}
	revision, err := position(m)
	if err != nil {
		return idEntry{}, err
	}
	entry := idEntry{revision: uint64(revision), foreign: true}
	epoch, pos, _ := strings.Cut(string(m.Data), " ")
	if n, err := strconv.ParseUint(pos, 10, 64); err == nil && epoch == strconv.FormatUint(uint64(l.identity.Load().epoch), 10) {
		entry.pos, entry.foreign = transport.Position(n), false
	}
	return entry, nil
}

// putID notes that an update with the publisher's id stands at pos, unless the index knows an earlier one after
// which nothing is lost: whoever resumes there misses nothing (REC-12, REC-14).
func (l *Log) putID(ctx context.Context, eventID string, pos transport.Position) error {
	subject := l.subjects.id(eventID)
	var known idEntry
	for unread := 0; ; {
		m := &nats.Msg{
			Subject: subject,
			Header:  nats.Header{nats.ExpectedLastSubjSeqHdr: {strconv.FormatUint(known.revision, 10)}},
			Data:    fmt.Appendf(nil, "%d %d", l.identity.Load().epoch, pos),
		}
		_, err := l.publish(ctx, m)
		if fail, ok := errors.AsType[*refusalError](err); !ok || fail.Code != codeWrongLast {
			return err
		}
		if known, err = l.getID(ctx, subject); err != nil {
			return err
		}
		if known.revision == 0 { // it has just been forgotten, or cannot be read
			if unread++; unread > 1 {
				return fmt.Errorf("%w: the id index could not be read", transport.ErrUnavailable)
			}
		}
		if known.revision == 0 || known.foreign {
			continue
		}
		x, err := l.extent(ctx)
		if err != nil {
			return err
		}
		if known.pos <= pos && known.pos+1 >= x.first { // unless the log has lost that one and another stands there
			if stands, err := l.stands(ctx, eventID, known.pos, x); err != nil || stands {
				return err
			}
		}
	}
}
