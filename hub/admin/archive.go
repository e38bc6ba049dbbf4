package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// archive saves, restores and reads the log as a whole, for those on this machine alone: a backup holds private
// updates and the key of the event ids, and where metrics are scraped from afar the listener can be reached from
// there. What comes through a tunnel into this machine, or into this container, comes from here.
type archive struct {
	of  func() transport.Archive
	log *slog.Logger
}

// get returns the log, or answers the request when it cannot be had.
func (a archive) get(w http.ResponseWriter, r *http.Request) transport.Archive {
	switch {
	case !fromHere(r) || passedOn(r.Header):
		answer(w, http.StatusForbidden, "the log as a whole is given out, and taken, on the hub's own machine only: connect to the admin listener from there, not through a proxy")
		return nil
	case !byAddress(r):
		answer(w, http.StatusMisdirectedRequest, "the log as a whole is given out, and taken, under an IP address or localhost only: name the admin listener so")
		return nil
	case !slices.Contains([]string{"", "none", "same-origin"}, r.Header.Get("Sec-Fetch-Site")):
		answer(w, http.StatusForbidden, "a page of another site asks for the log") // it could not read it, but cause the work
		return nil
	case a.of == nil:
		answer(w, http.StatusNotFound, "this hub keeps its log in its own memory: it cannot be saved or restored")
		return nil
	}
	if found := a.of(); found != nil {
		return found
	}
	answer(w, http.StatusServiceUnavailable, "starting")
	return nil
}

// fromHere reports whether a request was sent on this machine: to a loopback address, to a socket file, or to the
// address that it comes from.
func fromHere(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if local.Network() == "unix" {
			return true
		}
		to, err := netip.ParseAddrPort(local.String())
		from, err2 := netip.ParseAddrPort(r.RemoteAddr)
		return errors.Join(err, err2) == nil && (from.Addr().Unmap().IsLoopback() || from.Addr().Unmap() == to.Addr().Unmap())
	}
	return false
}

// passedOn reports whether a proxy says that it passes on what others ask: they need not be on this machine.
func passedOn(h http.Header) bool {
	return slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"}, func(name string) bool { return h.Get(name) != "" })
}

// byAddress reports whether a request was sent to an address. A name can be one that somebody makes resolve to this
// machine, so that a page of his in a browser here is of the same origin as the listener, and reads what it answers.
// Names on loopback addresses are judged before, by who knows the names of the hub.
func byAddress(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || local.IP.IsLoopback() {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || strings.EqualFold(host, "localhost")
}

func (a archive) backup(w http.ResponseWriter, r *http.Request) {
	log := a.get(w, r)
	if log == nil {
		return
	}
	w.Header().Set("Content-Disposition", `attachment; filename="cinnabar-backup.tar"`)
	out := newBody(w, "application/x-tar")
	_, err := log.Backup(r.Context(), out, nil)
	a.end(r, out, err)
}

func (a archive) restore(w http.ResponseWriter, r *http.Request) {
	log := a.get(w, r)
	if log == nil {
		return
	}
	m, err := log.Restore(r.Context(), &pacedBody{from: r.Body, conn: http.NewResponseController(w)}, nil)
	if err != nil {
		answer(w, archiveStatus(err), err.Error())
		return
	}
	writeJSON(w, m)
}

// export takes the event id in `after`, and selectors of topics in `topic`, which may be repeated.
func (a archive) export(w http.ResponseWriter, r *http.Request) {
	log := a.get(w, r)
	if log == nil {
		return
	}
	o := transport.ExportOptions{After: r.URL.Query().Get("after")}
	for _, pattern := range r.URL.Query()["topic"] {
		s := topic.Selector{Kind: topic.Classic, Pattern: pattern}
		if _, err := topic.Compile(s, nil, topic.Limits{}); err != nil {
			answer(w, http.StatusBadRequest, err.Error())
			return
		}
		o.Topics = append(o.Topics, s)
	}
	out := newBody(w, "application/x-ndjson")
	_, err := log.Export(r.Context(), out, o)
	a.end(r, out, err)
}

// silence is how long a client may take, or send, nothing: longer than the server waits for a piece of a backup, and not
// for ever, for publishers are kept out of a log that is being restored.
const silence = time.Minute

// pacedBody is the body of a request whose client may be slow, but has to go on.
type pacedBody struct {
	from io.Reader
	conn *http.ResponseController
}

func (b *pacedBody) Read(p []byte) (int, error) {
	_ = b.conn.SetReadDeadline(time.Now().Add(silence)) // not on every connection
	n, err := b.from.Read(p)
	if err != nil { // the server goes on listening, whether the client is still there
		_ = b.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}

// body is an answer whose beginning is held back: an error until then has a status of its own, one after that cuts the
// answer, so that nobody takes a part for the whole.
type body struct {
	*bufio.Writer
	to *answering
}

// heldBack is more than what a backup says of itself before it begins to read.
const heldBack = 64 << 10

func newBody(w http.ResponseWriter, kind string) body {
	to := &answering{w: w, kind: kind}
	return body{bufio.NewWriterSize(to, heldBack), to}
}

// answering is an answer that begins with its first bytes.
type answering struct {
	w     http.ResponseWriter
	kind  string
	begun bool
}

func (a *answering) Write(p []byte) (int, error) {
	a.begin()
	_ = http.NewResponseController(a.w).SetWriteDeadline(time.Now().Add(silence)) // not on every connection
	return a.w.Write(p)
}

func (a *answering) begin() {
	if a.begun {
		return
	}
	a.begun = true
	h := a.w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// end ends the answer to r with what came of the work.
func (a archive) end(r *http.Request, out body, err error) {
	if err == nil {
		err = out.Flush()
	}
	_ = http.NewResponseController(out.to.w).SetWriteDeadline(time.Time{})
	switch {
	case err == nil:
		out.to.begin()
	case out.to.begun:
		a.log.WarnContext(r.Context(), "an answer was broken off", slog.String("path", r.URL.Path), slog.Any("error", err))
		panic(http.ErrAbortHandler)
	default:
		out.to.w.Header().Del("Content-Disposition")
		answer(out.to.w, archiveStatus(err), err.Error())
	}
}

func archiveStatus(err error) int {
	switch {
	case errors.Is(err, transport.ErrBackup):
		return http.StatusBadRequest
	case errors.Is(err, transport.ErrNotEmpty), errors.Is(err, transport.ErrRestoring):
		return http.StatusConflict
	case errors.Is(err, transport.ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, transport.ErrTrimmed):
		return http.StatusGone
	case errors.Is(err, transport.ErrUnavailable), errors.Is(err, transport.ErrClosed), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the client is gone, which is its own business
}
