//go:build linux

package cluster_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// markTopic is what every client listens to beside its own: the first and the last update of a run are on it.
const markTopic = "https://example.com/mark"

// kinds are the sets of topics that updates are published with, one after the other: mostly one topic of a
// group, and every form that a selector's filter has to cover besides.
var kinds = func() (all [][]string) {
	for g := range 10 {
		for t := range 4 {
			all = append(all, []string{fmt.Sprintf("https://example.com/g%d/t%d", g, t)})
		}
	}
	return append(all,
		[]string{"https://EXAMPLE.com/g1/../g1/t0"},                        // not its own canonical form
		[]string{"https://example.com/g2/./t1"},                            // the same, and a template's literal part fits
		[]string{"https://example.com/g3/t0", "https://other.example/t3"},  // two origins
		[]string{"https://example.com/g4/t1", "https://example.com/g5/t2"}, // two topics of one origin
		[]string{"news"},                       // no URL
		[]string{"https://other.example/only"}, // a second origin
		[]string{"https://example.com/g6/" + strings.Repeat("long/", 20)},     // more segments than a subject has
		[]string{"https://example.com/g7/t0", "https://example.com/g7/extra"}, // one client's selectors match both
	)
}()

// taste is what one client listens to: selectors for the hub, and what they match said a second time, without
// the hub's own matcher.
type taste struct {
	selectors []string
	likes     func(topic string) bool
}

// tastes returns n of them: exact topics, templates, everything.
func tastes(n int) []taste {
	all := make([]taste, n)
	for i := range all {
		g := fmt.Sprint("https://example.com/g", i%10, "/")
		switch i % 10 {
		case 0:
			all[i] = taste{[]string{"*"}, func(string) bool { return true }}
		case 1, 2, 3: // templates with a literal beginning
			all[i] = taste{[]string{g + "{t}"}, func(t string) bool {
				rest, ok := strings.CutPrefix(t, g)
				return ok && !strings.Contains(rest, "/")
			}}
		case 4: // expansion with slashes and dots
			g2 := "https://example.com/g2/"
			all[i] = taste{[]string{g2 + "{+rest}"}, func(t string) bool { return strings.HasPrefix(t, g2) }}
		case 5: // a template without a literal beginning, and one exact topic
			all[i] = taste{[]string{"{scheme}://other.example/{t}", "news"}, func(t string) bool {
				return t == "news" || strings.HasPrefix(t, "https://other.example/")
			}}
		default: // exact topics, others for each client
			var own []string
			for k := range 3 {
				own = append(own, kinds[(3*(i/10*4+i%10-6)+k)%len(kinds)]...)
			}
			all[i] = taste{own, func(t string) bool { return slices.Contains(own, t) }}
		}
	}
	return all
}

// query returns the query of the request for a stream.
func (t taste) query() string { return url.Values{"topic": append(t.selectors, markTopic)}.Encode() }

// wants reports whether an update with these topics is for the client.
func (t taste) wants(topics []string) bool {
	return slices.ContainsFunc(topics, func(topic string) bool { return topic == markTopic || t.likes(topic) })
}
