package memory

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTransport(t *testing.T) {
	transporttest.Run(t, transporttest.Implementation{
		Open: func(t *testing.T, l transporttest.Limits) transport.Transport {
			t.Helper()
			log, err := New(Options{MaxMessages: l.MaxMessages, MaxAge: l.MaxAge})
			if err != nil {
				t.Fatal(err)
			}
			return log
		},
		TooLarge:  defaultMaxBytes,
		ReadAhead: scanBatch,
	})
}

func TestDirectory(t *testing.T) {
	transporttest.RunDirectory(t, transporttest.Directories{
		Open: func(t *testing.T, _ int) []transport.Transport {
			t.Helper()
			log, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			return []transport.Transport{log}
		},
	})
}
