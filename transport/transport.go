// Package transport defines the ordered, replayable log on which a hub is built. A transport knows
// nothing of HTTP, tokens or subscribers: it takes updates, gives each a position, hands every one to
// the node's single follower in order, and reads any part of the retained log again.
package transport

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// Position is a place in the log. Positions grow by at least one with each entry; 0 is before the first.
type Position uint64

// Entry is one update at its place. Neither the entry nor its update may be changed.
type Entry struct {
	Pos    Position
	Late   bool // recovered after a higher position had already been handed out (design/jetstream.md §8b)
	Update *spec.Update
}

// Span describes what the log retains.
type Span struct {
	First  Position // position of the first retained entry; Last+1 when nothing is retained
	Last   Position // position of the newest entry ever appended, retained or not; 0 before the first
	LastID string   // event id at Last, "" if it is no longer known
}

// Errors that callers branch on. They are wrapped with what was attempted.
var (
	ErrUnknown     = errors.New("event id unknown")                     // Locate: never seen in this log
	ErrTrimmed     = errors.New("position has left the log")            // Locate, Scan: something after it is gone
	ErrClosed      = errors.New("transport closed")                     // any method after Close
	ErrUnavailable = errors.New("transport unavailable")                // temporary; publishers get 503
	ErrFull        = errors.New("no space left for history")            // publishers get 507
	ErrTooLarge    = errors.New("update larger than the log can store") // publishers get 413
)

// Transport is an ordered, replayable log. All methods are safe for concurrent use.
type Transport interface {
	// Append stores u and returns its entry, whose update carries the id (u.ID or, if that is empty, a
	// new one). The update is durable, as configured, when the error is nil. u is not modified and must
	// not be modified afterwards. An id that was used before is stored again (PUB-15).
	// Errors: ErrFull, ErrUnavailable, ErrTooLarge, ErrClosed, or the context's.
	Append(ctx context.Context, u *spec.Update) (Entry, error)
	// Follow starts the node's one follower at the end of the log: fn is called for every later entry, in
	// log order, once, from one goroutine. It returns when the follower is established; the follower ends
	// with ctx or with Close, which wait for a running fn. A second Follow is an error.
	Follow(ctx context.Context, fn func(Entry)) (Interest, error)
	// Scan yields the retained entries after `after` up to and including `upto`, in order. hint may be
	// nil (everything); with a hint entries that no selector matches may be left out, but need not be.
	// The sequence ends after the first error. If an entry after `after` has been discarded by retention, before or during
	// the scan, the error is ErrTrimmed; entries deleted singly (expiry) are left out silently. Nothing is read ahead without
	// bound: a caller that stops pulling stops the reading. `upto` beyond the end of the log ends at its end.
	Scan(ctx context.Context, after, upto Position, hint []topic.Selector) iter.Seq2[Entry, error]
	// Locate returns the position of the update whose id is eventID, the earliest one if several share it.
	// It returns ErrUnknown if the id was never seen, and ErrTrimmed if it, and anything after it, has left
	// the log. An id whose update is gone but after which nothing was lost (REC-12) is located.
	Locate(ctx context.Context, eventID string) (Position, error)
	// Span returns what is retained, as far as it can be read: a log that takes no appends for now still has one.
	Span(ctx context.Context) (Span, error)
	// Ready is the health probe: nil when the log takes appends and its follower keeps up, else why not
	// (ErrUnavailable, ErrFull, ErrClosed). It is cheap and may be asked at any time.
	Ready(ctx context.Context) error
	// Stats returns counters for scraping; it does no I/O.
	Stats() Stats
	// Close waits for pending appends (until ctx ends), stops the follower and releases everything.
	// Calling it twice is harmless.
	Close(ctx context.Context) error
}

// Interest is how a node says which selectors have local subscribers. Safe for concurrent use.
type Interest interface {
	// Add returns the position after which every entry that any of the selectors selects is sure to reach the
	// follower; what is at or before it, Scan can read. Calls are counted, one for each selector given: the
	// same one may be added many times. All are added or, with an error, none. Whoever follows with
	// more than one selector gives them in one call, which costs no more than one.
	Add(ctx context.Context, selectors ...topic.Selector) (from Position, err error)
	// Remove undoes one Add of each of the selectors. Its effect may be delayed by a second or more.
	Remove(selectors ...topic.Selector)
}

// Stats are counters since the transport was opened, and gauges where said.
type Stats struct {
	Appends       uint64        // acknowledged
	AppendErrors  uint64        // refused or failed for good
	AppendRetries uint64        // sent again after a time-out
	AppendLatency time.Duration // sum over Appends
	Followed      uint64        // entries handed to the follower
	WindowHits    uint64        // scans answered from the shared window
	WindowMisses  uint64        // scans that had to read the store
	RetainedBytes uint64        // gauge
	Retained      uint64        // gauge: entries retained

	// Of a follower that hears only what its node is interested in; zero elsewhere.
	Follower    string            // gauge: "all", "interest"; empty before Follow
	Filters     int               // gauge: subjects subscribed
	BusMessages uint64            // messages that the bus brought to the follower, copies included
	BusBytes    uint64            // of these
	Suspected   map[string]uint64 // times the follower had to make sure that nothing was lost, by reason
	Reread      uint64            // entries handed out from the store because the bus had not brought them
	Late        uint64            // of these, handed out after a higher position
	Lost        uint64            // entries that left the log before they could be followed
}
