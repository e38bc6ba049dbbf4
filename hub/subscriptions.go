package hub

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// listMethods is what the subscription API answers to.
const listMethods = "GET, HEAD, OPTIONS"

// What the API may cost. A list of 30,000 subscriptions is some 10 MB on the wire.
const (
	maxLists     = 4                // directories read at a time
	maxAnswers   = 32               // lists written at a time
	listQueue    = time.Second      // how long a request waits for its turn
	listPatience = 5 * time.Second  // of reading the directory
	listWriting  = 60 * time.Second // of writing an answer
	listBuffer   = 32 << 10
)

// ErrNoSubscriptions says that the hub has no directory.
var ErrNoSubscriptions = errors.New("active subscriptions are off")

// Presences lists who is subscribed, on all nodes, as transport.Directory does. Without a directory the error is
// ErrNoSubscriptions; before the list is complete it is transport.ErrUnavailable.
func (h *Hub) Presences(ctx context.Context) ([]transport.Presence, error) {
	if h.presence == nil {
		return nil, ErrNoSubscriptions
	}
	if !h.presence.ready() {
		return nil, transport.ErrUnavailable
	}
	return h.o.Directory.List(ctx)
}

// sentPath is the path of a URL as the client sent it, escapes and all (ACT-14).
func sentPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// isList reports whether u is a URL of the subscription API.
func (h *Hub) isList(u *url.URL) bool {
	rest, ok := strings.CutPrefix(sentPath(u), h.o.Path+spec.SubscriptionsPath)
	return ok && h.presence != nil && (rest == "" || rest[0] == '/')
}

// subscriptions answers the subscription API (ACT-12 … ACT-27).
func (h *Hub) subscriptions(w http.ResponseWriter, r *http.Request) error {
	path := sentPath(r.URL)
	q, ok, err := spec.ParseSubscriptionPath(strings.TrimPrefix(path, h.o.Path+spec.SubscriptionsPath), !h.o.NoClassic)
	switch {
	case err != nil:
		return err
	case !ok:
		return notFound(w, r)
	}
	grant, err := h.mayList(r, path)
	if err != nil {
		return err
	}
	a := listAnswer{q: q, hubPath: h.o.Path, chosen: q.Generation == nil}
	if a.chosen {
		a.q.Generation = h.generationFor(r, grant)
	}
	a.d = a.q.Generation.Describe
	// The end of the log comes first, then the list: whatever the list does not have yet comes after the cursor.
	span, err := h.o.Transport.Span(r.Context())
	if err != nil {
		return err
	}
	if a.cursor = span.LastID; a.cursor == "" { // nothing was ever dispatched, or its id is not known any more
		a.cursor = spec.Earliest
	}
	if span.Last == 0 || span.LastID != "" {
		a.etag = etag(a.cursor, a.chosen && !h.o.NoClassic && a.q.Generation == &spec.Draft08)
	}
	if !q.One && a.known(r) { // a single one has to be there
		return a.notModified(w)
	}
	return h.list(w, r, &a)
}

// generationFor chooses whose form the list of everything has: that of the token, else what the request asks for (G-17).
func (h *Hub) generationFor(r *http.Request, grant *auth.Grant) *spec.Dialect {
	switch {
	case h.o.NoClassic, grant.Dialect == spec.Draft08.Name:
		return &spec.Draft08
	case grant.Dialect == spec.Classic.Name, accepts(r, spec.MediaTypeJSONLD):
		return &spec.Classic
	case h.o.DefaultGeneration == spec.Draft08.Name:
		return &spec.Draft08
	default:
		return &spec.Classic
	}
}

// mayList asks for a subscribe grant on the path, as sent (ACT-14).
func (h *Hub) mayList(r *http.Request, path string) (*auth.Grant, error) {
	grant, err := h.o.Authorizer.Authorize(r, spec.ActionSubscribe)
	switch {
	case err != nil:
		return nil, err
	case grant.Allows([]string{path}):
		return grant, nil
	case grant.Anonymous:
		return nil, &spec.Problem{
			Status: http.StatusUnauthorized, Reason: auth.ReasonNoToken, Challenge: true, Detail: "a token is required to list subscriptions",
		}
	default:
		return nil, auth.Forbidden(spec.ActionSubscribe, path)
	}
}

// list reads the directory and answers with what the request asks for.
func (h *Hub) list(w http.ResponseWriter, r *http.Request, a *listAnswer) error {
	done, err := place(r.Context(), h.answers)
	if err != nil {
		return err
	}
	defer done()
	if a.list, err = h.readList(r.Context()); err != nil {
		return err
	}
	if a.q.One {
		if a.list = a.pick(); a.list == nil {
			return &spec.Problem{Status: http.StatusNotFound, Reason: "unknown_subscription", Detail: "there is no such subscription"}
		}
		if a.known(r) {
			return a.notModified(w)
		}
	}
	a.head(w.Header())
	w.Header().Set("Content-Type", a.d.MediaType)
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(listWriting)) // not every test's writer has deadlines
	if err := a.write(w); err != nil {
		panic(http.ErrAbortHandler) // the answer must not look whole
	}
	_ = rc.SetWriteDeadline(time.Time{})
	return nil
}

func (h *Hub) readList(ctx context.Context) ([]transport.Presence, error) {
	done, err := place(ctx, h.lists)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	return h.Presences(ctx)
}

// place waits for a place for a little while; the function it returns gives the place back.
func place(ctx context.Context, places chan struct{}) (done func(), err error) {
	done = func() { <-places }
	select {
	case places <- struct{}{}:
		return done, nil
	default:
	}
	timer := time.NewTimer(listQueue)
	defer timer.Stop()
	select {
	case places <- struct{}{}:
		return done, nil
	case <-timer.C:
		return nil, unavailable("too_many_lists", "too many lists of subscriptions are being read, try again", nil)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// listAnswer is one answer of the subscription API.
type listAnswer struct {
	q       spec.SubscriptionQuery
	hubPath string
	chosen  bool // the form was chosen, the path does not say it
	d       *spec.Description
	cursor  string // event id at the end of the log before the list was read
	etag    string // empty if it is not sure that any change of the list changes it
	list    []transport.Presence
}

// pick returns the one connection that has the subscription asked for, nil if none has.
func (a *listAnswer) pick() []transport.Presence {
	for i := range a.list {
		if p := &a.list[i]; p.Subscriber == a.q.Subscriber && slices.Contains(p.Selectors, a.q.Selector) {
			return a.list[i : i+1]
		}
	}
	return nil
}

// write writes the document, without ever having all of it.
func (a *listAnswer) write(w http.ResponseWriter) error {
	b := make([]byte, 0, listBuffer+listBuffer/2)
	if a.q.One {
		p := &a.list[0]
		one := active(p, slices.Index(p.Selectors, a.q.Selector))
		_, err := w.Write(a.d.Append(b, a.hubPath, one, a.cursor))
		return err
	}
	b = a.d.AppendHead(b, a.id(), a.cursor)
	first := true
	for i := range a.list {
		p := &a.list[i]
		for j, s := range p.Selectors {
			if !a.q.Selects(s, p.Subscriber) {
				continue
			}
			b = a.d.AppendItem(b, a.hubPath, active(p, j), first)
			first = false
			if len(b) < listBuffer {
				continue
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	_, err := w.Write(a.d.AppendTail(b))
	return err
}

// active is the i-th subscription of p.
func active(p *transport.Presence, i int) spec.Subscription {
	return spec.Subscription{Selector: p.Selectors[i], Subscriber: p.Subscriber, Active: true, Payload: p.PayloadOf(i)}
}

// id is the path of a collection, escaped as the paths of its members are.
func (a *listAnswer) id() string {
	if a.q.Of {
		return a.d.CollectionPath(a.hubPath, a.q.Selector)
	}
	return a.hubPath + spec.SubscriptionsPath
}

// head sets what an answer and a 304 have in common (ACT-24).
func (a *listAnswer) head(head http.Header) {
	if a.etag != "" {
		head.Set("ETag", a.etag)
	}
	head.Set("Cache-Control", "private, must-revalidate")
	head.Set("Link", a.d.Link(a.hubPath, a.cursor))
	if a.chosen {
		head.Add("Vary", "Accept, Authorization, Cookie") // G-17
	}
	harden(head)
}

func (a *listAnswer) notModified(w http.ResponseWriter) error {
	a.head(w.Header())
	w.WriteHeader(http.StatusNotModified)
	return nil
}

// etag is the validator of a list: whatever changes it is told by an event, and every event has an id. second says that it
// is of the second form of a list that has two.
func etag(id string, second bool) string {
	const digits = "0123456789ABCDEF"
	b := []byte{'"'}
	for i := range len(id) {
		if c := id[i]; c > ' ' && c < 0x7F && c != '"' {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	if second {
		b = append(b, ";draft-08"...)
	}
	return string(append(b, '"'))
}

// known reports whether the client has the answer with this validator: quoted, weak, or bare, as other hubs have
// taught clients to send it.
func (a *listAnswer) known(r *http.Request) bool {
	if a.etag == "" {
		return false
	}
	for _, field := range r.Header.Values("If-None-Match") {
		if field = strings.TrimSpace(field); field == "*" || field == strings.Trim(a.etag, `"`) {
			return true
		}
		// A comma may be part of a validator, so the list is searched rather than split.
		for rest := field; ; {
			i := strings.Index(rest, a.etag)
			if i < 0 {
				break
			}
			before := strings.TrimSuffix(strings.TrimRight(rest[:i], " \t"), "W/")
			before = strings.TrimRight(before, " \t")
			if before == "" || strings.HasSuffix(before, ",") {
				return true
			}
			rest = rest[i+1:]
		}
	}
	return false
}
