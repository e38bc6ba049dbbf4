package hub

import (
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

const eventStream = "text/event-stream"

// wantSoft requires an answer that makes an EventSource come back later.
func wantSoft(t *testing.T, res *http.Response, retry time.Duration) {
	t.Helper()
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != eventStream {
		t.Errorf("an EventSource is answered %d, %q", res.StatusCode, res.Header.Get("Content-Type"))
	}
	if res.ContentLength < 0 {
		t.Fatal("an EventSource got a stream")
	}
	body := slurp(t, res)
	field, ok := strings.CutPrefix(body, "retry: ")
	ms, err := strconv.Atoi(strings.TrimSuffix(field, "\n"))
	if !ok || err != nil {
		t.Fatalf("body %q, want one retry field", body)
	}
	if got, mid := time.Duration(ms)*time.Millisecond, softRetry(retry); got < mid/2 || got > mid*3/2 || got <= retry {
		t.Errorf("retry is %v, want around %v and more than the usual %v", got, mid, retry)
	}
}

// wantHard requires a refusal with a time to come back.
func wantHard(t *testing.T, res *http.Response, status int) {
	t.Helper()
	after, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if res.StatusCode != status || err != nil || after <= 0 {
		t.Fatalf("%d, Retry-After %q; want %d", res.StatusCode, res.Header.Get("Retry-After"), status)
	}
	if body := slurp(t, res); strings.Contains(body, "retry:") {
		t.Errorf("body %q", body)
	}
}

// Covers: SUB-24, SUB-41, LIM-10, SUB-40.
func TestConnectionCaps(t *testing.T) {
	forClient := func(addr string) []string { return []string{"X-Forwarded-For", addr} }
	forSubject := func(sub string) []string { return []string{"X-Subject", sub} }
	for name, c := range map[string]struct {
		change func(*Options)
		reason string
		fill   [][]string // headers of the streams that reach the cap
		over   []string   // one more
		others [][]string // not counted by this cap
	}{
		"in total": {
			func(o *Options) { o.MaxConnections = 2 }, "max_connections",
			[][]string{forClient("203.0.113.1"), forSubject("s")},
			forClient("203.0.113.2"), nil,
		},
		"per address": {
			func(o *Options) { o.MaxConnectionsPerIP = 2 }, "max_connections_per_ip",
			[][]string{forClient("203.0.113.1"), forClient("9.9.9.9, 203.0.113.1:99")},
			forClient("8.8.8.8, 203.0.113.1"),
			[][]string{forClient("203.0.113.2"), nil, nil},
		},
		"per /64": {
			func(o *Options) { o.MaxConnectionsPerIP = 2 }, "max_connections_per_ip",
			[][]string{forClient("2001:db8:0:1::1"), forClient("2001:db8:0:1::2")},
			forClient("[2001:db8:0:1:ffff::3]:5"),
			[][]string{forClient("2001:db8:0:2::1"), forClient("203.0.113.1")},
		},
		"per subject": {
			func(o *Options) { o.MaxConnectionsPerSubject = 1 }, "max_connections_per_subject",
			[][]string{forSubject("alice")},
			forSubject("alice"),
			[][]string{forSubject("bob"), nil, nil}, // nobody's streams are not one somebody's
		},
	} {
		t.Run(name, func(t *testing.T) {
			const retry = 4 * time.Second
			change, book, reg := observed(func(o *Options) {
				o.TrustedProxies = prefixes("127.0.0.0/8")
				o.Retry = retry
				c.change(o)
			})
			n := startNode(t, change)
			known := n.publish("topic", "other")
			var streams []*stream
			for _, headers := range c.fill {
				streams = append(streams, n.subscribe("topic=a", headers...))
			}
			for _, headers := range c.others {
				n.subscribe("topic=a", headers...)
			}
			n.wantOpen(reg, len(c.fill)+len(c.others))

			wantHard(t, n.get("topic=a", c.over...), http.StatusTooManyRequests)
			wantHard(t, n.get("topic=a", append(c.over, "Accept", "*/*")...), http.StatusTooManyRequests)
			if got := series(t, reg, "cinnabar_refused_total", "action", "subscribe", "reason", c.reason); got != 2 {
				t.Errorf("counted %v times as %s, want 2", got, c.reason)
			}
			for asked, echo := range map[string]string{"": "", known: known, "nobody": spec.Earliest} {
				res := n.get("topic=a", append(c.over, "Accept", "text/html, "+eventStream, "Last-Event-ID", asked)...)
				if got := res.Header.Get("Last-Event-ID"); got != echo {
					t.Errorf("asked for %q, told %q, want %q", asked, got, echo)
				}
				wantSoft(t, res, retry)
			}
			if got := series(t, reg, "cinnabar_soft_refused_total"); got != 3 {
				t.Errorf("%v soft refusals are counted, want 3", got)
			}
			n.wantOpen(reg, len(c.fill)+len(c.others)) // none of these took a place

			_ = streams[0].res.Body.Close()
			book.await(t, "stream ended", 1)
			n.subscribe("topic=a", c.over...)
			wantHard(t, n.get("topic=a", c.over...), http.StatusTooManyRequests)

			n.stop()
			n.wantOpen(reg, 0)
		})
	}
}

// wantOpen requires as many open streams, in the caps' books and in the metrics.
func (n *node) wantOpen(reg prometheus.Gatherer, streams int) {
	t := n.t.(*testing.T)
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open.total != streams {
		t.Errorf("%d streams are open, want %d", n.open.total, streams)
	}
	if streams == 0 && len(n.open.perIP)+len(n.open.perSubject) > 0 {
		t.Errorf("the books still hold %v and %v", n.open.perIP, n.open.perSubject)
	}
	if got := series(t, reg, "cinnabar_subscribers"); got != float64(streams) {
		t.Errorf("the gauge of streams is %v, want %d", got, streams)
	}
}

// Covers: SUB-41.
func TestSoftRefusalOff(t *testing.T) {
	n := startNode(t, func(o *Options) { o.SoftRefusal, o.MaxConnections = false, 1 })
	n.subscribe("topic=a")
	wantHard(t, n.get("topic=a", "Accept", eventStream), http.StatusTooManyRequests)
}

// TestSoftRefusalIsForPassingTroubles: what will be refused again is refused plainly.
//
// Covers: SUB-41.
func TestSoftRefusalIsForPassingTroubles(t *testing.T) {
	n := startNode(t, func(o *Options) { o.MaxConnections = 1 })
	n.subscribe("topic=a")
	if res := n.get("", "Accept", eventStream); res.StatusCode != http.StatusBadRequest {
		t.Errorf("no topic: %d", res.StatusCode)
	}
	denied := startNode(t, func(o *Options) { o.Authorizer = denier{} })
	if res := denied.get("topic=a", "Accept", eventStream); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("no token: %d", res.StatusCode)
	}
}

// TestOneCapDoesNotChargeTheOthers: a stream that one cap refuses is in no book.
//
// Covers: LIM-10.
func TestOneCapDoesNotChargeTheOthers(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	change, _, reg := observed(func(o *Options) {
		o.MaxConnections, o.MaxConnectionsPerIP, o.MaxConnectionsPerSubject = 3, 2, 1
	})
	n := newNode(t, change)
	admit := func(addr netip.Addr, subject, reason string) {
		t.Helper()
		err := n.admit(addr, auth.Holder{Subject: subject})
		got := ""
		if p, ok := errors.AsType[*spec.Problem](err); ok {
			got = p.Reason
			if p.Status != http.StatusTooManyRequests || p.RetryAfter <= 0 {
				t.Errorf("%s: %d, %v", got, p.Status, p.RetryAfter)
			}
		}
		if got != reason {
			t.Errorf("%v %q: %q, want %q", addr, subject, got, reason)
		}
	}
	admit(a, "alice", "")
	admit(a, "alice", "max_connections_per_subject")
	admit(b, "alice", "max_connections_per_subject")
	admit(a, "bob", "")
	admit(a, "carol", "max_connections_per_ip")
	admit(b, "carol", "")
	admit(b, "dave", "max_connections")
	n.wantOpen(reg, 3)
	n.dismiss(a, auth.Holder{Subject: "bob"})
	admit(a, "bob", "")
	for _, s := range []struct {
		addr    netip.Addr
		subject string
	}{{a, "alice"}, {a, "bob"}, {b, "carol"}} {
		n.dismiss(s.addr, auth.Holder{Subject: s.subject})
	}
	n.wantOpen(reg, 0)

	// Two issuers may give the same name to two people.
	ofIssuer := auth.Holder{Issuer: "https://a.example", Subject: "alice"}
	admit(a, "alice", "")
	if err := n.admit(a, ofIssuer); err != nil {
		t.Errorf("the same subject of another issuer: %v", err)
	}
	if n.admit(b, ofIssuer) == nil {
		t.Error("an issuer's subject has no limit")
	}
	n.dismiss(a, auth.Holder{Subject: "alice"})
	n.dismiss(a, ofIssuer)
	n.wantOpen(reg, 0)
}

// TestRefusedStreamsLeaveNothing makes each step of opening a stream fail, or panic, in turn.
//
// Covers: SUB-30, SUB-41.
func TestRefusedStreamsLeaveNothing(t *testing.T) {
	fail := func() error { return transport.ErrUnavailable }
	burst := func() error { panic("a defect of the log") }
	second := func(f func() error) func(topic.Selector) error {
		return func(s topic.Selector) error {
			if s.Pattern == "b" {
				return f()
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		locate func() error
		add    func(topic.Selector) error
		status int
	}{
		"locate fails":   {fail, nil, 503},
		"interest fails": {nil, second(fail), 503},
		"locate panics":  {burst, nil, 500},
	} {
		t.Run(name, func(t *testing.T) {
			var log *faultyLog
			change, _, reg := observed(func(o *Options) {
				log = &faultyLog{Transport: newNode(t, nil).log, onLocate: c.locate, onAdd: c.add}
				o.Transport = log
				o.MaxConnections = 1
			})
			n := startNode(t, change)
			for range 3 { // more than the cap
				res := n.get("topic=a&topic=b&lastEventID=x", "X-Subject", "s")
				if res.StatusCode != c.status {
					t.Errorf("%d, want %d", res.StatusCode, c.status)
				}
				if c.status == http.StatusServiceUnavailable {
					wantHard(t, res, c.status)
					wantSoft(t, n.get("topic=a&topic=b&lastEventID=x", "Accept", eventStream), 0)
				}
			}
			n.wantOpen(reg, 0)
			if got := log.interest.Load(); got != 0 {
				t.Errorf("%d selectors are still of interest", got)
			}
			if left := n.fanout.snapshot(); len(left) != 0 {
				t.Errorf("%d subscribers are still in the index", len(left))
			}
			log.onLocate, log.onAdd = nil, nil
			n.subscribe("topic=a&topic=b&lastEventID=x")
		})
	}
}
