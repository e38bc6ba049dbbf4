package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

func update(id string, bytes int) *spec.Update {
	return &spec.Update{Topics: []string{"https://example.com/a"}, ID: id, Data: strings.Repeat("x", bytes)}
}

func newLog(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return l
}

func add(t testing.TB, l *Log, u *spec.Update) transport.Entry {
	t.Helper()
	e, err := l.Append(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestNegativeLimitsAreRefused(t *testing.T) {
	for _, o := range []Options{{MaxMessages: -1}, {MaxBytes: -1}, {MaxAge: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestBytesAreBounded(t *testing.T) {
	const limit = 100 << 10
	l := newLog(t, Options{MaxBytes: limit})
	for i := range 200 {
		add(t, l, update(fmt.Sprint(i), i*100))
		if st := l.Stats(); st.RetainedBytes > limit {
			t.Fatalf("%d bytes are retained", st.RetainedBytes)
		}
	}
	if st := l.Stats(); st.RetainedBytes < limit-2*20000 {
		t.Errorf("only %d of %d bytes are used", st.RetainedBytes, limit)
	}
	if _, err := l.Append(t.Context(), update("big", limit)); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("an update as large as the log: %v", err)
	}
	if st := l.Stats(); st.Retained == 0 {
		t.Error("the refused update has emptied the log")
	}
}

func TestTrimmedIDsAreBounded(t *testing.T) {
	l := newLog(t, Options{MaxMessages: 1})
	long := strings.Repeat("i", 1000)
	const n = 5000 // five million bytes of ids
	for i := range n {
		add(t, l, update(fmt.Sprintf("%s%d", long, i), 0))
	}
	if _, err := l.Locate(t.Context(), long+"0"); !errors.Is(err, transport.ErrUnknown) {
		t.Errorf("the oldest id: %v, want it forgotten", err)
	}
	if _, err := l.Locate(t.Context(), fmt.Sprintf("%s%d", long, n-100)); !errors.Is(err, transport.ErrTrimmed) {
		t.Errorf("a recent id: %v, want it remembered as trimmed", err)
	}
	if kept := len(l.ids.at); kept > maxTrimmedBytes/1000+2 {
		t.Errorf("%d ids are kept", kept)
	}
}

func TestAppendWaitsForTheFollowerAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, Options{MaxBytes: 10 << 10})
		gate := make(chan struct{})
		var got []transport.Position
		if _, err := l.Follow(t.Context(), func(e transport.Entry) { <-gate; got = append(got, e.Pos) }); err != nil {
			t.Fatal(err)
		}
		var last transport.Entry
		for range 9 {
			last = add(t, l, update("", 800)) // 1,100 bytes each with overhead
		}
		began := time.Now()
		if _, err := l.Append(t.Context(), update("", 800)); !errors.Is(err, transport.ErrUnavailable) {
			t.Errorf("append beside a follower that stands still: %v", err)
		}
		if waited := time.Since(began); waited != followerPatience {
			t.Errorf("append gave up after %v", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Append(ctx, update("", 800)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("append with a deadline: %v", err)
		}
		done := make(chan error)
		go func() { _, err := l.Append(t.Context(), update("", 800)); done <- err }()
		synctest.Wait() // it waits
		gate <- struct{}{}
		if err := <-done; err != nil {
			t.Errorf("append after the follower has moved: %v", err)
		}
		close(gate)
		synctest.Wait()
		if len(got) != int(last.Pos)+1 {
			t.Errorf("the follower got %v", got)
		}
	})
}

func TestAppendGoesOnWhenTheFollowerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, Options{MaxBytes: 4 << 10})
		ctx, cancel := context.WithCancel(t.Context())
		gate := make(chan struct{})
		if _, err := l.Follow(ctx, func(transport.Entry) { <-gate }); err != nil {
			t.Fatal(err)
		}
		add(t, l, update("", 3000))
		done := make(chan error)
		go func() { _, err := l.Append(t.Context(), update("", 3000)); done <- err }()
		synctest.Wait() // it waits
		cancel()
		close(gate)
		if err := <-done; err != nil {
			t.Error(err)
		}
		for range 10 {
			add(t, l, update("", 3000))
		}
	})
}

func TestAnIdleLogGivesItsMemoryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, Options{MaxAge: time.Hour})
		for range 3 {
			add(t, l, update("", 10))
			time.Sleep(time.Minute)
		}
		time.Sleep(57*time.Minute + time.Second)
		synctest.Wait()
		if st := l.Stats(); st.Retained != 2 { // Stats itself removes nothing
			t.Errorf("%d entries after an hour, want 2", st.Retained)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if st := l.Stats(); st.Retained != 0 || st.RetainedBytes != 0 {
			t.Errorf("%+v after all have aged", st)
		}
	})
}

func TestAScanSeesAgeBeforeTheTimerDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, Options{MaxAge: time.Hour})
		add(t, l, update("", 10))
		l.mu.Lock()
		l.expiry.Stop()
		l.mu.Unlock()
		time.Sleep(time.Hour)
		for _, err := range l.Scan(t.Context(), 0, 1, nil) {
			if !errors.Is(err, transport.ErrTrimmed) {
				t.Errorf("scan of an aged entry: %v", err)
			}
		}
		s, err := l.Span(t.Context())
		if err != nil || s.First != 2 || s.Last != 1 || s.LastID == "" {
			t.Errorf("span is %+v, %v", s, err)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, publishers := range []int{1, 64} {
		b.Run(fmt.Sprintf("publishers=%d", publishers), func(b *testing.B) {
			l := newLog(b, Options{})
			u := update("", 200)
			b.ReportAllocs()
			b.SetParallelism(max(publishers/2, 1))
			if publishers == 1 {
				for b.Loop() {
					add(b, l, u)
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := l.Append(b.Context(), u); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func BenchmarkScan(b *testing.B) {
	l := newLog(b, Options{})
	for range 10000 {
		add(b, l, update("", 200))
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range l.Scan(b.Context(), 0, 10000, nil) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 10000 {
			b.Fatal(n)
		}
	}
}
