package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// cluster answers for the nodes that share the log.
type cluster struct{ of func() transport.Cluster }

// get returns the cluster, or answers the request when there is none.
func (c cluster) get(w http.ResponseWriter) transport.Cluster {
	if c.of == nil {
		answer(w, http.StatusNotFound, "this hub keeps its log in its own memory: it has no cluster")
		return nil
	}
	if found := c.of(); found != nil {
		return found
	}
	answer(w, http.StatusServiceUnavailable, "starting")
	return nil
}

func (c cluster) state(w http.ResponseWriter, r *http.Request) {
	found := c.get(w)
	if found == nil {
		return
	}
	state, err := found.Cluster(r.Context())
	if err != nil {
		answer(w, statusOf(err), err.Error())
		return
	}
	writeJSON(w, state)
}

// order passes an order on to the node that the path names.
func (c cluster) order(pass func(transport.Cluster, context.Context, string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		found := c.get(w)
		if found == nil {
			return
		}
		if err := pass(found, r.Context(), r.PathValue("name")); err != nil {
			answer(w, statusOf(err), err.Error())
			return
		}
		answer(w, http.StatusAccepted, "begun")
	}
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, transport.ErrNoNode):
		return http.StatusNotFound
	case errors.Is(err, transport.ErrRefused):
		return http.StatusConflict
	default: // ErrUnavailable, ErrClosed, or a deadline
		return http.StatusServiceUnavailable
	}
}
