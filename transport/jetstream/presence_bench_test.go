package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

func attendFor(t testing.TB, l *Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := l.Attend(ctx, func(transport.Presence) []*spec.Update { return nil }, func() { t.Error("lost") }); err != nil {
		t.Fatal(err)
	}
}

func somebody(i int) transport.Presence {
	return transport.Presence{
		Subscriber: fmt.Sprintf("urn:uuid:00000000-0000-4000-8000-%012d", i), Subject: fmt.Sprintf("user-%d", i),
		Selectors: []topic.Selector{{Kind: topic.Classic, Pattern: fmt.Sprintf("https://example.com/users/%d/{?filter}", i)}},
		Payload:   json.RawMessage(`{"name":"Somebody Somewhere","color":"blue"}`), Since: time.Unix(1_700_000_000, int64(i)),
	}
}

// storm enters n at once, and returns how long it took.
func storm(t testing.TB, l *Log, n int) time.Duration {
	t.Helper()
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	began := time.Now()
	if err := together(numbers, 500, func(i int) error { return l.Enter(t.Context(), somebody(i)) }); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkList lists 30,000 connections with one subscription each.
func BenchmarkList(b *testing.B) {
	const n = 30_000
	for _, c := range []struct {
		name string
		open func(b *testing.B) (enters, lists *Log)
	}{
		{"standalone", func(b *testing.B) (enters, lists *Log) {
			b.Helper()
			l := open(b, Options{Dir: b.TempDir()})
			attendFor(b, l)
			return l, l
		}},
		{"three-replicas-other-node", func(b *testing.B) (enters, lists *Log) {
			b.Helper()
			s := newServers(b, 3)
			enters = openExternal(b, s, Options{Node: "enters"})
			lists = openExternal(b, s, Options{Node: "lists"})
			attendFor(b, enters)
			attendFor(b, lists)
			return enters, lists
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			enters, lists := c.open(b)
			entered := storm(b, enters, n)
			began := time.Now()
			if list, err := lists.List(b.Context()); err != nil || len(list) != n {
				b.Fatalf("listed %d, %v", len(list), err)
			}
			first := time.Since(began)
			for b.Loop() {
				if list, err := lists.List(b.Context()); err != nil || len(list) != n {
					b.Fatalf("listed %d, %v", len(list), err)
				}
			}
			b.ReportMetric(n/entered.Seconds(), "enters/s")
			b.ReportMetric(float64(first.Milliseconds()), "first-ms")
			full := heap()
			lists.attendance.directory.mirror.forgetAll()
			b.ReportMetric(float64(full-heap())/n, "mirror-B/entry")
		})
	}
}

// forgetAll empties the mirror.
func (m *mirror) forgetAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.terms = map[string]*termView{}
}
