package hub

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// The table of statuses, one situation after the other. A request head that is too large is net/http's to refuse (431);
// a private update without a grant is silence and no status.
//
// Covers: ERR-12, ERR-05, ERR-11, SUB-17, DIS-06, LIM-02, LIM-03, LIM-04.
func TestStatusTable(t *testing.T) {
	long := strings.Repeat("x", 1025)
	full := func(o *Options) { o.MaxConnections = 1 }
	failing := func(err error) func(*Options) {
		return func(o *Options) {
			o.Transport = &faultyLog{
				Transport: newNode(t, nil).log, onAppend: func(context.Context) error { return err }, onLocate: func() error { return err },
			}
		}
	}
	elsewhere := func(o *Options) { o.PublicOrigins = []string{"https://hub.example.com"} }
	strict := func(o *Options) { o.NoClassic = true }
	listed := func(o *Options) { o.Directory = newDirectory() }
	const get, post, query = http.MethodGet, http.MethodPost, spec.MethodQuery
	const wide, narrow, cookie, none = "wide", "narrow", "cookie", ""
	for name, c := range map[string]struct {
		change       func(*Options)
		method, path string
		body, token  string
		status       int
	}{
		"no topic and no match":               {nil, get, "", "", wide, 400},
		"nor in a query":                      {nil, query, "", "x=y", wide, 400},
		"no topic of a publication":           {nil, post, "", "data=x", wide, 400},
		"an unknown match parameter":          {nil, get, "?match=a&matchId=1", "", wide, 400},
		"topic":                               {nil, http.MethodHead, "?topic=a", "", wide, 200},
		"topic on a hub of draft-08":          {strict, http.MethodHead, "?topic=a", "", wide, 400},
		"match on a hub of draft-08":          {strict, http.MethodHead, "?match=a", "", wide, 200},
		"an invalid URL pattern":              {nil, get, "?match_urlpattern=/(", "", wide, 400},
		"a control character in a topic":      {nil, post, "", "topic=a%07", wide, 400},
		"a control character in a selector":   {nil, get, "?topic=a%07", "", wide, 400},
		"a control character in a matcher":    {nil, get, "?match=a%07", "", wide, 400},
		"a line feed in an id":                {nil, post, "", "topic=a&id=a%0Ab", wide, 400},
		"a line feed in a type":               {nil, post, "", "topic=a&type=a%0Ab", wide, 400},
		"an id that is a fragment":            {nil, post, "", "topic=a&id=%23x", wide, 400},
		"the id earliest":                     {nil, post, "", "topic=a&id=earliest", wide, 400},
		"the type mercure":                    {nil, post, "", "topic=a&type=mercure", wide, 400},
		"a bad retry":                         {nil, post, "", "topic=a&retry=1s", wide, 400},
		"a reserved topic":                    {nil, post, "", "topic=/.well-known/mercure/x", wide, 400},
		"the topic *":                         {nil, post, "", "topic=*", wide, 400},
		"too many topics":                     {nil, post, "", strings.Repeat("topic=a&", 101), wide, 413},
		"too large a publication":             {nil, post, "", "topic=a&data=" + strings.Repeat("x", 1<<20), wide, 413},
		"too large a query":                   {nil, query, "", "match=a&x=" + strings.Repeat("x", 1<<20), wide, 413},
		"no token, publishing":                {nil, post, "", "topic=a", none, 401},
		"no token, subscribing":               {nil, get, "?match=a", "", none, 401},
		"no token, a query":                   {nil, query, "", "match=a", none, 401},
		"a bad token":                         {nil, post, "", "topic=a", "Bearer x.y.z", 401},
		"a bad Authorization":                 {nil, post, "", "topic=a", "Basic eDp5", 400},
		"a cookie from nowhere":               {nil, post, "", "topic=a", cookie, 400},
		"a cookie of a query":                 {full, query, "", "match=a", cookie, 429},
		"not granted, publishing":             {nil, post, "", "topic=a", narrow, 403},
		"not granted, the list":               {listed, get, "/subscriptions", "", narrow, 403},
		"no transport, publishing":            {failing(transport.ErrUnavailable), post, "", "topic=a", wide, 503},
		"a broken transport, publishing":      {failing(errors.New("broken")), post, "", "topic=a", wide, 500},
		"no transport, subscribing":           {failing(transport.ErrUnavailable), get, "?match=a&last_event_id=x", "", wide, 503},
		"no space left":                       {failing(transport.ErrFull), post, "", "topic=a", wide, 507},
		"another origin":                      {elsewhere, get, "?match=a", "", wide, 421},
		"another origin, publishing":          {elsewhere, post, "", "topic=a", wide, 421},
		"another origin, a query":             {elsewhere, query, "", "match=a", wide, 421},
		"another origin, another path":        {elsewhere, get, "/nothing", "", wide, 421},
		"over a cap":                          {full, get, "?match=a", "", wide, 429},
		"over a cap, a query":                 {full, query, "", "match=a", wide, 429},
		"too long a topic":                    {nil, post, "", "topic=" + long + long, wide, 413},
		"too long an id":                      {nil, post, "", "topic=a&id=" + long, wide, 413},
		"too long a type":                     {nil, post, "", "topic=a&type=" + long, wide, 413},
		"too many fields":                     {nil, post, "", strings.Repeat("x&", 2000), wide, 413},
		"too many fields of a query":          {nil, query, "?" + strings.Repeat("x&", 800), strings.Repeat("x&", 800), wide, 413},
		"an unknown path":                     {nil, get, "/nothing", "", wide, 404},
		"the list that is off":                {nil, get, "/subscriptions", "", wide, 404},
		"another method":                      {nil, http.MethodDelete, "", "", wide, 405},
		"another method of the list":          {listed, query, "/subscriptions", "", wide, 405},
		"another media type of a publication": {nil, post, "", "{}", wide, 415},
		"another media type of a query":       {nil, query, "", "{}", wide, 415},
	} {
		t.Run(name, func(t *testing.T) {
			n, token := startClosedNode(t, c.change)
			headers := []string{"Content-Type", formType}
			if c.body == "{}" {
				headers[1] = "application/json"
			}
			switch c.token {
			case wide:
				headers = append(headers, "Authorization", "Bearer "+token)
			case narrow:
				headers = append(headers, "Authorization", "Bearer "+mint(t, testKey, time.Hour, "b"))
			case cookie:
				headers = append(headers, "Cookie", spec.CookieClassic+"="+token)
			case none:
			default:
				headers = append(headers, "Authorization", c.token)
			}
			if c.status == http.StatusTooManyRequests { // somebody else is there
				n.subscribe("match=a", "Authorization", "Bearer "+token)
			}
			w := n.serve(c.method, spec.DefaultHubPath+c.path, c.body, headers...)
			if w.Code != c.status {
				t.Fatalf("%d, want %d: %s", w.Code, c.status, w.Body)
			}
			head := w.Header()
			for field, there := range map[string]bool{
				"Allow":       c.status == 405,
				"Retry-After": c.status == 429 || c.status == 503 || c.status == 507,
				"WWW-Authenticate": c.status == 401 || c.status == 403 ||
					c.status == 400 && (c.token == cookie || strings.HasPrefix(c.token, "Basic")),
			} {
				if got := head.Get(field); (got != "") != there {
					t.Errorf("%s is %q", field, got)
				}
			}
			if c.status >= 400 && (head.Get("Cache-Control") != "no-store" || head.Get("X-Content-Type-Options") != "nosniff") {
				t.Errorf("head %v", head)
			}
		})
	}
}
