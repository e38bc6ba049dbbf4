package hub

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// parameters reads what a stream is asked for: the query component and, of a QUERY, the body (SUB-02). They count
// together (SUB-03), also against the limit. The body has been read to its end when parameters returns: the
// connection can be taken over.
func (h *Hub) parameters(w http.ResponseWriter, r *http.Request) (query, body spec.Form, err error) {
	limit := h.o.Limits.FormFields()
	if query, err = spec.ParseFormLimit(r.URL.RawQuery, limit); err != nil || r.Method != spec.MethodQuery {
		return query, nil, err
	}
	mediaType := r.Header.Get("Content-Type")
	if mediaType != "" && !isForm(mediaType) {
		return nil, nil, notAForm()
	}
	raw, err := h.readBody(w, r)
	switch {
	case err != nil:
		return nil, nil, err
	case len(raw) > 0 && mediaType == "": // without a body a QUERY is a GET
		return nil, nil, notAForm()
	}
	body, err = spec.ParseFormLimit(string(raw), limit-len(query))
	return query, body, err
}

// isForm reports whether a Content-Type is a form's. Its parameters make no difference.
func isForm(contentType string) bool {
	mediaType, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(mediaType), spec.MediaTypeForm)
}

func notAForm() error {
	return &spec.Problem{
		Status: http.StatusUnsupportedMediaType, Reason: "media_type", Detail: "the body must be " + spec.MediaTypeForm,
	}
}

// maxBodyAhead is how much room is made for a body before it comes, in bytes.
const maxBodyAhead = 16 << 10

// readBody reads a body of at most Limits.BodyBytes to its end (LIM-01, LIM-12).
func (h *Hub) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := readAll(w, r, h.o.Limits.BodyBytes)
	if err == nil {
		return body, nil
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, h.bodyTooLarge()
	}
	return nil, &spec.Problem{
		Status: http.StatusBadRequest, Reason: "body_unreadable", Detail: "the body ended early or came too slowly", Cause: err,
	}
}

// readAll reads a body of at most limit bytes. A short one whose length is announced needs no more than that.
func readAll(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	n := r.ContentLength
	if n < 0 || n > min(limit, maxBodyAhead) {
		return io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return nil, err
	}
	var more [1]byte
	if n, err := io.ReadFull(r.Body, more[:]); n > 0 || !errors.Is(err, io.EOF) {
		return nil, errors.Join(errors.New("more came than was announced"), err)
	}
	return body, nil
}

func (h *Hub) bodyTooLarge() error {
	return spec.TooLarge("body_too_large", "the body has more than %d bytes", h.o.Limits.BodyBytes)
}
