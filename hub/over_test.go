package hub

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// lateness is what a busy machine is forgiven when an end is observed from another goroutine. A stream that outlives its
// token does so for longer, in each of these tests.
const lateness = 10 * time.Second

// endedBy requires that a stream ends for this reason by the time given.
func (n *node) endedBy(t *testing.T, at time.Time, why endReason) {
	t.Helper()
	eventually(t, "ended: "+why.String(), func() bool { return n.ended(why) == 1 })
	if late := time.Since(at); late > lateness {
		t.Errorf("ended %v late", late)
	}
}

// A client that reads as fast as updates come always has some waiting: it must not outlive its token.
//
// Covers: SUB-32, SUB-33.
func TestExpiryWhileUpdatesWait(t *testing.T) {
	for name, hijack := range map[string]bool{"shard": true, "handler": false} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, nil)
			n.noHijack = !hijack
			exp := time.Now().Add(1500 * time.Millisecond)
			conn, br, _ := n.rawStream("HTTP/1.0", "topic=a", 64<<10, "X-Expires", exp.Format(time.RFC3339Nano))
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.Copy(io.Discard, &slowReader{r: br, rate: 200 << 10})
			}()
			for range 150 { // a head start of 600 KB, then about as much as is read
				n.publish("topic", "a", "data", strings.Repeat("x", 4<<10))
			}
			for time.Since(exp) < lateness && n.ended(endExpired) == 0 {
				n.publish("topic", "a", "data", strings.Repeat("x", 4<<10))
				time.Sleep(15 * time.Millisecond)
			}
			n.endedBy(t, exp, endExpired)
			_ = conn.Close()
			<-done
		})
	}
}

// Covers: SUB-32, SUB-34.
func TestExpiryAfterAShortWrite(t *testing.T) {
	n := startNode(t, func(o *Options) { o.WriteTimeout = time.Minute; o.SubscriberBuffer = 4 << 20 })
	exp := time.Now().Add(1500 * time.Millisecond)
	_, br, _ := n.rawStream("HTTP/1.0", "topic=a", 512<<10, "X-Expires", exp.Format(time.RFC3339Nano))
	n.publish("topic", "a", "data", strings.Repeat("x", 900<<10))
	if got, err := io.Copy(io.Discard, br); err != nil || got < 900<<10 {
		t.Errorf("%d bytes, %v", got, err)
	}
	n.endedBy(t, exp, endExpired)
}

// Covers: SUB-32, REC-07.
func TestExpiryDuringCatchUp(t *testing.T) {
	n := startNode(t, nil)
	for range 60 {
		n.publish("topic", "a", "data", strings.Repeat("x", 60<<10))
	}
	exp := time.Now().Add(time.Second)
	conn, br, _ := n.rawStream("HTTP/1.0", "topic=a&lastEventID=earliest", 64<<10, "X-Expires", exp.Format(time.RFC3339Nano))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, &slowReader{r: br, rate: 200 << 10})
	}()
	n.endedBy(t, exp, endExpired)
	_ = conn.Close()
	<-done
}

// A stream that began with `earliest` is told of no gap later on: it ends where one is.
//
// Covers: SUB-36, REC-12.
func TestNoSilentGapAfterEarliest(t *testing.T) {
	n := startNode(t, func(o *Options) {
		o.Transport = boundedLog(t, 3)
		o.SubscriberBuffer = 1
		o.WriteTimeout = time.Minute
	})
	_, br, _ := n.rawStream("HTTP/1.0", "topic=a&lastEventID=earliest", 64<<10)
	for i := range 30 {
		n.publish("topic", "a", "id", strconv.Itoa(i), "data", strings.Repeat("x", 200<<10))
	}
	dec := sse.NewDecoder(br, 1<<20)
	for i := 0; ; i++ {
		e, err := dec.Next()
		if err != nil {
			break
		}
		if e.ID != strconv.Itoa(i) {
			t.Fatalf("event %s after %d", e.ID, i-1)
		}
	}
	eventually(t, "ended as trimmed", func() bool { return n.ended(endTrimmed) == 1 })
}

// A subscriber whose topic was quiet for long falls behind: what it has not missed is not looked for.
//
// Covers: SUB-36, REC-15.
func TestQuietSubscriberFallsBehind(t *testing.T) {
	n := startNode(t, func(o *Options) {
		o.Transport = boundedLog(t, 60)
		o.SubscriberBuffer = 64 << 10
		o.WriteTimeout = time.Minute
	})
	_, br, _ := n.rawStream("HTTP/1.0", "topic=a", 64<<10)
	dec := sse.NewDecoder(br, 1<<20)
	n.publish("topic", "a", "id", "first", "data", strings.Repeat("x", 900<<10)) // fills the socket
	if _, err := br.Peek(400); err != nil {                                      // it is on its way before the log forgets it
		t.Fatal(err)
	}
	for range 200 {
		n.publish("topic", "other", "data", "x")
	}
	for i := range 30 { // all of them retained
		n.publish("topic", "a", "id", strconv.Itoa(i), "data", strings.Repeat("x", 10<<10))
	}
	eventually(t, "behind", func() bool { return testutil.ToFloat64(n.metrics.Lagged) > 0 })
	want := []string{"first"}
	for i := range 30 {
		want = append(want, strconv.Itoa(i))
	}
	for _, w := range want {
		if e, err := dec.Next(); err != nil || e.ID != w {
			t.Fatalf("%q, %v; want %q", e.ID, err, w)
		}
	}
}

// An answer must not wait for the rest of a body that never comes, whatever is refused.
//
// Covers: PUB-28, LIM-01, LIM-12.
func TestBodyThatNeverComes(t *testing.T) {
	n := startNode(t, nil)
	n.bodyTimeout = 200 * time.Millisecond
	for name, head := range map[string]string{
		"wrong media type": "POST /.well-known/mercure HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n",
		"unknown path":     "POST /nothing HTTP/1.1\r\nHost: x\r\n",
		"a publication":    "POST /.well-known/mercure HTTP/1.1\r\nHost: x\r\nContent-Type: " + formType + "\r\n",
		"a query":          "QUERY /.well-known/mercure?match=a HTTP/1.1\r\nHost: x\r\nContent-Type: " + formType + "\r\n",
		"a query of text":  "QUERY /.well-known/mercure?match=a HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn := n.dial()
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			fmt.Fprint(conn, head+"Content-Length: 1000\r\n\r\n")
			answer, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 4") {
				t.Errorf("%q, %v", answer, err)
			}
		})
	}
}

// A client that is slow but makes progress does not hold up the end of the hub.
//
// Covers: SUB-38.
func TestRunEndsDespiteASlowClient(t *testing.T) {
	for name, buffer := range map[string]int{"in a shard": 4 << 20, "catching up": 1} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, func(o *Options) { o.WriteTimeout = time.Minute; o.SubscriberBuffer = buffer })
			conn, br, _ := n.rawStream("HTTP/1.0", "topic=a", 64<<10)
			for range 4 {
				n.publish("topic", "a", "data", strings.Repeat("x", 900<<10))
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.Copy(io.Discard, &slowReader{r: br, rate: 64 << 10})
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if err := n.Drain(ctx, 0); err == nil {
				t.Error("drained although the client is slow")
			}
			start := time.Now()
			n.stop()
			if took := time.Since(start); took > stopPatience+20*time.Second {
				t.Errorf("run took %v to end", took)
			}
			_ = conn.Close()
			<-done
		})
	}
}

// A jump of the wall clock must not end streams by their lifetime or time-outs: those times carry a monotonic
// reading. A token's exp is a date, so it follows the wall clock wherever that goes.
//
// Covers: SUB-31, SUB-33.
func TestClockJumps(t *testing.T) {
	monotonic := func(at time.Time) bool { return strings.Contains(at.String(), " m=") }
	n := newNode(t, func(o *Options) { o.MaxLifetime = time.Hour })
	if at, why := n.lifetime(time.Time{}); why != endLifetime || !monotonic(at) {
		t.Errorf("a lifetime ends at %v", at)
	}
	if at, why := n.lifetime(time.Unix(time.Now().Unix()+60, 0)); why != endExpired || monotonic(at) {
		t.Errorf("a token ends at %v", at)
	}
	s := &subscriber{hub: n.Hub, grant: &auth.Grant{}, lastSent: time.Now()}
	n.o.Heartbeat = time.Second
	if !monotonic(s.nextDue()) || !monotonic(s.cut(time.Now())) {
		t.Error("a time-out follows the wall clock")
	}
}

// memorySink keeps what it is sent.
type memorySink struct{ got []byte }

func (k *memorySink) send(b []byte, _ int) error { k.got = append(k.got, b...); return nil }
func (*memorySink) chunked() bool                { return false }
func (*memorySink) batch() int                   { return batchBytes }
func (*memorySink) close([]byte)                 {}
func (*memorySink) abort()                       {}

// What waits in the queue when a token expires is not for its holder any more; a node that shuts down still
// hands out what it has.
//
// Covers: SUB-33, SUB-38, SEC-04.
func TestWhatWaitsAtTheEnd(t *testing.T) {
	for why, delivered := range map[endReason]bool{endExpired: false, endLifetime: false, endDrain: true} {
		t.Run(why.String(), func(t *testing.T) {
			k := &memorySink{}
			s := &subscriber{hub: newNode(t, nil).Hub, grant: &auth.Grant{}, sink: k, wake: make(chan struct{}, 1)}
			s.offer(newFrame(transport.Entry{Pos: 1, Update: &spec.Update{Topics: []string{"a"}, ID: "e1", Data: "x"}}))
			s.end(why)
			if got, lagged := s.live(newWriter(s)); got != why || lagged {
				t.Errorf("ended as %v, lagged %v", got, lagged)
			}
			if got := len(k.got) > 0; got != delivered {
				t.Errorf("delivered %q", k.got)
			}
		})
	}
}
