package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// Presence is one connection of a subscriber, with all its subscriptions. Nobody changes it once it is made.
type Presence struct {
	Subscriber string           // id of the connection, made by the hub (ACT-10)
	Subject    string           // the token's subject, empty for none
	Selectors  []topic.Selector // one subscription each, without repetition
	Payload    json.RawMessage  // of all subscriptions; nil for none
	// Payloads are those of the subscriptions one by one, in the order of Selectors, and then Payload does not count;
	// an entry is nil for none. They are nil as a whole where all have the same (D08-19, ACT-29).
	Payloads []json.RawMessage
	Since    time.Time
}

// Directory lists who is subscribed, on any node. Attend comes first; without it nothing is kept, sent or read.
// All methods are safe for concurrent use.
type Directory interface {
	// Attend begins to keep this node's part of the directory and to watch over the others': it returns when List is
	// complete. What a dead node leaves behind is cleared by one of the others, which appends the updates that
	// gone makes of each presence to the log, once. gone is called from any goroutine and must not block.
	// lost is called when this node itself was taken for dead (it was frozen, or cut off): what it had entered has
	// been cleared, and its events sent; whoever is still connected is to be entered again.
	// Neither is it called before what was entered is cleared, nor again while it runs; it may call the other methods.
	// Everything ends with Close of the log, which takes this node's presences out without events. A second Attend is an
	// error, unless the first one failed.
	Attend(ctx context.Context, gone func(Presence) []*spec.Update, lost func()) error
	// Enter lists p, in place of what is listed of the same subscriber. When it returns nil, a List on any node that
	// begins later has p. While this node finds out that it was taken for dead, Enter waits, for as long as an Append
	// would. With an error p is not listed, or is taken out again soon.
	// Errors: ErrUnavailable, ErrFull, ErrTooLarge, ErrClosed, or the context's.
	Enter(ctx context.Context, p Presence) error
	// Leave takes the presence out, and reports whether it was there: false means that somebody else has cleared it,
	// events included. When it returns, no List that begins later has it. Errors as Enter; then nothing is known, and
	// Leave is asked again until it returns nil or ErrClosed: a presence that one of this node's own failed calls has
	// taken out counts as having been there, so that its events are sent once. A subscriber that is
	// not entered here is false without an error.
	Leave(ctx context.Context, subscriber string) (bool, error)
	// List returns everybody who is subscribed on any node, in no order: at least all whose Enter had returned
	// on whichever node when List began, and nobody whose Leave had, or of whom an update that gone made was in the
	// log by then: a reader takes the log's end first, then the list, and would not hear of that update any more.
	// The slice is the caller's, what it refers to is not.
	// Errors: ErrUnavailable when that cannot be made sure, ErrClosed, or the context's.
	List(ctx context.Context) ([]Presence, error)
}

// PayloadOf returns the payload of the i-th subscription, nil for none.
func (p *Presence) PayloadOf(i int) json.RawMessage {
	if i < len(p.Payloads) {
		return p.Payloads[i]
	}
	return p.Payload
}

// DistinctPayloads returns the payloads of the subscriptions without repetition, in the order of their first use, and for
// each subscription which of them is its own, -1 for none.
func (p *Presence) DistinctPayloads() (distinct []json.RawMessage, which []int) {
	which = make([]int, len(p.Selectors))
	for i := range which {
		payload := p.PayloadOf(i)
		if len(payload) == 0 {
			which[i] = -1
			continue
		}
		which[i] = slices.IndexFunc(distinct, func(d json.RawMessage) bool { return bytes.Equal(d, payload) })
		if which[i] < 0 {
			which[i] = len(distinct)
			distinct = append(distinct, payload)
		}
	}
	return distinct, which
}
