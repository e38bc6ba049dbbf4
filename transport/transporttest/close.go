package transporttest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

func testSecondFollow(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	live := make(chan transport.Entry, 10)
	if _, err := tr.Follow(t.Context(), func(e transport.Entry) { live <- e }); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Follow(t.Context(), func(transport.Entry) { t.Error("the second follower is called") }); err == nil {
		t.Fatal("a second follower is accepted")
	}
	e := add(t, tr, update(0))
	same(t, []transport.Entry{receive(t, live, "first follower")}, []transport.Entry{e})
}

func testFollowEnds(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	entered, gate := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	calls := 0
	if _, err := tr.Follow(ctx, func(transport.Entry) {
		mu.Lock()
		calls++
		mu.Unlock()
		entered <- struct{}{}
		<-gate
	}); err != nil {
		t.Fatal(err)
	}
	fill(t, tr, 5)
	receive(t, entered, "follower")
	cancel()
	close(gate)
	// the log goes on without its follower
	add(t, tr, update(6))
	shut(t, tr)
	mu.Lock()
	defer mu.Unlock()
	if calls != 1 {
		t.Errorf("%d entries were handed out, want none after the context's end", calls)
	}
}

func testCloseWaits(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	entered, gate := make(chan struct{}), make(chan struct{})
	if _, err := tr.Follow(t.Context(), func(transport.Entry) { close(entered); <-gate }); err != nil {
		t.Fatal(err)
	}
	add(t, tr, update(0))
	receiveClosed(t, entered)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := tr.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close beside a running follower: %v, want its deadline", err)
	}
	close(gate)
	shut(t, tr)
}

func receiveClosed(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatal("the follower was not called")
	}
}

func testClosePending(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	const n = 200
	results := make(chan error, n)
	for i := range n {
		go func() {
			_, err := tr.Append(context.WithoutCancel(t.Context()), update(i))
			results <- err
		}()
	}
	if err := receive(t, results, "append"); err != nil {
		t.Errorf("append: %v", err)
	}
	shut(t, tr)
	stored := uint64(1)
	for range n - 1 {
		switch err := receive(t, results, "append"); {
		case err == nil:
			stored++
		case !errors.Is(err, transport.ErrClosed):
			t.Errorf("append during close: %v", err)
		}
	}
	if st := tr.Stats(); st.Appends != stored {
		t.Errorf("%d appends were acknowledged, stats say %d", stored, st.Appends)
	}
	if impl.Reopen == nil {
		return
	}
	tr = impl.Reopen(t, tr)
	t.Cleanup(func() { shut(t, tr) })
	got, err := read(t, tr, 0, All)
	if err != nil || uint64(len(got)) != stored {
		t.Errorf("%d entries are stored, %v; %d were acknowledged", len(got), err, stored)
	}
}

func testClosed(t *testing.T, impl Implementation) {
	tr := impl.open(t, Limits{})
	in, err := tr.Follow(t.Context(), func(transport.Entry) {})
	if err != nil {
		t.Fatal(err)
	}
	e := add(t, tr, update(0))
	next, stop := pull(t, tr)
	defer stop()
	shut(t, tr)
	shut(t, tr)
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, transport.ErrClosed) {
			t.Errorf("%s after close: %v, want ErrClosed", what, err)
		}
	}
	_, err = tr.Append(t.Context(), update(1))
	refused("append", err)
	_, err = tr.Follow(t.Context(), func(transport.Entry) {})
	refused("follow", err)
	_, err = tr.Locate(t.Context(), e.Update.ID)
	refused("locate", err)
	_, err = tr.Span(t.Context())
	refused("span", err)
	_, err = in.Add(t.Context(), everything)
	refused("interest", err)
	_, err = read(t, tr, 0, All)
	refused("scan", err)
	if err := next(); err != nil {
		refused("scan begun before", err)
	}
	in.Remove(everything)
	if st := tr.Stats(); st.Appends != 1 {
		t.Errorf("stats after close are %+v", st)
	}
}

// pull starts a scan whose next step is taken by next, which returns the error if there is one.
func pull(t *testing.T, tr transport.Transport) (next func() error, stop func()) {
	t.Helper()
	step, result := make(chan struct{}), make(chan error)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, ok := <-step; !ok {
			return
		}
		var failed error
		for _, err := range tr.Scan(t.Context(), 0, All, nil) {
			failed = err
			break
		}
		result <- failed
	}()
	return func() error { step <- struct{}{}; return receive(t, result, "scan") }, func() { close(step); <-ended }
}
