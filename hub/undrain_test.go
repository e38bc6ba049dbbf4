package hub

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport/memory"
)

// crowd is a hub in a synctest bubble with many streams on recorders.
type crowd struct {
	*node
	ctx  context.Context
	mu   sync.Mutex
	ends []time.Time // of the streams that have ended
	all  sync.WaitGroup
}

// inBubble runs a hub without a listener in a synctest bubble.
func inBubble(t *testing.T, change func(*Options), during func(c *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, change)
		n.noHijack = true
		ctx, cancel := context.WithCancel(t.Context())
		run := make(chan error, 1)
		go func() { run <- n.Run(ctx) }()
		synctest.Wait()
		c := &crowd{node: n, ctx: ctx}
		during(c)
		cancel()
		if err := <-run; err != nil {
			t.Error(err)
		}
		c.all.Wait()
		if err := n.log.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// open opens a stream of an EventSource and returns what it is answered.
func (c *crowd) open() *deadlineRecorder {
	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	req := httptest.NewRequestWithContext(c.ctx, http.MethodGet, "/.well-known/mercure?topic=a", nil)
	req.Header.Set("Accept", eventStream)
	c.all.Go(func() {
		c.Handler().ServeHTTP(w, req)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ends = append(c.ends, time.Now())
	})
	return w
}

// endTimes returns when streams have ended, in order.
func (c *crowd) endTimes() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ends)
}

// mostWithin is the largest number of times in any window of that length.
func mostWithin(times []time.Time, window time.Duration) int {
	most := 0
	for i := range times {
		n := 0
		for _, t := range times[i:] {
			if t.Sub(times[i]) <= window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestDrainEndsStreamsEvenly: in any five seconds at most half more than the even share ends, streams that open
// while the node only says that it is about to go included, and those that leave by themselves as well.
//
// Covers: SUB-38, SUB-41.
func TestDrainEndsStreamsEvenly(t *testing.T) {
	const streams, spread, window = 300, 30 * time.Second, 5 * time.Second
	for name, deadline := range map[string]time.Duration{"no deadline": time.Hour, "a deadline that is near": 31 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(o *Options) { o.Retry = 3 * time.Second }, func(c *crowd) {
				var all []*deadlineRecorder
				for range streams - 50 {
					all = append(all, c.open())
				}
				synctest.Wait()
				c.Cordon()
				if c.Ready(c.ctx) == nil {
					t.Error("ready although it is about to go")
				}
				for range 50 {
					time.Sleep(100 * time.Millisecond)
					all = append(all, c.open())
				}
				synctest.Wait()
				if n := len(c.endTimes()); n != 0 {
					t.Fatalf("%d streams ended during the delay", n)
				}
				ctx, cancel := context.WithTimeout(c.ctx, deadline)
				defer cancel()
				start := time.Now()
				if err := c.Drain(ctx, spread); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took > spread || took < spread/2 {
					t.Errorf("the drain took %v", took)
				}
				synctest.Wait()
				ends := c.endTimes()
				bound := 3 * streams * int(window/time.Second) / int(spread/time.Second) / 2
				if most := mostWithin(ends, window); len(ends) != streams || most > bound {
					t.Errorf("%d streams ended, %d of them within %v; want at most %d", len(ends), most, window, bound)
				}
				retries := map[string]bool{}
				for _, w := range all {
					opening, last, ok := strings.Cut(w.text(), "\nretry: ")
					_, last, again := strings.Cut(last, "retry: ")
					if !ok || !again || opening != ":" || !strings.HasSuffix(last, "\n") {
						t.Fatalf("body %q", w.text())
					}
					retries[last] = true
				}
				if len(retries) < streams/3 {
					t.Errorf("only %d different retry fields", len(retries))
				}
			})
		})
	}
}

// TestDrainKeepsItsPace: streams that appear or disappear on the way do not make it uneven.
//
// Covers: SUB-38.
func TestDrainKeepsItsPace(t *testing.T) {
	inBubble(t, func(o *Options) { o.MaxLifetime = 40 * time.Second }, func(c *crowd) {
		for range 200 { // they end by themselves between the 32nd and the 40th second
			c.open()
			time.Sleep(time.Duration(rand.N(100)) * time.Millisecond)
		}
		if err := c.Drain(c.ctx, time.Minute); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		told := c.ended(endDrain)
		if told == 0 || told+c.ended(endLifetime) != 200 {
			t.Errorf("%v streams ended by the drain, %v by themselves", told, c.ended(endLifetime))
		}
	})
}

// Covers: SUB-38, SUB-41.
func TestUndrain(t *testing.T) {
	inBubble(t, func(o *Options) { o.Retry = time.Second }, func(c *crowd) {
		if err := c.Undrain(); err != nil || c.Ready(c.ctx) != nil {
			t.Errorf("undrain of a node in service: %v, %v", err, c.Ready(c.ctx))
		}
		for range 40 {
			c.open()
		}
		synctest.Wait()
		drained := make(chan error, 2)
		for range 2 { // by two operators
			go func() { drained <- c.Drain(c.ctx, time.Minute) }()
		}
		time.Sleep(30*time.Second + time.Millisecond)
		if refused := c.open(); true {
			synctest.Wait()
			if body := refused.text(); !strings.HasPrefix(body, "retry: ") || !c.Draining() {
				t.Errorf("a new stream on a draining node: %q", body)
			}
		}
		if err := c.Undrain(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-drained; !errors.Is(err, ErrUndrained) {
				t.Errorf("the drain under way: %v", err)
			}
		}
		half := len(c.endTimes())
		if half < 15 || half > 40 {
			t.Errorf("%d streams ended in half the time", half)
		}
		if err := c.Ready(c.ctx); err != nil || c.Draining() {
			t.Errorf("not ready after undrain: %v", err)
		}
		fresh := c.open()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := len(c.endTimes()); got != half || !strings.HasPrefix(fresh.text(), ":\n") {
			t.Errorf("%d streams have ended since, the new one has %q", got-half, fresh.text())
		}

		if err := c.Drain(c.ctx, 0); err != nil {
			t.Errorf("the second drain: %v", err)
		}
		synctest.Wait()
		if got := len(c.endTimes()); got != 42 {
			t.Errorf("%d streams have ended, want all 42", got)
		}
		if err := c.Undrain(); err != nil || c.Ready(c.ctx) != nil {
			t.Errorf("undrain after a drain: %v, %v", err, c.Ready(c.ctx))
		}
	})
}

// A shutdown is not taken back: not when an operator's drain led to it, and not half way.
//
// Covers: SUB-38.
func TestUndrainIsTooLateForAShutdown(t *testing.T) {
	inBubble(t, nil, func(c *crowd) {
		for range 10 {
			c.open()
		}
		synctest.Wait()
		drained := make(chan error, 1)
		go func() { drained <- c.Drain(c.ctx, time.Minute) }()
		time.Sleep(10 * time.Second)
		c.SetNotReady()
		if err := c.Undrain(); !errors.Is(err, ErrShuttingDown) {
			t.Errorf("undrain during a shutdown: %v", err)
		}
		if err := <-drained; err != nil || c.Ready(c.ctx) == nil || !c.Draining() {
			t.Errorf("the drain: %v; ready: %v", err, c.Ready(c.ctx) == nil)
		}
		if err := c.Undrain(); !errors.Is(err, ErrShuttingDown) {
			t.Errorf("undrain after a shutdown: %v", err)
		}
	})
	n := newNode(t, nil)
	n.run()
	n.stop()
	if err := n.Undrain(); !errors.Is(err, ErrShuttingDown) {
		t.Errorf("undrain after the end: %v", err)
	}
}

// TestStreamsThatOpenWhileADrainBegins: the handler has let them in before, so that the drain's list lacks them.
//
// Covers: SUB-38.
func TestStreamsThatOpenWhileADrainBegins(t *testing.T) {
	for _, spread := range []time.Duration{0, time.Minute} {
		t.Run(spread.String(), func(t *testing.T) {
			var gate chan struct{}
			inBubble(t, func(o *Options) {
				gate = make(chan struct{}) // of the bubble
				inner, err := memory.New(memory.Options{})
				if err != nil {
					t.Fatal(err)
				}
				o.Transport = &faultyLog{Transport: inner, onLocate: func() error { <-gate; return nil }}
			}, func(c *crowd) {
				for range 20 {
					c.open()
				}
				req := httptest.NewRequestWithContext(c.ctx, http.MethodGet, "/.well-known/mercure?topic=a&lastEventID=x", nil)
				w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
				c.all.Go(func() { c.Handler().ServeHTTP(w, req) })
				synctest.Wait()
				drained := make(chan error, 1)
				go func() { drained <- c.Drain(c.ctx, spread) }()
				time.Sleep(spread + time.Second)
				synctest.Wait()
				select {
				case err := <-drained:
					t.Fatalf("drained beside a stream that is being opened: %v", err)
				default:
				}
				close(gate)
				if err := <-drained; err != nil {
					t.Error(err)
				}
				synctest.Wait() // it is counted after it has left
				if got := c.ended(endDrain); got != 21 {
					t.Errorf("%v streams ended by the drain", got)
				}
			})
		})
	}
}
