// Package admin is what the admin listener serves: metrics, health and profiles. It must not be reachable
// by the hub's clients.
//
//	GET /livez, /healthz   200 while the process answers
//	GET /readyz            200 when the hub can serve publishers and subscribers, else 503 and the reason
//	GET /metrics           Prometheus text or OpenMetrics
//	GET /debug/pprof/…     profiles of the Go runtime
//	GET /cluster           the nodes that share the log, and the stream it is kept in: JSON
//	POST /cluster/nodes/{name}/drain, …/undrain
//	                       take a node out of service, or into it again: 202
//	GET /subscriptions/counts
//	                       how many subscriptions there are on all nodes, by selector (topic=, limit=): JSON
//	POST /subscribers/disconnect
//	                       end streams on all nodes and keep their clients away: JSON {"subscriber" or "subject", "for"}
//	GET /backup            the log as a file; this and the next two for clients on this machine only
//	POST /restore          take such a file into a log that is empty
//	GET /export            the log as lines of JSON, after an id (after=) and of some topics (topic=)
package admin

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// readyTimeout bounds one readiness check; a probe that waits longer has given up.
const readyTimeout = 2 * time.Second

// Options is what the handler reads.
type Options struct {
	Gatherer prometheus.Gatherer         // nil = no /metrics
	Ready    func(context.Context) error // nil = always ready
	Cluster  func() transport.Cluster    // nil = a log that is not shared; the function answers nil until there is a log
	Logger   *slog.Logger                // nil = discard
	// Directory lists who is subscribed; nil = nobody keeps that list. The function answers nil until there is a log.
	Directory func() transport.Directory
	// Base is the hub's URL, to which URL patterns and topics are relative; nil = those match nothing.
	Base *url.URL
	// Disconnect ends streams on all nodes; nil = no route for it.
	Disconnect func(context.Context, transport.Ban) (transport.Banned, error)
	Archive    func() transport.Archive // nil = a log that ends with the process; the function answers nil until there is a log
}

// Handler serves the admin listener. Health lives here alone and not on the public one, where it would
// tell strangers about the inside (DIS-10).
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", live)
	mux.HandleFunc("GET /healthz", live)
	mux.HandleFunc("GET /readyz", ready(o.Ready))
	if o.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	}
	c := cluster{of: o.Cluster}
	mux.HandleFunc("GET /cluster", c.state)
	mux.HandleFunc("POST /cluster/nodes/{name}/drain", c.order(transport.Cluster.DrainNode))
	mux.HandleFunc("POST /cluster/nodes/{name}/undrain", c.order(transport.Cluster.UndrainNode))
	s := subscribers{base: o.Base, directory: o.Directory, disconnect: o.Disconnect}
	mux.HandleFunc("GET /subscriptions/counts", s.counts)
	if o.Disconnect != nil {
		mux.HandleFunc("POST /subscribers/disconnect", s.order)
	}
	a := archive{of: o.Archive, log: o.Logger}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	mux.HandleFunc("GET /backup", a.backup)
	mux.HandleFunc("POST /restore", a.restore)
	mux.HandleFunc("GET /export", a.export)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	// A page of any origin can make its reader's browser POST here without asking first, loopback or not: it cannot
	// read the answer, but the order would be obeyed. Browsers say where a request comes from; what is no browser
	// says nothing, and passes.
	return http.NewCrossOriginProtection().Handler(mux)
}

func live(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") }

func ready(check func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if check == nil {
			answer(w, http.StatusOK, "ready")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if err := check(ctx); err != nil {
			answer(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		answer(w, http.StatusOK, "ready")
	}
}

// cmdline answers 404 in the place of pprof's own: a key may have been given on the command line.
func cmdline(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

func answer(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // the prober is gone, which is its own business
}
