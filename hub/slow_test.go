package hub

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// eventually waits for what happens on another goroutine and leaves no other trace.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func (n *node) ended(why endReason) float64 {
	return testutil.ToFloat64(n.metrics.SubscribersEnded.WithLabelValues(why.String()))
}

// Covers: SUB-35, SUB-36, LIM-11.
func TestClientThatNeverReads(t *testing.T) {
	for name, hijack := range map[string]bool{"shard": true, "handler": false} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, func(o *Options) { o.WriteTimeout = 300 * time.Millisecond; o.SubscriberBuffer = 64 << 10 })
			n.noHijack = !hijack
			n.rawStream("HTTP/1.1", "topic=a", 4<<10)
			healthy := n.subscribe("topic=a")
			blob := strings.Repeat("x", 100<<10)
			for i := range 60 { // more than the kernel buffers of both ends hold
				n.publish("topic", "a", "data", strconv.Itoa(i)+blob)
				healthy.want(strconv.Itoa(i) + blob)
			}
			eventually(t, "the reader that does not read is cut", func() bool { return n.ended(endStalled) == 1 })
			n.publish("topic", "a", "data", "still")
			healthy.want("still")
		})
	}
}

// Covers: SUB-35.
func TestClientThatReadsAByteAtATime(t *testing.T) {
	n := startNode(t, func(o *Options) { o.WriteTimeout = 200 * time.Millisecond })
	conn, _, _ := n.rawStream("HTTP/1.1", "topic=a", 4<<10)
	done := make(chan struct{})
	go func() { // takes a byte every 50 ms until it is cut
		defer close(done)
		b := make([]byte, 1)
		for {
			if _, err := conn.Read(b); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	for range 40 {
		n.publish("topic", "a", "data", strings.Repeat("x", 200<<10))
	}
	eventually(t, "cut", func() bool { return n.ended(endStalled) == 1 })
	_ = conn.Close()
	<-done
}

// TestSlowClientIsServed reads far slower than updates come, but makes progress: it gets everything.
//
// Covers: SUB-35, SUB-36.
func TestSlowClientIsServed(t *testing.T) {
	n := startNode(t, func(o *Options) { o.WriteTimeout = 3 * time.Second; o.SubscriberBuffer = 128 << 10 })
	conn, br, _ := n.rawStream("HTTP/1.0", "topic=a", 96<<10)
	const updates, size = 20, 60 << 10
	for i := range updates {
		n.publish("topic", "a", "id", strconv.Itoa(i), "data", strings.Repeat("x", size))
	}
	dec := sse.NewDecoder(&slowReader{r: br, rate: 512 << 10}, 1<<20)
	for i := range updates {
		e, err := dec.Next()
		if err != nil || e.ID != strconv.Itoa(i) || len(e.Data) != size {
			t.Fatalf("event %d: id %q, %d bytes, %v; stalled: %v", i, e.ID, len(e.Data), err, n.ended(endStalled))
		}
	}
	if testutil.ToFloat64(n.metrics.Lagged) == 0 {
		t.Error("the client never fell behind")
	}
	_ = conn.Close()
}

// slowReader hands out about rate bytes a second.
type slowReader struct {
	r    io.Reader
	rate int
}

func (s *slowReader) Read(p []byte) (int, error) {
	const step = 20 * time.Millisecond
	p = p[:min(len(p), s.rate/int(time.Second/step))]
	time.Sleep(step * time.Duration(len(p)) / time.Duration(s.rate/int(time.Second/step)))
	return s.r.Read(p)
}

// Covers: SUB-36.
func TestOneFrameIsAlwaysAdmitted(t *testing.T) {
	n := startNode(t, func(o *Options) { o.SubscriberBuffer = 100 })
	s := n.subscribe("topic=a")
	big := strings.Repeat("x", 900<<10)
	n.publish("topic", "a", "data", big)
	s.want(big)
	n.publish("topic", "a", "data", "after")
	s.want("after")
}

// Covers: SUB-36, REC-12.
func TestPositionTrimmedWhileLagging(t *testing.T) {
	n := startNode(t, func(o *Options) {
		o.Transport = boundedLog(t, 3)
		o.SubscriberBuffer = 1
		o.WriteTimeout = time.Minute
	})
	conn, br, _ := n.rawStream("HTTP/1.0", "topic=a", 64<<10)
	for i := range 30 {
		n.publish("topic", "a", "id", strconv.Itoa(i), "data", strings.Repeat("x", 200<<10))
	}
	// Reading on, the client finds a clean end of the body where the gap is.
	if _, err := io.Copy(io.Discard, br); err != nil {
		t.Errorf("the stream did not end cleanly: %v", err)
	}
	eventually(t, "ended as trimmed", func() bool { return n.ended(endTrimmed) == 1 })
	_ = conn.Close()
}
