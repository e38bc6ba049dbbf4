package load

import (
	"bufio"
	"context"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestHistogramIsCloseAndNeverLow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		ns := int64(math.Exp2(r.Float64() * 45))
		top := topOf(stepOf(ns))
		if top < ns || float64(top-ns) > float64(ns)/64 {
			t.Fatalf("%d is in the step up to %d", ns, top)
		}
	}
	var h, other histogram
	if h.summary() != nil || h.quantile(.5) != 0 {
		t.Error("an empty histogram says something")
	}
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Millisecond)
	}
	other.add(-time.Second)
	other.add(10 * time.Hour)
	h.merge(&other)
	for q, want := range map[float64]float64{0: 0, .5: 500, .99: 990, 1: 36_000_000} {
		if got := ms(h.quantile(q)); got < want || got > want*1.016 && q < 1 {
			t.Errorf("quantile %v is %v ms, want %v", q, got, want)
		}
	}
}

// TestALaneTellsLateFromAgain compares with a map.
func TestALaneTellsLateFromAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var l lane
	seen := map[int64]bool{}
	highest := int64(-1)
	for range 200_000 {
		n := max(0, highest-laneSpan+2+r.Int64N(laneSpan+40))
		if r.IntN(1000) == 0 {
			n += 5 * laneSpan
		}
		want := fresh
		switch {
		case seen[n]:
			want = again
		case n < highest:
			want = late
		}
		if got := l.see(n); got != want {
			t.Fatalf("number %d after %d: %d, want %d", n, highest, got, want)
		}
		seen[n] = true
		highest = max(highest, n)
	}
	if l.got != int64(len(seen)) {
		t.Errorf("got %d, want %d", l.got, len(seen))
	}
	if l.see(highest-laneSpan) != again {
		t.Error("what is too old to tell does not count as a repetition")
	}
}

func TestMarksAreReadBack(t *testing.T) {
	for _, m := range []mark{{}, {run: math.MaxUint32, phase: measured, publisher: maxPublishers, topic: maxTopics, sequence: 1e12, sent: 1e15}} {
		data := string(m.append(nil, minSize))
		if got, ok := parseMark(data); !ok || got != m {
			t.Errorf("%q gives %+v, %v", data, got, ok)
		}
		if len(data) > minSize+1 || len(data) < minSize {
			t.Errorf("%q has %d bytes", data, len(data))
		}
		if len(m.append(nil, 500)) != 500 {
			t.Error("not filled up")
		}
	}
	for _, data := range []string{"", "cb-", "cb-1-2-3", "cb-1-2-3-4-5-6", "cb-1-2-x-4-5-6-", "cb--1-2-3-4-5-6-", "xx-1-2-3-4-5-6-", "cb-1-2-3-4-5-9999999999999999999-"} {
		if m, ok := parseMark(data); ok {
			t.Errorf("%q gives %+v", data, m)
		}
	}
}

// TestTheFramingOfChunksComesOff reads in pieces of every size.
func TestTheFramingOfChunksComesOff(t *testing.T) {
	const wire = "5\r\nhello\r\n1;x=y\r\n \r\nA \r\n0123456789\r\n00\r\nTrailer: x\r\n\r\n"
	const want = "hello 0123456789"
	for size := 1; size <= len(wire); size++ {
		for head := range len(wire) + 1 {
			a, b := net.Pipe()
			var writer sync.WaitGroup
			writer.Go(func() {
				_, _ = io.WriteString(b, wire[head:])
				_ = b.Close()
			})
			s := &body{conn: a, rest: []byte(wire[:head]), chunked: true}
			got, err := io.ReadAll(bufio.NewReaderSize(iotestReader{s, size}, size))
			_ = a.Close()
			writer.Wait()
			if err != nil || string(got) != want {
				t.Fatalf("in pieces of %d, %d with the head: %q, %v", size, head, got, err)
			}
		}
	}
	for _, wire := range []string{"zz\r\nabc", "fffffffffffffffffff\r\nabc"} {
		got, err := io.ReadAll(&body{rest: []byte(wire), chunked: true, conn: nil})
		if err != nil || len(got) > 0 {
			t.Errorf("%q gives %q, %v", wire, got, err)
		}
	}
}

// iotestReader reads at most size bytes at a time.
type iotestReader struct {
	r    io.Reader
	size int
}

func (r iotestReader) Read(p []byte) (int, error) { return r.r.Read(p[:min(len(p), r.size)]) }

func TestHeadsAreReadInAnyPieces(t *testing.T) {
	const wire = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\nrest"
	for cut := range len(wire) {
		a, b := net.Pipe()
		var writer sync.WaitGroup
		writer.Go(func() {
			_, _ = io.WriteString(b, wire[:cut])
			_, _ = io.WriteString(b, wire[cut:])
			_ = b.Close()
		})
		h, rest, err := readHead(a)
		if err != nil || h.status != 200 || !h.chunked || string(rest) != "rest"[:len(rest)] {
			t.Fatalf("cut at %d: %+v, %q, %v", cut, h, rest, err)
		}
		_ = a.Close()
		writer.Wait()
	}
	for name, wire := range map[string]string{"none": "", "half": "HTTP/1.1 200 OK\r\n", "nonsense": "hello\r\n\r\n", "endless": strings.Repeat("x", maxHead+10)} {
		a, b := net.Pipe()
		var writer sync.WaitGroup
		writer.Go(func() {
			_, _ = io.WriteString(b, wire)
			_ = b.Close()
		})
		if h, _, err := readHead(a); err == nil {
			t.Errorf("%s: %+v", name, h)
		}
		_ = a.Close()
		writer.Wait()
	}
}

func TestTheLedgerHoldsPublishersBack(t *testing.T) {
	l := newLedger()
	ctx := t.Context()
	const publishers, rounds, limit = 4, 500, 6
	var working sync.WaitGroup
	for range publishers {
		working.Go(func() {
			for range rounds {
				if !l.admit(ctx, 2, limit, time.Hour) {
					t.Error("not admitted")
				}
				if owed := l.due.Load() - l.arrived.Load(); owed > limit+1 {
					t.Errorf("%d outstanding", owed)
				}
				for range 2 {
					l.arrive()
				}
			}
		})
	}
	working.Wait()
	if !l.settle(ctx, time.Hour) || l.stalls.Load() != 0 {
		t.Errorf("not settled, %d stalls", l.stalls.Load())
	}
}

func TestTheLedgerGivesUpWhatIsLost(t *testing.T) {
	l := newLedger()
	for range 3 {
		if !l.admit(t.Context(), 1, 1, time.Millisecond) { // each waits for the one before, which never comes
			t.Fatal("not admitted")
		}
	}
	if l.stalls.Load() != 2 || l.settle(t.Context(), time.Millisecond) {
		t.Errorf("%d stalls", l.stalls.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	due := l.due.Load()
	if l.admit(ctx, 1, 0, time.Hour) || l.due.Load() != due {
		t.Error("what will not be published is due")
	}
	if l.admit(ctx, 1, 1, time.Hour) || l.settle(ctx, time.Hour) {
		t.Error("the end of the context does not end the wait")
	}
	l.withdraw(1)
	l.arrive()
	l.arrive()
	if !l.settle(t.Context(), time.Hour) {
		t.Error("withdrawn, and still waited for")
	}
}

func TestSamplesAreFound(t *testing.T) {
	const text = "# HELP a_total x\na_total_other 1\na_total 12.5\nb{x=\"y\"} 3\nc nonsense\n"
	if v, err := sample(text, "a_total"); v != 12.5 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	for _, name := range []string{"b", "c", "d"} {
		if v, err := sample(text, name); err == nil {
			t.Errorf("%s is %v", name, v)
		}
	}
}

func TestThousands(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.4: "1,234,567", -1000: "-1,000", -12: "-12"} {
		if got := thousands(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

func TestSourcesAreManyOnTheLoopbackOnly(t *testing.T) {
	for _, tt := range []struct {
		url   string
		n     int
		given []netip.Addr
		want  int
	}{
		{"http://127.0.0.1:3000/", sourcePorts, nil, 0},
		{"http://127.0.0.1:3000/", sourcePorts + 1, nil, 2},
		{"http://localhost/", 3 * sourcePorts, nil, 3},
		{"http://127.0.0.1/", 3 * sourcePorts, []netip.Addr{netip.MustParseAddr("127.0.0.9")}, 1},
		{"https://hub.example/", 3 * sourcePorts, nil, 0},
		{"http://[::1]:3000/", 3 * sourcePorts, nil, 0},
	} {
		r, err := newRun("idle", Target{URL: tt.url, Sources: tt.given})
		if err != nil {
			t.Fatal(err)
		}
		want := tt.want
		if runtime.GOOS != "linux" {
			want = len(tt.given)
		}
		all := r.sources(tt.n)
		if len(all) != want {
			t.Errorf("%s, %d subscribers: %v", tt.url, tt.n, all)
		}
		for _, a := range all {
			if !a.IsLoopback() {
				t.Errorf("%s: %v", tt.url, a)
			}
		}
	}
}

func TestTheLimitOfFilesIsExplained(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no such limit")
	}
	if err := needFiles(1 << 40); err == nil || !strings.Contains(err.Error(), "ulimit") {
		t.Errorf("%v", err)
	}
	if err := needFiles(1); err != nil {
		t.Error(err)
	}
}
