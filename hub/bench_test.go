package hub

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// Every benchmark has its baseline beside it: what a hub without the structure in question would do.
// Names have the form key=value, so that benchstat can put the variants side by side, for example
//
//	go test -run - -bench Index -count 10 ./hub | tee new && benchstat -col /by new

// BenchmarkFrame encodes one update for 1,000 subscribers: once for all, or for each of them.
func BenchmarkFrame(b *testing.B) {
	const subscribers = 1000
	for _, size := range []int{100, 1 << 10, 64 << 10} {
		u := &spec.Update{Topics: []string{"https://example.com/books/1"}, ID: "urn:uuid:0189d8f6-0000-8000-8000-000000000000", Data: strings.Repeat("x", size)}
		e := transport.Entry{Pos: 1, Update: u}
		b.Run(fmt.Sprintf("bytes=%d/by=frame", size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(newFrame(e).size()))
			for b.Loop() {
				newFrame(e)
			}
		})
		b.Run(fmt.Sprintf("bytes=%d/by=subscriber", size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(newFrame(e).size()))
			for b.Loop() {
				for range subscribers {
					sse.AppendEvent(nil, sse.Event{ID: u.ID, Type: u.Type, Data: u.Data, Retry: u.Retry})
				}
			}
		})
	}
}

// benchPattern is the i-th of a crowd's selectors, all different.
func benchPattern(kind string, i int) string {
	if kind == "template" {
		return "https://example.com/users/" + strconv.Itoa(i) + "/books/{id}"
	}
	return "https://example.com/users/" + strconv.Itoa(i) + "/books/1"
}

// BenchmarkIndex finds the one subscriber that is interested, by the index and by asking everybody.
func BenchmarkIndex(b *testing.B) {
	for _, kind := range []string{"exact", "template"} {
		for _, n := range []int{10, 1000, 100_000} {
			x := newIndex()
			crowd := make([]*subscriber, n)
			for i := range crowd {
				crowd[i] = watcher(b, benchPattern(kind, i))
				x.add(crowd[i])
			}
			topics := []string{benchPattern("exact", n/2)}
			b.Run(fmt.Sprintf("kind=%s/subs=%d/by=index", kind, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					found := 0
					x.match(topics, func(w *watchers) { found += len(w.refs) })
					if found != 1 {
						b.Fatalf("%d subscribers are found, want 1", found)
					}
				}
			})
			b.Run(fmt.Sprintf("kind=%s/subs=%d/by=scan", kind, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					found := 0
					for _, s := range crowd {
						for _, m := range s.matchers {
							if m.Match(topics[0]) {
								found++
							}
						}
					}
					if found != 1 {
						b.Fatalf("%d subscribers are found, want 1", found)
					}
				}
			})
		}
	}
}

// BenchmarkIndexOfURLPatterns looks up topics that were never seen before among distinct URL patterns, of which one
// matches: the cost must not grow with those that begin otherwise. The baseline asks every pattern.
func BenchmarkIndexOfURLPatterns(b *testing.B) {
	for _, n := range []int{50, 5000} {
		x, compiled := newIndex(), testCompiler()
		for i := range n {
			x.add(watcherOf(b, compiled.Compile, topic.Selector{Kind: topic.URLPattern, Pattern: "https://example.com/users/" + strconv.Itoa(i) + "/books/:id"}))
		}
		unseen := 0
		next := func() string {
			unseen++
			return "https://example.com/users/7/books/" + strconv.Itoa(unseen)
		}
		b.Run(fmt.Sprintf("patterns=%d/by=index", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				found := 0
				x.match([]string{next()}, func(w *watchers) { found += len(w.refs) })
				if found != 1 {
					b.Fatalf("%d subscribers are found, want 1", found)
				}
			}
		})
		b.Run(fmt.Sprintf("patterns=%d/by=scan", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				found, t := 0, next()
				for _, w := range x.known {
					if w.matcher.Match(t) {
						found++
					}
				}
				if found != 1 {
					b.Fatalf("%d subscribers are found, want 1", found)
				}
			}
		})
	}
}

// BenchmarkIndexChurn lets one subscriber come and go among many.
func BenchmarkIndexChurn(b *testing.B) {
	for _, kind := range []string{"exact", "template"} {
		for _, n := range []int{10, 1000, 100_000} {
			x := newIndex()
			for i := range n {
				x.add(watcher(b, benchPattern(kind, i)))
			}
			s := watcher(b, benchPattern(kind, n), benchPattern(kind, n/2))
			b.Run(fmt.Sprintf("kind=%s/subs=%d", kind, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					x.add(s)
					x.remove(s)
				}
			})
		}
	}
}

// BenchmarkFanOut delivers one update of 1 kB to everybody and empties their queues, without sockets. Its
// baseline matches and encodes for each subscriber.
func BenchmarkFanOut(b *testing.B) {
	u := &spec.Update{Topics: []string{"https://example.com/books/1"}, ID: "urn:uuid:0189d8f6-0000-8000-8000-000000000000", Data: strings.Repeat("x", 1<<10)}
	for _, subs := range []int{1, 1000, 10_000} {
		n := newNode(b, nil)
		crowd := make([]*subscriber, subs)
		for i := range crowd {
			crowd[i] = n.listener(nil, "https://example.com/books/{id}")
		}
		b.Run(fmt.Sprintf("subs=%d/by=frame", subs), func(b *testing.B) {
			b.ReportAllocs()
			frames := make([]*frame, 0, 1)
			pos := n.fanout.head // a second run goes on
			for b.Loop() {
				pos++
				n.fanout.deliver(transport.Entry{Pos: pos, Update: u})
				sink := 0
				for _, s := range crowd {
					s.listen()
					frames, _ = s.take(frames[:0], batchBytes)
					for _, f := range frames {
						sink += len(f.wire(true))
					}
				}
				if sink < subs<<10 {
					b.Fatalf("%d bytes reached %d subscribers", sink, subs)
				}
			}
		})
		b.Run(fmt.Sprintf("subs=%d/by=subscriber", subs), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink := 0
				for _, s := range crowd {
					if s.selects(u) {
						sink += len(sse.AppendEvent(nil, sse.Event{ID: u.ID, Data: u.Data}))
					}
				}
				if sink < subs<<10 {
					b.Fatalf("%d bytes reached %d subscribers", sink, subs)
				}
			}
		})
	}
}

// BenchmarkPublish answers a publication of 200 bytes, without a socket: what the hub adds to net/http.
func BenchmarkPublish(b *testing.B) {
	n := newNode(b, nil)
	n.run()
	form := "topic=https%3A%2F%2Fexample.com%2Fbooks%2F1&data=" + strings.Repeat("x", 200)
	body := strings.NewReader(form)
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, spec.DefaultHubPath, io.NopCloser(body))
	r.ContentLength = int64(len(form))
	r.Header.Set("Content-Type", spec.MediaTypeForm)
	w := &discard{head: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		body.Reset(form)
		clear(w.head)
		w.status = 0
		n.Handler().ServeHTTP(w, r)
		if w.status > 0 {
			b.Fatalf("answered %d", w.status)
		}
	}
}

// discard is a ResponseWriter that keeps only the head; status is 0 for 200.
type discard struct {
	head   http.Header
	status int
}

func (d *discard) Header() http.Header               { return d.head }
func (d *discard) WriteHeader(status int)            { d.status = status }
func (d *discard) Write(b []byte) (int, error)       { return len(b), nil }
func (d *discard) WriteString(s string) (int, error) { return len(s), nil }
func (d *discard) SetReadDeadline(_ time.Time) error { return nil }

// BenchmarkCatchUp has one of many streams read the 20 updates of 200 bytes that all of them missed.
func BenchmarkCatchUp(b *testing.B) {
	n := newNode(b, nil)
	n.run()
	for range 20 {
		u := &spec.Update{Topics: []string{"https://example.com/books/1"}, Data: strings.Repeat("x", 200)}
		if _, err := n.log.Append(b.Context(), u); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		s := n.listener(nil, "https://example.com/books/1")
		k := &nowhere{}
		s.sink = k
		out := newWriter(s)
		if why := s.catchUp(b.Context(), out, 20); why != endNone || k.bytes < 20*200 {
			b.Fatalf("%d bytes were written, then %v", k.bytes, why)
		}
		out.release()
		n.fanout.leave(s)
	}
}

// nowhere is a sink that counts.
type nowhere struct{ bytes int }

func (k *nowhere) send(b []byte, _ int) error { k.bytes += len(b); return nil }
func (k *nowhere) chunked() bool              { return true }
func (k *nowhere) batch() int                 { return batchBytes }
func (k *nowhere) close([]byte)               {}
func (k *nowhere) abort()                     {}
