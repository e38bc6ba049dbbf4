package jetstream

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

func benchUpdate(i int) *spec.Update {
	return &spec.Update{Topics: []string{fmt.Sprintf("https://example.com/books/%d", i%1000)}, Data: strings.Repeat("x", 200)}
}

func BenchmarkAppend(b *testing.B) {
	for _, followed := range []bool{false, true} {
		for _, publishers := range []int{1, 64} {
			b.Run(fmt.Sprintf("followed=%v/publishers=%d", followed, publishers), func(b *testing.B) {
				l := open(b, Options{Dir: b.TempDir()})
				if followed {
					if _, err := l.Follow(b.Context(), func(transport.Entry) {}); err != nil {
						b.Fatal(err)
					}
				}
				var n atomic.Int64
				b.ReportAllocs()
				b.ResetTimer()
				if publishers == 1 {
					for i := 0; b.Loop(); i++ {
						if _, err := l.Append(b.Context(), benchUpdate(i)); err != nil {
							b.Fatal(err)
						}
					}
					return
				}
				b.SetParallelism(publishers / 2)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := l.Append(b.Context(), benchUpdate(int(n.Add(1)))); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

func BenchmarkAppendWithPublishersID(b *testing.B) {
	l := open(b, Options{Dir: b.TempDir()})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		u := benchUpdate(i)
		u.ID = fmt.Sprintf("https://example.com/ids/%d", i)
		if _, err := l.Append(b.Context(), u); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkScan reads 9,000 recent entries from the window and 50,000 from the store.
func BenchmarkScan(b *testing.B) {
	const total = 60_000
	l := open(b, Options{Dir: b.TempDir()})
	fillConcurrently(b, l, total)
	for _, entries := range []transport.Position{20, 9_000, total} {
		b.Run(fmt.Sprintf("entries=%d", entries), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for _, err := range l.Scan(b.Context(), total-entries, total, nil) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != int(entries) {
					b.Fatalf("%d entries", n)
				}
			}
		})
	}
}

func fillConcurrently(tb testing.TB, l *Log, total int) {
	tb.Helper()
	errs := make(chan error, 32)
	var next atomic.Int64
	for range cap(errs) {
		go func() {
			for i := next.Add(1); i <= int64(total); i = next.Add(1) {
				if _, err := l.Append(tb.Context(), benchUpdate(int(i))); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			tb.Fatal(err)
		}
	}
}

func BenchmarkLocate(b *testing.B) {
	l := open(b, Options{Dir: b.TempDir()})
	e, err := l.Append(b.Context(), benchUpdate(1))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Locate(b.Context(), e.Update.ID); err != nil {
			b.Fatal(err)
		}
	}
}
