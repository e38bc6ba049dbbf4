package hub

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// metadata is the document that tells OAuth clients of this hub, made once.
type metadata struct {
	path string // on this hub
	url  string // as clients see it, for challenges
	body []byte
}

const (
	metadataMethods = "GET, HEAD, OPTIONS"
	metadataAge     = "3600" // seconds that a client may keep the document
)

// newMetadata completes the document with what the hub knows itself; nil if it publishes none (DIS-08, G-18).
func newMetadata(h *Hub) (*metadata, error) {
	if h.o.Metadata == nil {
		return nil, nil
	}
	doc := *h.o.Metadata
	if doc.Resource == "" {
		doc.Resource = h.base.String()
	}
	doc.Subscriptions = h.o.Directory != nil
	where := h.base
	if u, err := url.Parse(doc.Resource); h.o.PublicURL == nil && err == nil && u.Host != "" {
		where = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: h.o.Path} // says better where clients see this hub than a name made up
	}
	body, err := doc.JSON()
	if err != nil {
		return nil, fmt.Errorf("hub: resource metadata: %w", err)
	}
	return &metadata{path: spec.ResourceMetadataPath + h.o.Path, url: spec.ResourceMetadataURL(where), body: body}, nil
}

// metadataURL is what challenges point to, empty if nothing is published (ERR-01, ERR-07).
func (h *Hub) metadataURL() string {
	if h.metadata == nil {
		return ""
	}
	return h.metadata.url
}

// isMetadata reports whether r is about the metadata document, which any page may read: it is public.
func (h *Hub) isMetadata(r *http.Request) bool {
	return h.metadata != nil && r.URL.Path == h.metadata.path
}

// serve answers GET and HEAD (DIS-03).
func (m *metadata) serve(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Content-Length", strconv.Itoa(len(m.body)))
	head.Set("Cache-Control", "public, max-age="+metadataAge)
	harden(head)
	if r.Method != http.MethodHead {
		_, _ = w.Write(m.body)
	}
}
