package hub

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// resumption is what a request asks for and what is answered.
type resumption struct {
	asked   bool               // the request carried a cursor
	echo    string             // for the reconciliation headers
	after   transport.Position // where to go on; meaningless if liveOnly
	live    bool               // nothing is replayed
	outcome string             // metric label
}

// cursor reads the request's cursor: the header, then the query component, then the body (SUB-04, REC-05).
func (h *Hub) cursor(r *http.Request, forms ...spec.Form) (value string, asked bool) {
	keys := spec.ResumeKeys(!h.o.NoClassic, h.o.LegacyCursorParams)
	value, asked = spec.Cursor(r.Header.Get(spec.HeaderLastEventID), keys, forms...)
	return strings.Clone(value), asked // of a body that need not be kept
}

// resume decides where a subscriber goes on and what it is told: the id it asked for exactly when
// nothing after it has been lost, `earliest` otherwise, never any other id (REC-12).
func (h *Hub) resume(ctx context.Context, value string, asked bool) (resumption, error) {
	switch {
	case !asked:
		return resumption{live: true}, nil
	case value == spec.Earliest:
		return h.fromEarliest(ctx, "earliest")
	case value == "" || !spec.ValidCursor(value, h.o.Limits) && len(spec.CursorForms(value)) == 1:
		return h.unknown(ctx)
	}
	for _, id := range spec.CursorForms(value) {
		if !spec.ValidCursor(id, h.o.Limits) {
			continue
		}
		pos, err := h.o.Transport.Locate(ctx, id)
		switch {
		case err == nil:
			return resumption{asked: true, echo: value, after: pos, outcome: "resumed"}, nil
		case errors.Is(err, transport.ErrTrimmed):
			// Its place is known: all that is left comes after it.
			return h.fromEarliest(ctx, "trimmed")
		case !errors.Is(err, transport.ErrUnknown):
			return resumption{}, err
		}
	}
	return h.unknown(ctx)
}

// unknown replays nothing unless configured otherwise (REC-13).
func (h *Hub) unknown(ctx context.Context) (resumption, error) {
	if h.o.ReplayOnUnknownCursor {
		return h.fromEarliest(ctx, "unknown")
	}
	return resumption{asked: true, echo: spec.Earliest, live: true, outcome: "unknown"}, nil
}

func (h *Hub) fromEarliest(ctx context.Context, outcome string) (resumption, error) {
	span, err := h.o.Transport.Span(ctx)
	if err != nil {
		return resumption{}, err
	}
	r := resumption{asked: true, echo: spec.Earliest, outcome: outcome}
	if span.First > 0 {
		r.after = span.First - 1
	}
	return r, nil
}

// announce puts the answer into both generations' headers, which say the same (REC-11, G-07), or into that of the only
// generation that is served (G-22).
func (h *Hub) announce(head http.Header, r resumption) {
	if !r.asked {
		return
	}
	head.Set(spec.Draft08.Reconciled, r.echo)
	if !h.o.NoClassic {
		head.Set(spec.Classic.Reconciled, r.echo)
	}
}
