package app_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// exchange is one request to a hub and the answer, as far as it is whole: of a stream the head alone.
type exchange struct {
	method string
	path   string // escaped
	query  string
	status int
	header http.Header
	body   []byte
	stream bool
}

// recorder is a transport that keeps what passes. Safe for concurrent use.
type recorder struct {
	inner http.RoundTripper

	mu  sync.Mutex
	all []exchange // guarded by mu
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := r.inner.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	e := exchange{method: req.Method, path: sentPath(req.URL), query: req.URL.RawQuery, status: res.StatusCode, header: res.Header.Clone()}
	e.stream = strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	if !e.stream {
		e.body, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			return nil, err
		}
		res.Body = io.NopCloser(bytes.NewReader(e.body))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
	return res, nil
}

// sentPath is the path of a URL as it is sent, also of one that is opaque to hold what no URL has.
func sentPath(u *url.URL) string {
	if u.Opaque == "" {
		return u.EscapedPath()
	}
	_, path, _ := strings.Cut(strings.TrimPrefix(u.Opaque, "//"), "/")
	return "/" + path
}

// CloseIdleConnections makes http.Client's reach the connections.
func (r *recorder) CloseIdleConnections() {
	if c, ok := r.inner.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// taken returns what has passed.
func (r *recorder) taken() []exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// firstMember asks for a list of subscriptions and returns the id of its first member, empty for none.
func firstMember(t *testing.T, client *http.Client, req *http.Request) string {
	t.Helper()
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var list struct {
		Subscriptions []struct{ ID string }
	}
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("a list: status %d, %v", res.StatusCode, err)
	}
	if len(list.Subscriptions) == 0 {
		return ""
	}
	return list.Subscriptions[0].ID
}
