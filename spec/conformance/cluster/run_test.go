//go:build linux

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// run is one failure while publishers publish and clients listen.
type run struct {
	name      string
	token     string
	start     time.Time
	publisher *http.Client
	sources   []*source
	idle      []func()
	bare      bool // a proxy that knows nothing of hubs answers 502 when a connection breaks

	mu           sync.Mutex
	attempts     []attempt     // guarded by mu, as is what follows
	publishStall time.Duration // longest time from an update's first attempt to its acknowledgement
	unavailable  int           // attempts answered 503
	cut          int           // attempts that a network error ended
	wrong        []string      // answers that a publisher must not get
}

// plan is what a run needs to know.
type plan struct {
	hubs      []string // hub URLs for publishers
	through   []string // hub URLs for clients, if others: a proxy
	direct    []string // hub URLs from which the log is read at the end, if others than hubs
	clients   int
	rate      int // updates per second
	workers   int // 0 = 6
	bare      bool
	before    time.Duration
	fail      func(*run) // the failure, from its beginning to its end
	afterward time.Duration
}

var runs atomic.Int64

// play runs a plan and judges it.
func play(t *testing.T, p plan) verdict {
	t.Helper()
	r := &run{
		name: fmt.Sprint("r", runs.Add(1)), bare: p.bare, token: child.Token(t), start: time.Now(),
		publisher: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}},
	}
	if p.workers == 0 {
		p.workers = 6
	}
	if p.through == nil {
		p.through = p.hubs
	}
	if p.direct == nil {
		p.direct = p.hubs
	}
	var clients, publishers sync.WaitGroup
	listening, leave := context.WithCancel(t.Context())
	defer clients.Wait()
	defer leave()
	r.sources = swarm(r, p.clients, p.through, r.token)
	for _, s := range r.sources {
		clients.Go(func() { s.live(listening) })
	}
	for _, s := range r.sources {
		s.awaitOpen(t)
	}
	begin := r.mark(t, p.hubs, first)

	publishing, stop := context.WithCancel(t.Context())
	defer publishers.Wait()
	defer stop()
	for w := range p.workers {
		publishers.Go(func() {
			r.worker(publishing, w, time.Second*time.Duration(p.workers)/time.Duration(p.rate), p.hubs)
		})
	}
	pause(t, p.before)
	if p.fail != nil {
		p.fail(r)
	}
	pause(t, p.afterward)
	stop()
	publishers.Wait()
	r.mark(t, p.hubs, last)
	if n := r.incomplete(); n > 0 {
		t.Errorf("%d clients have not received the last update within %v", n, patience)
	}
	leave()
	clients.Wait()
	r.publisher.CloseIdleConnections()
	for _, f := range r.idle {
		f()
	}
	v := judge(r.history(t, p.direct, begin), r.attempts, r.sources)
	v.run = r
	r.add(&v)
	v.require(t)
	return v
}

// incomplete waits until every client has received the last update, and returns how many have not after all.
// Those that gave up never will.
func (r *run) incomplete() (n int) {
	for deadline := time.Now().Add(patience); ; {
		n = 0
		for _, s := range r.sources {
			select {
			case <-s.complete:
			default:
				if s.closed.Load() == nil {
					n++
				}
			}
		}
		if n == 0 || time.Now().After(deadline) {
			return n
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// What the marks of a run say.
const (
	first = "first"
	last  = "last"
)

// mark publishes what every client is to see before or after everything else.
func (r *run) mark(t *testing.T, hubs []string, what string) (id string) {
	t.Helper()
	at := 0
	child.Eventually(t, patience, func() (err error) {
		id, err = r.publish(t.Context(), hubs[at%len(hubs)], -1, []string{markTopic}, "", what)
		at++
		return err
	})
	return id
}

// data is what an update carries: who is to read it, its number, and whether it is a mark.
func (r *run) data(seq int, mark string) string {
	return strings.TrimSpace(fmt.Sprint(r.name, " ", seq, " ", mark))
}

// parse reads data back. It is not ok for an update that another run published.
func (r *run) parse(data string) (seq int, isLast, ok bool) {
	f := strings.Fields(data)
	if len(f) < 2 || f[0] != r.name {
		return 0, false, false
	}
	seq, err := strconv.Atoi(f[1])
	return seq, len(f) == 3 && f[2] == last, err == nil
}

// now is the time since the run began.
func (r *run) now() time.Duration { return time.Since(r.start) }

// begin takes a number for an attempt.
func (r *run) begin(w int, topics []string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, attempt{worker: w, topics: topics})
	return len(r.attempts) - 1
}

func (r *run) acknowledged(seq int, id string) {
	at := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts[seq].acked, r.attempts[seq].id = at, id
}

// failed notes an attempt that was not acknowledged.
func (r *run) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	no, ok := errors.AsType[*refusal](err)
	switch {
	case !ok:
		r.cut++
	case no.status == http.StatusServiceUnavailable && no.retryAfter != "":
		r.unavailable++
	case r.bare && no.status == http.StatusBadGateway: // nginx's own words for it
		r.cut++
	default:
		r.wrong = append(r.wrong, no.Error())
	}
}

// stalled notes how long one update took to be acknowledged.
func (r *run) stalled(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.publishStall = max(r.publishStall, d)
}

// awaitOpen waits for a client's first stream.
func (s *source) awaitOpen(t *testing.T) {
	t.Helper()
	child.Eventually(t, patience, func() error {
		select {
		case <-s.opened:
			return nil
		default:
		}
		if why := s.closed.Load(); why != nil {
			t.Fatalf("%s gave up: %s", s.name, *why)
		}
		return fmt.Errorf("%s has no stream", s.name)
	})
}

// pause lets the traffic go on for d: how long something lasts is what such a test is about.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// logged is one update of the run as the log has it.
type logged struct {
	seq  int
	id   string
	mark bool // the last mark
}

// history reads the run's part of the log: from the first hub everything from the beginning on, from
// the others what follows the first mark. All must say the same (REC-22).
func (r *run) history(t *testing.T, hubs []string, begin string) []logged {
	t.Helper()
	all := r.read(t, hubs[0], spec.Earliest)
	after := all
	for i, l := range all {
		if l.id == begin {
			after = all[i+1:]
		}
	}
	for _, h := range hubs[1:] {
		if other := r.read(t, h, begin); !slices.Equal(other, after) {
			t.Errorf("%s: the history of %s has %d updates after the first mark, that of %s %d, or others", r.name, h, len(other), hubs[0], len(after))
		}
	}
	return all
}

// read reads the run's updates after a cursor up to the last mark.
func (r *run) read(t *testing.T, hub, cursor string) (all []logged) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, hub+"?topic=*", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	req.Header.Set(spec.HeaderLastEventID, cursor)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: the history of %s: status %d", r.name, hub, res.StatusCode)
	}
	for d := sse.NewDecoder(res.Body, 0); ; {
		e, err := d.Next()
		if err != nil {
			t.Fatalf("%s: the history of %s ends after %d updates: %v", r.name, hub, len(all), err)
		}
		if seq, isLast, ok := r.parse(e.Data); ok {
			all = append(all, logged{seq, e.ID, isLast})
			if isLast {
				return all
			}
		}
	}
}
