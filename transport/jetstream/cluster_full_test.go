package jetstream

import (
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// The disk of one node is full: its server turns its store off. The node is not ready, and serves its clients
// through the others, until there is space.
func TestANodeOfAClusterWithAFullDisk(t *testing.T) {
	t.Parallel()
	options := clusterOptions(t, 3, Options{MinFree: 4 << 20})
	mountTmpfs(t, options[2].Dir, "size=32m")
	logs := openNodes(t, options)
	a, c := logs[0], logs[2]
	followed := follow(t, c)
	var want []transport.Entry
	publish := func(l *Log, n int) {
		t.Helper()
		for range n {
			u := &spec.Update{Topics: []string{"t"}, Data: strings.Repeat("y", 32<<10)}
			want = append(want, add(t, l, u))
		}
	}
	publish(c, 20)
	remove := ballast(t, options[2].Dir, 30<<20-diskUsed(t, options[2].Dir))
	publish(a, 200) // more than there is space, and less than there is to be later
	eventually(t, "the full disk to be noticed", func() bool { return c.Ready(t.Context()) != nil })
	t.Logf("after %d updates: %v", len(want), c.Ready(t.Context()))
	began := time.Now()
	publish(c, 20)
	t.Logf("20 updates through the full node took %v", time.Since(began))
	last := want[len(want)-1]
	mustBeSame(t, "followed on the full node", followed.until(t, last.Pos), want)
	c.window.reset()
	mustBeSame(t, "scanned on the full node", scan(t, c, 0, last.Pos), want)
	mustLocate(t, c, last.Update.ID, last.Pos)
	if err := a.Ready(t.Context()); err != nil {
		t.Errorf("another node is not ready: %v", err)
	}
	remove()
	eventually(t, "the node to be ready again", func() bool { return c.Ready(t.Context()) == nil })
	publish(c, 5)
	last = want[len(want)-1]
	mustBeSame(t, "followed", followed.until(t, last.Pos), want)
	eventually(t, "its copy to catch up", func() bool {
		s := c.server.current.Load()
		return s != nil && s.JetStreamIsStreamCurrent(account, "cinnabar")
	})
}
