//go:build linux

package cluster_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// receipt is one update as a client received it.
type receipt struct {
	seq int           // of the attempt that published it
	id  string        // the client's cursor after it
	at  time.Duration // since the run began
}

// source is a client as a browser's EventSource is one: it comes back after a network error or the end of a
// stream when its reconnection time has passed, with its cursor, and gives up for good on any answer but 200
// with text/event-stream. Asked at several addresses it takes the next one each time, as a load balancer would.
type source struct {
	// static
	taste
	name   string
	urls   []string // hub URLs
	token  string
	client *http.Client
	run    *run

	// owned by live until done is closed
	got     []receipt
	retry   time.Duration
	cursor  string
	at      int      // index into urls
	refused []string // cursors that were not answered as found
	alien   int      // events of nobody
	ended   bool     // it has seen the last update

	reconnects atomic.Int64
	closed     atomic.Pointer[string] // why it has given up
	opened     chan struct{}          // closed when its first stream is open
	complete   chan struct{}          // closed when it has seen the last update
	openOnce   sync.Once
	ends       []time.Time   // when its streams ended, refusals left out; owned by live
	first      time.Duration // from the request to the first byte of the first stream
}

// defaultRetry is the reconnection time before the hub has given one.
const defaultRetry = 3 * time.Second

// live keeps the stream open until ctx ends or the client gives up.
func (s *source) live(ctx context.Context) {
	s.retry = defaultRetry
	for first := true; ctx.Err() == nil; first = false {
		if !first {
			s.reconnects.Add(1)
			select {
			case <-time.After(s.retry):
			case <-ctx.Done():
				return
			}
		}
		if why := s.once(ctx); why != "" {
			s.closed.Store(&why)
			return
		}
		s.at = (s.at + 1) % len(s.urls)
	}
}

// once opens a stream and reads it to its end. The answer is why the client must not come back, "" for nothing.
func (s *source) once(ctx context.Context) (why string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.urls[s.at]+"?"+s.query(), http.NoBody)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+s.token)
	asked := s.cursor
	if asked != "" {
		req.Header.Set(spec.HeaderLastEventID, asked)
	}
	begun := time.Now()
	res, err := s.client.Do(req)
	if err != nil {
		return "" // the network: a browser tries again
	}
	defer res.Body.Close()
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); res.StatusCode != http.StatusOK || media != "text/event-stream" {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		return fmt.Sprintf("%s: status %d, %q: %s", s.urls[s.at], res.StatusCode, media, body)
	}
	d := sse.NewDecoder(&firstByte{Reader: res.Body, seen: func() {
		s.openOnce.Do(func() {
			s.first = time.Since(begun)
			close(s.opened)
		})
	}}, 0)
	d.SetLastEventID(asked)
	stream := false // a soft refusal begins without the comment that opens a stream (SUB-28, SUB-41)
	d.OnComment = func(string) { stream = true }
	defer func() {
		if stream {
			s.ends = append(s.ends, time.Now())
		}
	}()
	// A soft refusal says nothing of the cursor: it has no stream.
	if echo := res.Header.Get(spec.HeaderLastEventID); asked != "" && echo != "" && echo != asked {
		s.refused = append(s.refused, asked+" → "+echo)
	}
	for {
		e, err := d.Next()
		if ms, ok := d.Retry(); ok {
			s.retry = time.Duration(ms) * time.Millisecond
		}
		s.cursor = d.LastEventID()
		if err != nil {
			return ""
		}
		s.take(e)
	}
}

// take notes an event.
func (s *source) take(e sse.Event) {
	at := s.run.now()
	seq, last, ok := s.run.parse(e.Data)
	if !ok {
		s.alien++
		return
	}
	s.got = append(s.got, receipt{seq, e.ID, at})
	if last && !s.ended {
		s.ended = true
		close(s.complete)
	}
}

// firstByte calls seen when the first byte has been read.
type firstByte struct {
	io.Reader
	seen func()
}

func (f *firstByte) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if n > 0 && f.seen != nil {
		f.seen()
		f.seen = nil
	}
	return n, err
}

// swarm makes n clients of the hubs at urls, each beginning at another one.
func swarm(r *run, n int, urls []string, token string) []*source {
	// One connection for each stream; those whose stream has ended are used again, as browsers do.
	transport := &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true}
	all := make([]*source, n)
	for i, t := range tastes(n) {
		all[i] = &source{
			taste: t, name: fmt.Sprintf("client %d (%s)", i, strings.Join(t.selectors, " ")),
			urls: urls, at: i % len(urls), token: token, client: &http.Client{Transport: transport}, run: r,
			opened: make(chan struct{}), complete: make(chan struct{}),
		}
	}
	rand.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
	r.idle = append(r.idle, transport.CloseIdleConnections)
	return all
}
