package app_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/conformance"
)

// unseen are the documented statuses that a sound hub does not give: something has to fail first.
var unseen = map[int]string{
	http.StatusInternalServerError: "a defect",
	http.StatusServiceUnavailable:  "a transport that fails, or a hub that leaves",
	http.StatusInsufficientStorage: "a full disk",
}

// TestTheDocumentDescribesTheHub holds spec/openapi.yaml and running hubs against each other: every answer is in the
// document, with its status, headers, media type and body, and every answer in the document was given, but for those
// that need a fault.
func TestTheDocumentDescribesTheHub(t *testing.T) {
	c := readContract(t)
	seen := map[string]bool{}
	for name, drive := range map[string]func(*testing.T) *recorder{
		"both generations": driveConformance, "a full hub": driveFull, "a foreign origin": driveForeign, "little of it": driveLittle,
	} {
		t.Run(name, func(t *testing.T) {
			complaints := 0
			for _, e := range drive(t).taken() {
				answer, wrong := c.judge(&e)
				seen[answer] = true
				for _, w := range wrong {
					if complaints++; complaints < 40 {
						t.Errorf("%s %s?%.80s answered %d: %s", e.method, e.path, e.query, e.status, w)
					}
				}
			}
		})
	}
	for _, op := range c.ops {
		responses, _ := c.at("#" + op.pointer + "/responses").(map[string]any)
		for status := range responses {
			answer := fmt.Sprintf("%s %s %s", op.method, op.path, status)
			if n, err := strconv.Atoi(status); err != nil || unseen[n] == "" && !seen[answer] {
				t.Errorf("no hub gave the documented answer %s", answer)
			}
		}
	}
}

// recorded is a client whose exchanges are kept.
func recorded(t *testing.T) (*recorder, *http.Client) {
	t.Helper()
	inner := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	t.Cleanup(inner.CloseIdleConnections)
	r := &recorder{inner: inner}
	return r, &http.Client{Transport: r, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// driveConformance has the suite ask, and asks itself for what the suite does not.
func driveConformance(t *testing.T) *recorder {
	t.Helper()
	hub, target := startHub(t, func(c *app.Config) {
		c.Transport, c.Subscriptions, c.AdminListen = "memory", true, "127.0.0.1:0"
	})
	r, client := recorded(t)
	target.HTTP = client
	about := []string{"subscribe/", "match/wildcard", "publish/", "carrier/", "error/", "resume/", "cors/", "csrf/", "presence/", "limit/", "query/", "access/", "discovery/", "subscription/"}
	cases := slices.DeleteFunc(conformance.Cases(), func(c conformance.Case) bool {
		return !slices.ContainsFunc(about, func(area string) bool { return strings.HasPrefix(c.Name, area) })
	})
	if _, err := conformance.RunCases(t.Context(), target, cases, nil); err != nil { // what they find is judged elsewhere
		t.Fatal(err)
	}
	d := &driver{t: t, hub: target.URL, client: client, token: classicToken(t, "sub-1")}
	d.everyList()
	d.headTooLarge()
	d.kicked("http://" + hub.AdminAddr())
	return r
}

// driver asks a hub for things; nobody looks at the answers but the recorder.
type driver struct {
	t      *testing.T
	hub    string
	client *http.Client
	token  string // classic, empty for none
}

// ask sends a request and leaves; path begins after the hub's path and may hold what no URL has. header is
// names and values.
func (d *driver) ask(method, path, body string, header ...string) (status int, head http.Header) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	defer cancel()
	u, err := url.Parse(d.hub)
	if err != nil {
		d.t.Fatal(err)
	}
	where, query, _ := strings.Cut(path, "?")
	u = &url.URL{Scheme: u.Scheme, Host: u.Host, Opaque: "//" + u.Host + u.Path + where, RawQuery: query}
	if rest, ok := strings.CutPrefix(path, "^"); ok { // from the root
		u.Opaque = "//" + u.Host + rest
	}
	req := (&http.Request{Method: method, URL: u, Host: u.Host, Header: http.Header{}}).WithContext(ctx)
	if body != "" {
		req, err = http.NewRequestWithContext(ctx, method, u.String(), strings.NewReader(body))
		if err != nil {
			d.t.Fatal(err)
		}
		req.Header.Set("Content-Type", spec.MediaTypeForm)
	}
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := d.client.Do(req)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	_ = res.Body.Close()
	return res.StatusCode, res.Header
}

const metadataPath = "^/.well-known/oauth-protected-resource/.well-known/mercure"

// lists are the documented lists, each with one more that is not there and one with a bad escape.
var lists = []struct{ path, missing, bad string }{
	{"/subscriptions", "", ""},
	{"/subscriptions/a", "", "/subscriptions/%zz"},
	{"/subscriptions/exact/a", "", "/subscriptions/exact/%zz"},
	{"/subscriptions/urlpattern/a", "", "/subscriptions/urlpattern/%zz"},
	{"/subscriptions/{topic}/{subscriber}", "/subscriptions/a/b", "/subscriptions/a/%zz"},
	{"/subscriptions/exact/{match}/{subscriber}", "/subscriptions/exact/a/b", "/subscriptions/exact/a/%zz"},
}

// everyList asks for every list in every way.
func (d *driver) everyList() {
	one := d.subscribed("topic", "/subscriptions/a/")
	two := d.subscribed("match", "/subscriptions/exact/a/")
	for _, l := range lists {
		path := strings.NewReplacer("/subscriptions/{topic}/{subscriber}", one, "/subscriptions/exact/{match}/{subscriber}", two).Replace(l.path)
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete} {
			d.askAgain(method, path)
			d.ask(method, path, "", "Authorization", "Bearer a.b.c")
			d.ask(method, path, "", "Authorization", "Bearer "+classicToken(d.t, ""))
			d.ask(method, path, "", "Origin", corsOrigin)
			if l.missing != "" {
				d.ask(method, l.missing, "")
			}
			if l.bad != "" && (method == http.MethodGet || method == http.MethodHead) { // net/http refuses it for all methods
				d.ask(method, l.bad, "")
			}
		}
	}
	for _, method := range []string{http.MethodOptions, http.MethodPut} {
		d.ask(method, metadataPath, "")
		d.ask(method, metadataPath, "", "Origin", corsOrigin, "Access-Control-Request-Method", "GET")
	}
	for _, query := range []string{"?topic=a&matchId=1", "?match=%00"} {
		d.ask(http.MethodHead, query, "")
	}
}

// askAgain asks for a list until it stands still between two requests, if it has a validator: streams of before are still
// being told of.
func (d *driver) askAgain(method, path string) {
	d.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; {
		_, head := d.ask(method, path, "")
		tag := head.Get("ETag")
		if tag == "" {
			return
		}
		if status, _ := d.ask(method, path, "", "If-None-Match", tag); status == http.StatusNotModified {
			return
		}
	}
	d.t.Errorf("%s %s never stood still", method, path)
}

// subscribed opens a stream until the test ends and returns the path of its only subscription.
func (d *driver) subscribed(param, prefix string) string {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.hub+"?"+param+"=a", http.NoBody)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	res, err := d.client.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = res.Body.Close() })
	return d.awaitSubscription(strings.TrimSuffix(prefix, "/"))
}

// awaitSubscription waits until a list has a member and returns its path below the hub's.
func (d *driver) awaitSubscription(list string) string {
	d.t.Helper()
	for {
		req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.hub+list, http.NoBody)
		if err != nil {
			d.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+d.token)
		if id := firstMember(d.t, d.client, req); id != "" {
			return strings.TrimPrefix(id, spec.DefaultHubPath)
		}
	}
}

// headTooLarge sends more header than the server takes, with every method that may have a stream or a publication.
func (d *driver) headTooLarge() {
	pad := strings.Repeat("x", 72<<10)
	for _, method := range []string{http.MethodGet, http.MethodHead, spec.MethodQuery, http.MethodPost} {
		d.ask(method, "", "", "X-Padding", pad)
	}
}

// kicked sends a subject away and comes back as that subject.
func (d *driver) kicked(admin string) {
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, admin+"/subscribers/disconnect", strings.NewReader(`{"subject":"sub-1"}`))
	if err != nil {
		d.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		d.t.Fatalf("disconnect: status %d", res.StatusCode)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		d.ask(method, "?topic=a", "")
	}
	d.ask(spec.MethodQuery, "", "topic=a")
}

// driveFull asks a hub that has no place left.
func driveFull(t *testing.T) *recorder {
	t.Helper()
	_, target := startHub(t, func(c *app.Config) { c.Transport, c.Anonymous, c.MaxConnections = "memory", true, 1 })
	r, client := recorded(t)
	d := &driver{t: t, hub: target.URL, client: client}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target.URL+"?match=a", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	for _, accept := range []string{"", "text/event-stream", "application/problem+json"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			d.ask(method, "?match=a", "", "Accept", accept)
		}
		d.ask(spec.MethodQuery, "", "match=a", "Accept", accept)
	}
	return r
}

// driveForeign asks a hub under a name that is not its own.
func driveForeign(t *testing.T) *recorder {
	t.Helper()
	_, target := startHub(t, func(c *app.Config) {
		c.Transport, c.Subscriptions, c.PublicOrigins = "memory", true, []string{"https://hub.example"}
	})
	r, client := recorded(t)
	d := &driver{t: t, hub: target.URL, client: client}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions, spec.MethodQuery} {
		d.ask(method, "?match=a", "")
		d.ask(method, "?match=a", "", "Accept", "application/problem+json", "Origin", corsOrigin)
	}
	for _, path := range []string{"/subscriptions", "/subscriptions/a", "/subscriptions/exact/a", "/subscriptions/urlpattern/a", "/subscriptions/a/b", "/subscriptions/exact/a/b", metadataPath} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
			d.ask(method, path, "")
		}
	}
	return r
}

// driveLittle asks a hub for what it does not have.
func driveLittle(t *testing.T) *recorder {
	t.Helper()
	_, target := startHub(t, func(c *app.Config) { noIssuers(c); c.Transport = "memory" })
	r, client := recorded(t)
	d := &driver{t: t, hub: target.URL, client: client}
	for _, path := range []string{"/subscriptions", "/subscriptions/a", "/subscriptions/exact/a", "/subscriptions/urlpattern/a", "/subscriptions/a/b", "/subscriptions/exact/a/b", metadataPath, "/elsewhere", "^/"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			d.ask(method, path, "")
		}
	}
	return r
}

// classicToken subscribes to everything as a subject, or, without one, to nothing.
func classicToken(t *testing.T, subject string) string {
	t.Helper()
	claims := jwt.MapClaims{spec.ClaimMercure: map[string]any{"subscribe": []string{}}}
	if subject != "" {
		claims = jwt.MapClaims{spec.ClaimMercure: map[string]any{"subscribe": []string{"*"}}, "sub": subject}
	}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(subscriberKey))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}
