package client_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
)

func TestPublishSendsTheForm(t *testing.T) {
	for name, tt := range map[string]struct {
		update spec.Update
		want   url.Values
	}{
		"topics alone": {
			spec.Update{Topics: []string{"a", "b"}},
			url.Values{"topic": {"a", "b"}},
		},
		"everything": {
			spec.Update{Topics: []string{"é;%"}, ID: "i1", Type: "t", Data: "x=1&y\nz", Retry: 1500, Private: true},
			url.Values{"topic": {"é;%"}, "id": {"i1"}, "type": {"t"}, "data": {"x=1&y\nz"}, "retry": {"1500"}, "private": {"on"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := r.ParseForm(); err != nil || r.Method != http.MethodPost {
					t.Errorf("%s %v", r.Method, err)
				}
				if !reflect.DeepEqual(r.PostForm, tt.want) {
					t.Errorf("form %v, want %v", r.PostForm, tt.want)
				}
				if got := r.Header.Get("Authorization"); got != "Bearer T" {
					t.Errorf("authorization %q", got)
				}
				fmt.Fprint(w, "urn:uuid:1")
			}))
			defer hub.Close()
			p := client.Publisher{URL: hub.URL, Token: "T"}
			if id, err := p.Publish(t.Context(), &tt.update); id != "urn:uuid:1" || err != nil {
				t.Errorf("%q, %v", id, err)
			}
		})
	}
}

func TestRefusalsAreReadable(t *testing.T) {
	for name, tt := range map[string]struct {
		status    int
		header    http.Header
		body      string
		want      client.Error
		temporary bool
		says      string
	}{
		"plain text": {
			403,
			http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Www-Authenticate": {"Bearer x"}, "X-Request-Id": {"r1"}},
			"Forbidden: no grant\nfor topic (request r1)\n",
			client.Error{Status: 403, Detail: "no grant for topic", Challenge: "Bearer x", RequestID: "r1"},
			false,
			"hub answered 403 Forbidden: no grant for topic (request r1)",
		},
		"a problem document": {
			503,
			http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"7"}},
			`{"title":"T","detail":"the log is away"}`,
			client.Error{Status: 503, Detail: "the log is away", RetryAfter: 7 * time.Second},
			true,
			"hub answered 503 Service Unavailable: the log is away",
		},
		"a problem with a title": {
			429,
			http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"99999999"}},
			`{"title":"too many"}`,
			client.Error{Status: 429, Detail: "too many", RetryAfter: 10 * time.Minute},
			true,
			"hub answered 429 Too Many Requests: too many",
		},
		"text that would steer a terminal": {
			500,
			http.Header{"Content-Type": {"application/problem+json"}, "X-Request-Id": {"r\xc2\x9b1"}},
			`{"detail":"a\u001b]0;owned\u0007\nb\u202ec é"}`,
			client.Error{Status: 500, Detail: `a\x1b]0;owned\a\nb\u202ec é`, RequestID: `r\u009b1`},
			true,
			`hub answered 500 Internal Server Error: a\x1b]0;owned\a\nb\u202ec é (request r\u009b1)`,
		},
		"plain text that would": {
			403,
			http.Header{"Content-Type": {"text/plain"}},
			"a\x1b[2Jb\xc2\x9bc\x9bd",
			client.Error{Status: 403, Detail: "a\\x1b[2Jb\\u009bc\uFFFDd"},
			false,
			"hub answered 403 Forbidden: a\\x1b[2Jb\\u009bc\uFFFDd",
		},
		"a page of some proxy": {
			502,
			http.Header{"Content-Type": {"text/html"}, "Retry-After": {"soon"}},
			"<html>",
			client.Error{Status: 502},
			true,
			"hub answered 502 Bad Gateway",
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				maps.Copy(w.Header(), tt.header)
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
			}))
			defer hub.Close()
			p := client.Publisher{URL: hub.URL}
			_, err := p.Publish(t.Context(), &spec.Update{Topics: []string{"a"}})
			got, ok := errors.AsType[*client.Error](err)
			if !ok || *got != tt.want {
				t.Fatalf("got %#v (%v), want %#v", got, err, tt.want)
			}
			if got.Temporary() != tt.temporary {
				t.Errorf("temporary: %v", got.Temporary())
			}
			if !strings.HasSuffix(err.Error(), tt.says) {
				t.Errorf("says %q, want %q", err, tt.says)
			}
		})
	}
}

func TestPublishTellsThatNobodyListens(t *testing.T) {
	hub := httptest.NewServer(http.NotFoundHandler())
	hub.Close()
	p := client.Publisher{URL: hub.URL}
	_, err := p.Publish(t.Context(), &spec.Update{Topics: []string{"a"}})
	if _, ok := errors.AsType[*url.Error](err); !ok {
		t.Errorf("error %v, want that of the connection", err)
	}
}

func TestPublishIsNotTakenForStoredAfterARedirectToAGet(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			published := 0
			hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/":
					http.Redirect(w, r, "/hub?secret=1", status)
				case r.Method == http.MethodPost:
					published++
					fmt.Fprint(w, "id-1")
				default:
					fmt.Fprint(w, "<html>")
				}
			}))
			defer hub.Close()
			p := client.Publisher{URL: hub.URL + "/"}
			id, err := p.Publish(t.Context(), &spec.Update{Topics: []string{"a"}})
			if stored := published == 1; stored != (err == nil) || stored != (id == "id-1") {
				t.Errorf("published %d times, answered %q, %v", published, id, err)
			}
			if err != nil && (!strings.Contains(err.Error(), hub.URL+"/hub") || strings.Contains(err.Error(), "secret")) {
				t.Errorf("error %q does not name the URL without its query", err)
			}
		})
	}
}

func TestClientsStayWithTLS(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirection to http was followed")
	}))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL+"/?secret=1", http.StatusTemporaryRedirect))
	defer secure.Close()
	hc := client.DefaultHTTP()
	hc.Transport = secure.Client().Transport
	p := client.Publisher{URL: secure.URL, HTTP: hc}
	_, err := p.Publish(t.Context(), &spec.Update{Topics: []string{"a"}})
	if err == nil || !strings.Contains(err.Error(), "from https to "+plain.URL) {
		t.Errorf("error %v", err)
	}
}
