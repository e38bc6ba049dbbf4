package jetstream

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// BenchmarkBus shows what the bus brings to ten nodes, each of which has subscribers for ten of a hundred topics:
// messages and bytes per node and update, of both followers.
func BenchmarkBus(b *testing.B) {
	const nodes, topics, publishers = 10, 100, 16
	for _, mode := range []Mode{FollowAll, FollowInterest} {
		b.Run("follow="+string(mode), func(b *testing.B) {
			s, prefix := sharedServers(b)
			var logs []*Log
			wanted := make([]chan transport.Position, nodes)
			for i := range nodes {
				l := openAnywhere(b, Options{
					Prefix: prefix, Node: fmt.Sprintf("n%d", i), Follow: mode, Servers: &Servers{URLs: s.urls(i % 3)},
				})
				logs = append(logs, l)
				last := fmt.Sprintf("https://example.com/topics/%d", i*topics/nodes)
				wanted[i] = make(chan transport.Position, 1)
				in, err := l.Follow(b.Context(), func(e transport.Entry) {
					if e.Update.Type == "last" && e.Update.Topics[0] == last {
						wanted[i] <- e.Pos
					}
				})
				if err != nil {
					b.Fatal(err)
				}
				var selectors []topic.Selector
				for t := range topics / nodes {
					selectors = append(selectors, classic(fmt.Sprintf("https://example.com/topics/%d", i*topics/nodes+t)))
				}
				if _, err := in.Add(b.Context(), selectors...); err != nil {
					b.Fatal(err)
				}
			}
			put := func(i int, kind string) error {
				_, err := logs[i%nodes].Append(b.Context(), &spec.Update{
					Topics: []string{fmt.Sprintf("https://example.com/topics/%d", i%topics)}, Type: kind, Data: strings.Repeat("x", 200),
				})
				return err
			}
			received := func() (messages, bytes uint64) {
				for _, l := range logs {
					m := l.nc.Stats()
					messages, bytes = messages+m.InMsgs, bytes+m.InBytes
				}
				return messages, bytes
			}
			messages, bytes := received()
			b.ResetTimer()
			var wg sync.WaitGroup
			for p := range publishers {
				wg.Go(func() {
					for i := p; i < b.N; i += publishers {
						if err := put(i, ""); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			for i := range nodes { // once these are here, so is what came before them
				if err := put(i*topics/nodes, "last"); err != nil {
					b.Fatal(err)
				}
			}
			for i := range nodes {
				<-wanted[i]
			}
			b.StopTimer()
			m, n := received()
			updates := float64(b.N + nodes)
			// an acknowledgement comes for each update, too; it is not the follower's
			b.ReportMetric((float64(m-messages)-updates)/updates/nodes, "msgs/node/update")
			b.ReportMetric(float64(n-bytes)/updates/nodes, "B/node/update")
			b.ReportMetric(float64(sum(logs, func(s transport.Stats) uint64 { return s.Followed }))/updates/nodes, "handed/node/update")
		})
	}
}

func sum(logs []*Log, field func(transport.Stats) uint64) (n uint64) {
	for _, l := range logs {
		n += field(l.Stats())
	}
	return n
}
