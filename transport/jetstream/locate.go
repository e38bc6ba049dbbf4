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
	if n, _, own := l.identity.Load().codec.Decode(eventID); own && n > 0 {
		pos, err := l.locateAt(ctx, eventID, transport.Position(n), x)
		if !errors.Is(err, transport.ErrUnknown) {
			return pos, err
		}
	}
	indexed := true // or there is no index
	var unsure error
	if !l.opts.NoIDIndex {
		pos, known, err := l.locateIndexed(ctx, eventID, x)
		switch {
		case l.opts.clustered() && errors.Is(err, transport.ErrUnavailable):
			unsure = err // recent history may know it
		case !errors.Is(err, transport.ErrUnknown):
			return pos, err
		}
		indexed = known
	}
	if l.opts.clustered() { // another node may have appended it a moment ago
		if x, err = l.freshExtent(ctx); err != nil {
			return 0, err
		}
	}
	pos, err := l.locateRecent(ctx, eventID, x)
	if !errors.Is(err, transport.ErrUnknown) {
		return pos, err
	}
	switch {
	case unsure != nil:
		return 0, unsure
	case x.replica:
		return 0, fmt.Errorf("%w: there is no leader to ask", transport.ErrUnavailable)
	}
	if !indexed {
		// "not found" is also the server's answer when it cannot read: unknown would have the client lose history
		if known, err := l.indexKnows(ctx, eventID); err != nil {
			return 0, err
		} else if known {
			return 0, fmt.Errorf("%w: the id index could not be read", transport.ErrUnavailable)
		}
	}
	return 0, transport.ErrUnknown
}

// locateAt is for an id that belongs to pos, if to any.
func (l *Log) locateAt(ctx context.Context, eventID string, pos transport.Position, x extent) (transport.Position, error) {
	if pos > x.last && l.opts.clustered() { // appended by another node a moment ago, or its end is lost
		var err error
		if x, err = l.extentUntil(ctx, pos, ownPatience); err != nil {
			return 0, err
		}
		if pos > x.last && x.replica {
			return 0, fmt.Errorf("%w: position %d is not to be read yet", transport.ErrUnavailable, pos)
		}
	}
	switch {
	case pos > x.last:
		return 0, transport.ErrUnknown
	case pos+1 < x.first:
		return 0, transport.ErrTrimmed
	}
	if ok, err := l.stands(ctx, eventID, pos, x); err != nil || ok {
		return pos, err
	}
	return 0, transport.ErrUnknown
}

// locateIndexed looks an id up in the index, and reports whether the index has an entry for it. What a replica
// does not have, or has of old, the leader is asked for.
func (l *Log) locateIndexed(ctx context.Context, eventID string, x extent) (pos transport.Position, known bool, err error) {
	subject := l.subjects.id(eventID)
	entry, err := l.getID(ctx, subject)
	if err != nil {
		return 0, false, err
	}
	if pos, err = l.locateEntry(ctx, eventID, entry, x); err == nil || !l.opts.clustered() {
		return pos, entry.revision > 0, err
	}
	p := clusterPatience
	if l.extents.left() {
		p = leaderPatience
	}
	trimmed := errors.Is(err, transport.ErrTrimmed)
	led, failed := l.getIDFromLeader(ctx, subject, p)
	switch {
	case failed != nil && trimmed && errors.Is(failed, transport.ErrUnavailable):
		return 0, true, err // as good an answer as there is
	case failed != nil:
		return 0, false, failed
	}
	pos, err = l.locateEntry(ctx, eventID, led, x)
	return pos, led.revision > 0, err
}

// locateEntry says where the index has an id.
func (l *Log) locateEntry(ctx context.Context, eventID string, entry idEntry, x extent) (transport.Position, error) {
	if entry.revision == 0 || entry.foreign {
		return 0, transport.ErrUnknown
	}
	return l.locateAt(ctx, eventID, entry.pos, x)
}

// indexKnows asks the index, without reading it, whether it has an entry for the id.
func (l *Log) indexKnows(ctx context.Context, eventID string) (bool, error) {
	ask := fmt.Appendf(nil, `{"subjects_filter":%q}`, l.subjects.id(eventID))
	info, err := l.readInfo(ctx, idsName(l.opts.Prefix), ask, l.inbox.patience)
	return len(info.State.Subjects) > 0, err
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
	return l.readIDEntry(uint64(revision), m.Data), nil
}

// getIDFromLeader is getID for what a replica may not have yet.
func (l *Log) getIDFromLeader(ctx context.Context, subject string, p patience) (idEntry, error) {
	m, found, err := l.leaderGet(ctx, idsName(l.opts.Prefix), fmt.Appendf(nil, `{"last_by_subj":%q}`, subject), p)
	if err != nil || !found {
		return idEntry{}, err
	}
	return l.readIDEntry(m.Sequence, m.Data), nil
}

func (l *Log) readIDEntry(revision uint64, data []byte) idEntry {
	entry := idEntry{revision: revision, foreign: true}
	epoch, pos, _ := strings.Cut(string(data), " ")
	if n, err := strconv.ParseUint(pos, 10, 64); err == nil && epoch == strconv.FormatUint(uint64(l.identity.Load().epoch), 10) {
		entry.pos, entry.foreign = transport.Position(n), false
	}
	return entry
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
		if l.opts.clustered() { // a replica may not have what the leader has refused this for
			known, err = l.getIDFromLeader(ctx, subject, clusterPatience)
		} else {
			known, err = l.getID(ctx, subject)
		}
		if err != nil {
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
