package hub

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cinnabar-hub/cinnabar/transport/memory"
)

// However quickly streams come and go, each subscription that was told of is told of once and ends once, in this order,
// and in the end nobody is listed.
//
// Covers: ACT-02, ACT-11.
func TestChurnEndsWithAnEmptyDirectory(t *testing.T) {
	for name, grace := range map[string]time.Duration{"at once": 0, "with grace": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			log, err := memory.New(memory.Options{})
			if err != nil {
				t.Fatal(err)
			}
			n := startNode(t, func(o *Options) { o.Transport, o.Directory, o.RejoinGrace = log, log, grace })
			var crowd sync.WaitGroup
			for i := range 8 {
				crowd.Go(func() {
					for range 40 {
						res := n.get(fmt.Sprintf("topic=t%d&match=t%[1]d&topic=all", rand.N(3)), "X-Subject", fmt.Sprint(i))
						if rand.N(2) == 0 {
							time.Sleep(rand.N(5 * time.Millisecond))
						}
						_ = res.Body.Close()
					}
				})
			}
			crowd.Wait()
			eventually(t, "nobody is listed", func() bool {
				list, err := log.List(t.Context())
				return err == nil && len(list) == 0 && n.Connections() == 0 && testutil.ToFloat64(n.metrics.PresenceWaiting) == 0
			})
			n.stop() // what was under way is told
			there := map[string]bool{}
			for e, err := range log.Scan(t.Context(), 0, 1<<40, nil) {
				if err != nil {
					t.Fatal(err)
				}
				var doc told
				if err := json.Unmarshal([]byte(e.Update.Data), &doc); err != nil {
					t.Fatal(err)
				}
				if was, known := there[doc.ID]; known && (!was || doc.Active) || !known && !doc.Active {
					t.Errorf("%s is told active %v after %v", doc.ID, doc.Active, was)
				}
				there[doc.ID] = doc.Active
			}
			for id, active := range there {
				if active {
					t.Errorf("the end of %s is not told", id)
				}
			}
			if got := testutil.ToFloat64(n.metrics.Presences); got != 0 || len(n.presence.members) != 0 {
				t.Errorf("%v are counted, %d remembered", got, len(n.presence.members))
			}
			t.Logf("%d subscriptions, %v rejoins", len(there), testutil.ToFloat64(n.metrics.Rejoins))
		})
	}
}
