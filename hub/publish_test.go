package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// Covers: PUB-01, PUB-13, PUB-14, PUB-22, SUB-21.
func TestPublishAnswer(t *testing.T) {
	for name, c := range map[string]struct{ form, id string }{
		"an id of the publisher": {"topic=a&id=urn:x:1", "urn:x:1"},
		"not in ASCII":           {"topic=a&id=%C3%A9", "é"},
		"the first of two":       {"topic=a&id=one&id=two", "one"},
		"an id of the hub":       {"topic=a", ""},
		"an empty id":            {"topic=a&id=", ""},
	} {
		t.Run(name, func(t *testing.T) {
			change, _, reg := observed(nil)
			n := newNode(t, change)
			w := n.post(c.form)
			body := w.Body.String()
			if w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, body)
			}
			if c.id != "" && body != c.id {
				t.Errorf("body %q, want %q", body, c.id)
			}
			if c.id == "" && (!strings.HasPrefix(body, "urn:uuid:") || len(body) != len("urn:uuid:")+36) {
				t.Errorf("body %q is no UUID", body)
			}
			for name, want := range map[string]string{
				"Content-Type": "text/plain; charset=utf-8", "Content-Length": strconv.Itoa(len(body)),
				"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if pos, err := n.log.Locate(t.Context(), body); err != nil || pos == 0 {
				t.Errorf("the update is not in the log: %v", err)
			}
			if got := series(t, reg, "cinnabar_published_total"); got != 1 {
				t.Errorf("published_total is %v", got)
			}
		})
	}
}

// TestOrderOfChecks: of several things wrong with one request, the first in the order is told.
//
// Covers: PUB-28, PUB-27, PUB-02, PUB-12, PUB-18, LIM-01, LIM-02, LIM-03, LIM-04.
func TestOrderOfChecks(t *testing.T) {
	const (
		none     = ""
		foreign  = "foreign"
		narrow   = "narrow" // grants topic b only
		wide     = "wide"   // grants everything
		reserved = "topic=/.well-known/mercure/subscriptions/x"
	)
	tokens := map[string]string{
		foreign: mint(t, testKey+"!", time.Hour, "*"), narrow: mint(t, testKey, time.Hour, "b"), wide: mint(t, testKey, time.Hour, "*"),
	}
	long := strings.Repeat("x", 2049)
	big := "data=" + strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		token, mediaType, body string
		status                 int
		reason                 string
	}{
		"size before authentication":                {none, "text/plain", big, 413, "body_too_large"},
		"size before a bad token":                   {foreign, formType, big, 413, "body_too_large"},
		"authentication before media type":          {none, "text/plain", "x", 401, "no_token"},
		"authentication before form":                {none, formType, "", 401, "no_token"},
		"authentication before reserved topics":     {none, formType, reserved, 401, "no_token"},
		"a bad token before everything in the body": {foreign, "text/plain", reserved, 401, "token_unverified"},
		"media type before form":                    {narrow, "application/json", "", 415, "media_type"},
		"missing topic before authorisation":        {narrow, formType, "data=x", 400, "missing_topic"},
		"reserved topic before authorisation":       {narrow, formType, reserved, 400, "reserved_topic"},
		"a reserved alternate before authorisation": {narrow, formType, "topic=a&" + reserved, 400, "reserved_topic"},
		"fields before reserved topics":             {narrow, formType, reserved + "&retry=x", 400, "invalid_retry"},
		"wildcard before authorisation":             {narrow, formType, "topic=*", 400, "invalid_topic"},
		"id before authorisation":                   {narrow, formType, "topic=a&id=%23x", 400, "invalid_id"},
		"type before authorisation":                 {narrow, formType, "topic=a&type=mercure", 400, "invalid_type"},
		"topic length before authorisation":         {narrow, formType, "topic=" + long, 413, "topic_too_long"},
		"id length before authorisation":            {narrow, formType, "topic=a&id=" + long, 413, "id_too_long"},
		"topic count before authorisation":          {narrow, formType, strings.Repeat("topic=a&", 101), 413, "too_many_topics"},
		"field count before authorisation":          {narrow, formType, strings.Repeat("a&", 1301), 413, "too_many_fields"},
		"old targets before authorisation":          {narrow, formType, "topic=a&target=x", 400, "target_field"},
		"authorisation before dispatch":             {narrow, formType, "topic=a", 403, "not_granted"},
		"authorisation for every topic":             {narrow, formType, "topic=b&topic=a", 403, "not_granted"},
		"dispatch":                                  {wide, formType, "topic=a", 503, "transport_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			reached := false
			change, _, reg := observed(func(o *Options) {
				o.Authorizer = closedDoor(t)
				o.Transport = &faultyLog{Transport: newNode(t, nil).log, onAppend: func(context.Context) error {
					reached = true
					return transport.ErrUnavailable
				}}
			})
			n := newNode(t, change)
			headers := []string{"Content-Type", c.mediaType}
			if c.token != none {
				headers = append(headers, "Authorization", "Bearer "+tokens[c.token])
			}
			w := n.serve(http.MethodPost, spec.DefaultHubPath, c.body, headers...)
			if w.Code != c.status || series(t, reg, "cinnabar_refused_total", "action", "publish", "reason", c.reason) != 1 {
				t.Errorf("%d %s, want %d for %s", w.Code, w.Body, c.status, c.reason)
			}
			if reached != (c.token == wide) {
				t.Errorf("the transport was reached: %v", reached)
			}
		})
	}
}

// Covers: PUB-02.
func TestPublishMediaTypes(t *testing.T) {
	n := newNode(t, nil)
	for mediaType, status := range map[string]int{
		formType:                                       200,
		formType + "; charset=utf-8":                   200,
		formType + ";charset=ISO-8859-1":               200, // the parser knows only UTF-8, whatever is claimed
		formType + "; charset":                         200,
		strings.ToUpper(formType) + " ; Charset=UTF-8": 200,

		"":                              415,
		";":                             415,
		"application/json":              415,
		"text/plain":                    415,
		"multipart/form-data":           415,
		formType + "2":                  415,
		"application":                   415,
		"text/plain, " + formType:       415,
		"text/plain; x=" + formType:     415,
		"application/ld+json; charset=": 415,
	} {
		if w := n.serve(http.MethodPost, spec.DefaultHubPath, "topic=a", "Content-Type", mediaType); w.Code != status {
			t.Errorf("%q: %d, want %d", mediaType, w.Code, status)
		}
	}
}

// Covers: PUB-07, PUB-08, PUB-09, G-11.
func TestReservedTopics(t *testing.T) {
	for topic, want := range map[string]struct{ classic, strict int }{
		"/.well-known/mercure":                     {400, 400},
		"/.well-known/mercure/":                    {400, 400},
		"/.well-known/mercure/subscriptions/a/b":   {400, 400},
		"https://any.test/.well-known/mercure":     {400, 400},
		"/.well-known/%6Dercure/x":                 {400, 400},
		"/x/../.well-known/mercure/y":              {400, 400},
		"/.well-known/mercure2":                    {200, 200},
		"https://any.test/books/mercure":           {200, 200},
		"http://[":                                 {200, 200},
		"#general":                                 {200, 400},
		"?x=1":                                     {200, 400},
		"mercure":                                  {200, 400},
		"urn:mercure:/.well-known/mercure/x":       {200, 200},
		"\\.well-known\\mercure\\x":                {400, 400},
		"https://any.test/.well-known/mercure?x#y": {400, 400},
	} {
		for dialect, status := range map[string]int{spec.Classic.Name: want.classic, "draft-08": want.strict} {
			n := newNode(t, func(o *Options) { o.Authorizer = speaker{dialect} })
			if w := n.post("topic=" + url.QueryEscape(topic)); w.Code != status {
				t.Errorf("%q from a publisher of %s: %d, want %d", topic, dialect, w.Code, status)
			}
		}
	}
	n := newNode(t, func(o *Options) { o.Path = "/hub" })
	for topic, status := range map[string]int{"/hub/x": 400, "/.well-known/mercure/x": 200} {
		if w := n.serve(http.MethodPost, "/hub", "topic="+topic, "Content-Type", formType); w.Code != status {
			t.Errorf("%q with the hub at /hub: %d, want %d", topic, w.Code, status)
		}
	}
}

// speaker is an Authorizer that grants everything to publishers of one generation.
type speaker struct{ dialect string }

func (s speaker) Authorize(r *http.Request, act spec.Action) (*auth.Grant, error) {
	g, err := (&openDoor{}).Authorize(r, act)
	if err == nil {
		g.Dialect = s.dialect
	}
	return g, err
}

// Covers: PUB-24.
func TestTransportFailureIsNoSuccess(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		retry  bool
	}{
		"full":        {transport.ErrFull, 507, true},
		"too large":   {transport.ErrTooLarge, 413, false},
		"unavailable": {transport.ErrUnavailable, 503, true},
		"closed":      {transport.ErrClosed, 503, true},
		"deadline":    {context.DeadlineExceeded, 503, true},
		"other":       {errors.New("disk on fire"), 500, false},
	} {
		t.Run(name, func(t *testing.T) {
			broken := true
			change, _, reg := observed(func(o *Options) {
				o.Transport = &faultyLog{Transport: newNode(t, nil).log, onAppend: func(context.Context) error {
					if broken {
						return fmt.Errorf("append: %w", c.err)
					}
					return nil
				}}
			})
			n := newNode(t, change)
			w := n.post("topic=a&id=x")
			if w.Code != c.status || (w.Header().Get("Retry-After") != "") != c.retry {
				t.Errorf("%d, Retry-After %q; want %d", w.Code, w.Header().Get("Retry-After"), c.status)
			}
			if got := series(t, reg, "cinnabar_published_total"); got != 0 {
				t.Errorf("published_total is %v", got)
			}
			broken = false // and the hub is well again without more ado
			if w = n.post("topic=a&id=x"); w.Code != http.StatusOK {
				t.Errorf("afterwards: %d", w.Code)
			}
		})
	}
}

// TestPublisherLeaves closes the publisher's connection while its update is being stored.
//
// Covers: PUB-25.
func TestPublisherLeaves(t *testing.T) {
	appending, left := make(chan struct{}), make(chan struct{})
	requests, verdict := make(chan context.Context, 1), make(chan error, 1)
	n := startNode(t, func(o *Options) {
		o.Authorizer = witness{requests}
		o.Transport = &faultyLog{Transport: newNode(t, nil).log, onAppend: func(ctx context.Context) error {
			close(appending)
			<-left
			verdict <- ctx.Err()
			return ctx.Err()
		}}
	})
	s := n.subscribe("topic=a")
	conn := n.dial()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: 14\r\n\r\ntopic=a&data=x", spec.DefaultHubPath, formType)
	<-appending
	_ = conn.Close()
	<-(<-requests).Done() // the server has noticed
	close(left)
	if err := <-verdict; err != nil {
		t.Fatalf("the update goes with its publisher: %v", err)
	}
	s.want("x")
}

// witness is an Authorizer that hands out the contexts of publications.
type witness struct{ requests chan context.Context }

func (w witness) Authorize(r *http.Request, act spec.Action) (*auth.Grant, error) {
	if act == spec.ActionPublish {
		w.requests <- r.Context()
	}
	return (&openDoor{}).Authorize(r, act)
}

func (n *node) dial() net.Conn {
	n.t.Helper()
	u, err := url.Parse(n.url)
	if err != nil {
		n.t.Fatal(err)
	}
	var d net.Dialer
	conn, err := d.DialContext(n.t.Context(), "tcp", u.Host)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	return conn
}
