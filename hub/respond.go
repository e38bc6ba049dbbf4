package hub

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// asProblem turns any error into what the client may know of it.
func asProblem(err error) *spec.Problem {
	if p, ok := errors.AsType[*spec.Problem](err); ok {
		return p
	}
	switch {
	case errors.Is(err, transport.ErrFull):
		return &spec.Problem{
			Status: http.StatusInsufficientStorage, Reason: "storage_full", RetryAfter: 10 * time.Second,
			Detail: "no space left for history: the update was not stored", Cause: err,
		}
	case errors.Is(err, transport.ErrTooLarge):
		return &spec.Problem{
			Status: http.StatusRequestEntityTooLarge, Reason: "update_too_large",
			Detail: "the update is larger than this hub can store", Cause: err,
		}
	case errors.Is(err, transport.ErrUnavailable), errors.Is(err, transport.ErrClosed),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable("transport_unavailable", "the hub cannot reach its history for now", err)
	default:
		return &spec.Problem{Status: http.StatusInternalServerError, Reason: "internal", Detail: "internal error", Cause: err}
	}
}

func unavailable(reason, detail string, cause error) *spec.Problem {
	return &spec.Problem{
		Status: http.StatusServiceUnavailable, Reason: reason, RetryAfter: 2 * time.Second, Detail: detail, Cause: cause,
	}
}

// refuse renders err: the only place that answers with a failure (ERR-05 … ERR-12).
func (h *Hub) refuse(w http.ResponseWriter, r *http.Request, action string, err error) {
	p := asProblem(err)
	id := requestID(r.Context())
	h.metrics.Refused.WithLabelValues(action, p.Reason).Inc()
	h.log.InfoContext(r.Context(), "request refused", "request_id", id, "action", action, "status", p.Status,
		"reason", p.Reason, "detail", p.Detail, "cause", causeText(p.Cause), "client", clientName(r))

	head := w.Header()
	if p.Challenge {
		head.Set("WWW-Authenticate", auth.Challenge(p, h.metadataURL()))
	}
	if p.RetryAfter > 0 {
		head.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(p.RetryAfter.Seconds())), 10))
	}
	head.Set("Cache-Control", "no-store")
	harden(head)
	body, contentType := problemText(p, id), "text/plain; charset=utf-8"
	if accepts(r, "application/problem+json") {
		body, contentType = problemJSON(p, id), "application/problem+json"
	}
	head.Set("Content-Type", contentType)
	head.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// causeText keeps causes out of the log's way when there is none.
func causeText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func problemText(p *spec.Problem, id string) []byte {
	return []byte(http.StatusText(p.Status) + ": " + p.Detail + " (request " + id + ")\n")
}

func problemJSON(p *spec.Problem, id string) []byte {
	b, err := json.Marshal(struct {
		Type      string `json:"type"`
		Title     string `json:"title"`
		Status    int    `json:"status"`
		Detail    string `json:"detail"`
		Reason    string `json:"reason"`
		RequestID string `json:"request_id"`
	}{"about:blank", http.StatusText(p.Status), p.Status, p.Detail, p.Reason, id})
	if err != nil { // strings and a number always marshal
		return problemText(p, id)
	}
	return append(b, '\n')
}

// harden sets the headers that keep a browser from making more of an answer than it is (CORS-11).
func harden(head http.Header) {
	head["X-Content-Type-Options"] = noSniff
	head["X-Frame-Options"] = noFrames
	head["Content-Security-Policy"] = ownSources
}

// Values of headers that many answers have; shared, so they are only ever replaced.
var (
	noSniff    = []string{"nosniff"}
	noFrames   = []string{"DENY"}
	ownSources = []string{"default-src 'self'"}
	noStore    = []string{"no-store"}
	plainText  = []string{"text/plain; charset=utf-8"}
)

// accepts reports whether the request names a media type in Accept. Wildcards do not count: the answer
// is for clients that ask for it.
func accepts(r *http.Request, mediaType string) bool {
	for _, field := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(field, ",") {
			name, params, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), mediaType) && !strings.Contains(strings.ReplaceAll(params, " ", "")+";", "q=0;") {
				return true
			}
		}
	}
	return false
}
