package hub

import (
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/go-chi/chi/v5"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// allowedMethods is the answer to other methods and to OPTIONS (SUB-06).
const allowedMethods = "GET, HEAD, POST, QUERY, OPTIONS"

// routes is the table of what the hub answers to, outermost wrapper first.
func (h *Hub) routes() http.Handler {
	r := chi.NewRouter()
	wrappers := chi.Chain(
		h.boundBodies,   // no answer waits for a body for ever
		withRequestID,   // every answer can be found in the log
		h.recoverPanics, // one request's defect is its own
		h.resolveClient, // who is behind a trusted proxy
		h.onlyPublic,    // what is not for this hub gets nothing from it
		h.cors,          // errors must be readable cross-origin too
	)
	r.Method(http.MethodGet, h.o.Path, h.handle("subscribe", h.subscribe))
	r.Method(http.MethodHead, h.o.Path, h.handle("subscribe", h.subscribe))
	r.Method(http.MethodPost, h.o.Path, h.handle("publish", h.publish))
	r.Method(spec.MethodQuery, h.o.Path, h.handle("subscribe", h.subscribe))
	r.Method(http.MethodOptions, h.o.Path, answerOptions(allowedMethods))
	if m := h.metadata; m != nil {
		r.Get(m.path, m.serve)
		r.Head(m.path, m.serve)
		r.Options(m.path, answerOptions(metadataMethods))
	}
	if h.presence != nil {
		for _, pattern := range []string{h.o.Path + spec.SubscriptionsPath, h.o.Path + spec.SubscriptionsPath + "/*"} {
			r.Method(http.MethodGet, pattern, h.handle("subscriptions", h.subscriptions))
			r.Method(http.MethodHead, pattern, h.handle("subscriptions", h.subscriptions))
			r.Method(http.MethodOptions, pattern, answerOptions(listMethods))
		}
	}
	r.MethodNotAllowed(h.handle("other", h.methodNotAllowed))
	r.NotFound(h.handle("other", notFound))
	return &shallow{hub: h, next: wrappers.Handler(h.shortcut(r))}
}

// shortcut spares publications and streams the way through the table: the ones are many, the others stay.
func (h *Hub) shortcut(table http.Handler) http.Handler {
	publish, subscribe := h.handle("publish", h.publish), h.handle("subscribe", h.subscribe)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != h.o.Path || r.URL.RawPath != "":
			table.ServeHTTP(w, r)
		case r.Method == http.MethodPost:
			publish(w, r)
		case r.Method == http.MethodGet:
			subscribe(w, r)
		default:
			table.ServeHTTP(w, r)
		}
	})
}

// handle adapts a handler that returns its refusal.
func (h *Hub) handle(action string, fn func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := fn(w, r); err != nil {
			h.refuse(w, r, action, err)
		}
	}
}

// answerOptions answers an OPTIONS that is no preflight.
func answerOptions(allowed string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", allowed)
		w.WriteHeader(http.StatusNoContent)
	}
}

// methodNotAllowed also gets methods that chi does not know, on any path.
func (h *Hub) methodNotAllowed(w http.ResponseWriter, r *http.Request) error {
	allowed := allowedMethods
	switch {
	case r.URL.Path == h.o.Path:
	case h.isMetadata(r):
		allowed = metadataMethods
	case h.isList(r.URL):
		allowed = listMethods
	default:
		return notFound(w, r)
	}
	w.Header().Set("Allow", allowed)
	return &spec.Problem{
		Status: http.StatusMethodNotAllowed, Reason: "method",
		Detail: fmt.Sprintf("the method %.32q is not supported here, only %s", r.Method, allowed),
	}
}

func notFound(http.ResponseWriter, *http.Request) error {
	return &spec.Problem{Status: http.StatusNotFound, Reason: "not_found", Detail: "nothing is served at this path"}
}

// recoverPanics answers 500 where nothing has been written yet, counts, and logs.
func (h *Hub) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { //nolint:contextcheck // the request's context is r's
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint,err113 // the value itself, as net/http asks for
				panic(v)
			}
			h.panicked("request", v, requestID(r.Context()))
			h.refuse(w, r, "other", &spec.Problem{
				Status: http.StatusInternalServerError, Reason: "panic", Detail: "internal error",
			})
		}()
		next.ServeHTTP(w, r)
	})
}

func (h *Hub) panicked(where string, v any, id string) {
	h.metrics.Panics.Inc()
	h.log.Error("panic contained", "where", where, "panic", v, "request_id", id, "stack", string(debug.Stack()))
}
