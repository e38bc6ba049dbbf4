package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// maxEvent bounds an event: an update of maxSize, and some.
const maxEvent = 2 * maxSize

// sourcePorts is how many connections are made from one address of the loopback, well below what a system has ports.
const sourcePorts = 20_000

// swarm is the subscribers of a run. open and close are called in turn, by one goroutine; each stream has one
// goroutine that reads it and owns its subscriber, and close waits for all of them.
type swarm struct {
	// static
	run      *run
	requests [][]byte // by topic: all but the cursor
	sources  []netip.Addr

	subs  []subscriber
	conns []net.Conn     // by subscriber; nil = not open
	fan   []atomic.Int64 // by topic: streams open

	readers sync.WaitGroup
	closing atomic.Bool
	alive   atomic.Int64
	ended   atomic.Int64 // by the hub
}

// newSwarm makes n subscribers, spread over selectors, that keep book of publishers. It makes sure that the
// system lets this process have so many connections.
func newSwarm(r *run, n, publishers int, selectors []string, template bool) (*swarm, error) {
	if int64(publishers)*int64(n+len(selectors)) > maxSequences {
		return nil, badOption("%d publishers times %d subscribers and %d topics are too many to keep book of", publishers, n, len(selectors))
	}
	if err := needFiles(n + publishers); err != nil {
		return nil, err
	}
	s := &swarm{run: r, subs: make([]subscriber, n), conns: make([]net.Conn, n), fan: make([]atomic.Int64, len(selectors)), sources: r.sources(n)}
	lanes := make([]lane, n*publishers)
	for i := range s.subs {
		s.subs[i] = subscriber{index: i, topic: i % len(selectors), lanes: lanes[i*publishers : (i+1)*publishers]}
	}
	for _, selector := range selectors {
		s.requests = append(s.requests, r.subscription(selector, template))
	}
	return s, nil
}

// sources are the addresses to connect from.
func (r *run) sources(n int) []netip.Addr {
	host, _, err := net.SplitHostPort(r.subscribe.address)
	if err != nil || len(r.target.Sources) > 0 || n <= sourcePorts || runtime.GOOS != "linux" {
		return r.target.Sources
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.Is4() || !ip.IsLoopback()) {
		return nil
	}
	var all []netip.Addr
	for i := range (n + sourcePorts - 1) / sourcePorts {
		all = append(all, netip.AddrFrom4([4]byte{127, 0, byte((i + 2) >> 8), byte(i + 2)}))
	}
	return all
}

// subscription is the head of a request, up to where a cursor would stand.
func (r *run) subscription(selector string, template bool) []byte {
	name := spec.FieldTopic
	switch {
	case r.target.Draft08 && template:
		name = spec.ParamMatchURLPattern
	case r.target.Draft08:
		name = spec.ParamMatch
	}
	u := *r.subscribe.url
	q := u.Query()
	q.Add(name, selector)
	u.RawQuery = q.Encode()
	b := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nCache-Control: no-cache\r\nUser-Agent: cinnabar-bench\r\n",
		u.RequestURI(), r.subscribe.host)
	if r.target.SubscribeToken != "" {
		b = fmt.Appendf(b, "Authorization: Bearer %s\r\n", r.target.SubscribeToken)
	}
	return b
}

// opening is how it went to open streams.
type opening struct {
	opened, failed int64
	first          error // of the failures
	took           time.Duration
	each           histogram
}

// open opens the streams of all subscribers that have none, some at a time. It stops early when ctx ends, or after
// tolerance failures.
func (s *swarm) open(ctx context.Context, tolerance int64) *opening {
	s.closing.Store(false)
	var (
		o       = &opening{}
		next    atomic.Int64
		mu      sync.Mutex
		workers sync.WaitGroup
		began   = time.Now()
	)
	worker := func() {
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= len(s.subs) {
				return
			}
			start := time.Now()
			err := s.join(ctx, &s.subs[i])
			mu.Lock()
			switch {
			case err == nil:
				o.opened++
				o.each.add(time.Since(start))
			case ctx.Err() == nil:
				o.failed++
				if o.first == nil {
					o.first = err
				}
			}
			stop := o.failed > tolerance
			mu.Unlock()
			if stop {
				return
			}
		}
	}
	for range min(s.run.target.Connect, len(s.subs)) {
		workers.Go(worker)
	}
	workers.Wait()
	o.took = time.Since(began)
	return o
}

// join opens the stream of sub and starts its reader.
func (s *swarm) join(ctx context.Context, sub *subscriber) error {
	e := &s.run.subscribe
	var source netip.Addr
	if len(s.sources) > 0 {
		source = s.sources[sub.index%len(s.sources)]
	}
	c, err := e.dial(ctx, source)
	if err != nil {
		return e.failed("Get", explain(err))
	}
	// Whoever ends ctx does not want to wait for a hub that does not answer.
	release := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	b, err := s.subscribe(c, sub)
	release()
	if err == nil {
		err = patience(c, 0)
	}
	if err != nil {
		_ = c.Close()
		if _, ok := errors.AsType[net.Error](err); ok {
			err = e.failed("Get", err)
		}
		return err
	}
	s.conns[sub.index] = c
	s.alive.Add(1)
	s.fan[sub.topic].Add(1)
	s.readers.Go(func() { s.read(b, sub) })
	return nil
}

// subscribe sends sub's request and reads the head of the answer.
func (s *swarm) subscribe(c net.Conn, sub *subscriber) (*body, error) {
	if err := patience(c, answerPatience); err != nil {
		return nil, err
	}
	request := s.requests[sub.topic]
	end := "\r\n"
	if sub.cursor != "" {
		end = spec.HeaderLastEventID + ": " + sub.cursor + "\r\n\r\n"
	}
	if _, err := c.Write(append(slices.Clip(request), end...)); err != nil {
		return nil, err
	}
	h, rest, err := readHead(c)
	if err != nil {
		return nil, err
	}
	b := &body{conn: c, rest: rest, chunked: h.chunked}
	switch kind := h.header.Get("Content-Type"); {
	case h.status != http.StatusOK:
		return nil, refusal(h, b)
	case !strings.HasPrefix(kind, "text/event-stream"):
		return nil, fmt.Errorf("the hub answered with %.80q, which is no stream of events", kind)
	}
	return b, nil
}

// read takes sub's stream to its end.
func (s *swarm) read(b *body, sub *subscriber) {
	t := s.run.tally
	d := sse.NewDecoder(b, maxEvent)
	d.SetLastEventID(sub.cursor)
	d.OnComment = func(string) { t.heartbeats.Add(1) }
	for {
		event, err := d.Next()
		if err != nil {
			break
		}
		sub.receive(t, event.Data)
	}
	if id := d.LastEventID(); safeHeader(id) {
		sub.cursor = id
	}
	s.alive.Add(-1)
	s.fan[sub.topic].Add(-1) // what it misses from now on is not waited for, but lost
	if !s.closing.Load() {
		s.ended.Add(1)
	}
}

// safeHeader reports whether id can be sent as a header as it is.
func safeHeader(id string) bool {
	return !strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// close ends all streams and waits for their readers. The subscribers stay.
func (s *swarm) close() {
	s.closing.Store(true)
	for i, c := range s.conns {
		if c != nil {
			_ = c.Close()
			s.conns[i] = nil
		}
	}
	s.readers.Wait()
}

// lost is how many accepted updates did not reach subscribers of their topic. Streams must be closed, and every
// subscriber have had one.
func (s *swarm) lost(accepted [][]int64) int64 {
	var n int64
	for i := range s.subs {
		for p := range accepted {
			n += max(0, accepted[p][s.subs[i].topic]-s.subs[i].lanes[p].got)
		}
	}
	return n
}

// explain adds what to do about the limits that everybody meets.
func explain(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: no ports are left to this hub, or the address is not of this machine: connect from several addresses with --source", err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%w: raise the limit of open files (ulimit -n)", err)
	}
	return err
}
