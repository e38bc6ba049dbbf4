package hub

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

// bodyTimeout is how long a client may take to send a body.
const bodyTimeout = 30 * time.Second

// boundBodies gives every body its time. It stands outside of everything that refuses: before an answer
// is sent, net/http reads what is left of a body, for as long as that takes. On HTTP/1 the deadline is lifted when
// the body has ended; on HTTP/2, where it is the stream's, with the handler.
func (h *Hub) boundBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.bodyTimeout)) // not every test's writer has deadlines
		}
		next.ServeHTTP(w, r)
	})
}

// publish takes a publication. The order of its checks is PUB-28: size, authentication, form, topics and
// fields, authorisation, dispatch.
func (h *Hub) publish(w http.ResponseWriter, r *http.Request) error {
	start := time.Now()
	if r.ContentLength > h.o.Limits.BodyBytes {
		return h.bodyTooLarge()
	}
	grant, err := h.o.Authorizer.Authorize(r, spec.ActionPublish)
	if err != nil {
		return err
	}
	update, err := h.readUpdate(w, r, grant)
	if err != nil {
		return err
	}
	if t, missing := grant.Missing(update.Topics); missing {
		return auth.Forbidden(spec.ActionPublish, t)
	}
	// The publisher may leave from here on, the update goes its way (PUB-25).
	h.publishing.Add(1)
	h.published.Store(start.UnixNano())
	e, err := h.o.Transport.Append(context.WithoutCancel(r.Context()), update)
	h.publishing.Add(-1)
	if err != nil {
		return err
	}
	for {
		seen := h.fanout.appended.Load()
		if uint64(e.Pos) <= seen || h.fanout.appended.CompareAndSwap(seen, uint64(e.Pos)) {
			break
		}
	}
	h.metrics.Published.Inc()
	h.metrics.PublishSeconds.Observe(time.Since(start).Seconds())
	if h.log.Enabled(r.Context(), slog.LevelDebug) {
		h.log.Debug("update published", "request_id", requestID(r.Context()), "event_id", e.Update.ID,
			"topics", e.Update.Topics, "position", e.Pos)
	}
	head := w.Header()
	head["Content-Type"] = plainText
	head.Set("Content-Length", strconv.Itoa(len(e.Update.ID)))
	head["Cache-Control"] = noStore
	harden(head)
	_, _ = io.WriteString(w, e.Update.ID)
	return nil
}

func (h *Hub) readUpdate(w http.ResponseWriter, r *http.Request, grant *auth.Grant) (*spec.Update, error) {
	if !isForm(r.Header.Get("Content-Type")) {
		return nil, notAForm()
	}
	body, err := h.readBody(w, r)
	if err != nil {
		return nil, err
	}
	form, err := spec.ParseFormLimit(string(body), h.o.Limits.FormFields())
	if err != nil {
		return nil, err
	}
	update, err := spec.ParseUpdate(form, h.o.Limits)
	if err != nil {
		return nil, err
	}
	strict := grant.Dialect != spec.Classic.Name // G-11
	for _, t := range update.Topics {
		if h.namespace.Reserved(t, strict) {
			return nil, spec.BadRequest("reserved_topic", "the topic %q lies in the hub's own namespace", t)
		}
	}
	return update, nil
}
