package jetstream

import (
	"testing"

	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/transporttest"
)

func TestTransportOnExternalServers(t *testing.T) {
	transporttest.Run(t, transporttest.Implementation{
		Open: func(t *testing.T, l transporttest.Limits) transport.Transport {
			t.Helper()
			s, prefix := sharedServers(t)
			return openExternal(t, s, Options{Prefix: prefix, MaxMessages: int64(l.MaxMessages), MaxAge: l.MaxAge})
		},
		Reopen: func(t *testing.T, tr transport.Transport) transport.Transport {
			t.Helper()
			return openAnywhere(t, tr.(*Log).opts)
		},
		TooLarge:  3 << 20,
		ReadAhead: readBatch,
	})
}

func TestTheNodesOfAClusterHaveOneLog(t *testing.T) {
	logs := openCluster(t, 3, Options{})
	a, b, c := logs[0], logs[1], logs[2]
	followed := follow(t, b)
	var want []transport.Entry
	for i := range 50 {
		want = append(want, add(t, a, update(i)))
	}
	mustBeSame(t, "followed on b", followed.until(t, want[49].Pos), want)
	mustBeSame(t, "scanned on c", scan(t, c, 0, want[49].Pos), want)
	mustLocate(t, c, want[20].Update.ID, want[20].Pos)
}
