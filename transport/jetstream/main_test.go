package jetstream

import (
	"context"
	"flag"
	"log/slog"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/transporttest"
)

// waiting is how many tests run at the same time, even on few processors: those that are parallel wait most of the time.
const waiting = 4

func TestMain(m *testing.M) {
	hurry()
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue && runtime.GOMAXPROCS(0) < waiting {
		_ = f.Value.Set(strconv.Itoa(waiting)) // it is a number
	}
	goleak.VerifyTestMain(tests{m})
}

// tests ends what outlives the single test.
type tests struct{ *testing.M }

func (m tests) Run() int {
	defer stopShared()
	return m.M.Run()
}

func TestTransport(t *testing.T) {
	t.Parallel()
	transporttest.Run(t, transporttest.Implementation{
		Open: func(t *testing.T, l transporttest.Limits) transport.Transport {
			t.Helper()
			return open(t, Options{Dir: t.TempDir(), MaxMessages: int64(l.MaxMessages), MaxAge: l.MaxAge})
		},
		Reopen: func(t *testing.T, tr transport.Transport) transport.Transport {
			t.Helper()
			return open(t, tr.(*Log).opts)
		},
		TooLarge:  3 << 20,
		ReadAhead: readBatch,
	})
}

// open opens a log that logs to the test.
func open(t testing.TB, o Options) *Log {
	t.Helper()
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}
