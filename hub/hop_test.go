package hub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// TestHoppingBetweenNodes lets subscribers go from node to node with their cursors, cut at random, through queues of
// a frame or two, while both nodes see one log through followers that lag, bring only what was asked for, and bring some
// of it late. Everybody must get what is for him once: in the log's order, but for what a node brought late, which must
// not move the cursor.
//
// Covers: REC-06, REC-22, SUB-21, SUB-22, SUB-36, SSE-C09, SSE-W8.
func TestHoppingBetweenNodes(t *testing.T) {
	for name, kind := range map[string]struct{ hijack, h2 bool }{"shard": {hijack: true}, "handler": {}, "h2": {h2: true}} {
		for _, seed := range []uint64{1, 2} {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				keen := &view{rng: rand.New(rand.NewPCG(seed, 100)), lateness: 10, lag: 2}
				lagging := &view{rng: rand.New(rand.NewPCG(seed, 200)), lateness: 10, lag: 40}
				log := newSharedLog(t, keen, lagging)
				nodes := []*node{
					startNode(t, func(o *Options) { o.Transport = keen; o.SubscriberBuffer = 1 }),
					startNode(t, func(o *Options) { o.Transport = lagging; o.SubscriberBuffer = 400 }),
				}
				for _, n := range nodes {
					n.noHijack = !kind.hijack
					if kind.h2 {
						n.client.Transport.(*http.Transport).Protocols = new(http.Protocols)
						n.client.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
					}
				}
				hopAround(t, log, nodes, seed)
				var lagged, late float64
				for _, n := range nodes {
					lagged += testutil.ToFloat64(n.metrics.Lagged)
					late += testutil.ToFloat64(n.metrics.Late)
				}
				if lagged == 0 || late == 0 {
					t.Errorf("%v overflows and %v late updates: the test did not reach the seams it is for", lagged, late)
				}
			})
		}
	}
}

func hopAround(t *testing.T, log *sharedLog, nodes []*node, seed uint64) {
	t.Helper()
	nodes[0].publish("topic", "end", "data", "start")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var subs, pubs sync.WaitGroup
	for i := range 12 {
		c := newHopper(t, log, nodes, seed, i)
		subs.Go(func() {
			for over := false; !over; {
				over = c.stay(ctx)
			}
		})
	}
	for p := range 3 {
		rng := rand.New(rand.NewPCG(seed, uint64(p)))
		pubs.Go(func() {
			for k := range 150 {
				form := []string{"topic", "t/" + strconv.Itoa(rng.IntN(4)), "data", fmt.Sprintf("%d-%d", p, k)}
				if rng.IntN(3) == 0 {
					form = append(form, "topic", "alias")
				}
				if rng.IntN(4) == 0 {
					form = append(form, "private", "on")
				}
				nodes[rng.IntN(2)].publish(form...)
			}
		})
	}
	pubs.Wait()
	nodes[1].publish("topic", "end", "data", "end")
	log.flush()
	subs.Wait()
}

// hopper is a client with a cursor and no fixed node.
type hopper struct {
	t       testing.TB
	log     *sharedLog
	nodes   []*node
	name    string
	rng     *rand.Rand
	query   string
	granted bool
	matches []topic.Matcher
	start   transport.Position
	cursor  string
	high    transport.Position // of the cursor
	got     map[transport.Position]bool
	atEnd   bool
}

func newHopper(t testing.TB, log *sharedLog, nodes []*node, seed uint64, i int) *hopper {
	t.Helper()
	c := &hopper{
		t: t, log: log, nodes: nodes, rng: rand.New(rand.NewPCG(seed, uint64(i))), granted: i%2 == 0, got: map[transport.Position]bool{},
	}
	selectors := [][]string{{"*"}, {"t/{n}"}, {"t/0", "t/1", "alias"}, {"alias"}, {"t/2", "t/{x}", "alias"}, {"t/3"}}[i%6]
	q := url.Values{}
	for _, s := range append(selectors, "end") {
		q.Add("topic", s)
		m, err := topic.Compile(topic.Selector{Kind: topic.Classic, Pattern: s}, nil, topic.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		c.matches = append(c.matches, m)
	}
	c.query = q.Encode()
	c.name = fmt.Sprintf("client %d (%s)", i, c.query)
	c.start = log.place("start")
	c.high, c.cursor = c.start, log.id(c.start)
	return c
}

// isFor reports whether an update is for the client.
func (c *hopper) isFor(u *spec.Update) bool {
	if u.Private && !c.granted {
		return false
	}
	for _, m := range c.matches {
		if slices.ContainsFunc(u.Topics, m.Match) {
			return true
		}
	}
	return false
}

// stay goes on on some node for a random number of events and leaves abruptly, but not while something before its
// cursor has yet to come: a node that brings late what a client had no time to wait for cannot be asked for it
// again. It returns true when the client is to stop.
func (c *hopper) stay(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // without anything new
	defer cancel()
	n := c.nodes[c.rng.IntN(len(c.nodes))]
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+"?"+c.query, nil)
	if err != nil {
		c.t.Error(err)
		return true
	}
	req.Header.Set(spec.HeaderLastEventID, c.cursor)
	if c.granted {
		req.Header.Set("X-Grant", "*")
	}
	res, err := n.client.Do(req)
	if err != nil {
		c.t.Errorf("%s: %v", c.name, err)
		return true
	}
	defer res.Body.Close()
	if echo := res.Header.Get(spec.HeaderLastEventID); echo != c.cursor {
		c.t.Errorf("%s: echo %q, want %q", c.name, echo, c.cursor)
		return true
	}
	dec := sse.NewDecoder(res.Body, 1<<20)
	for left := 1 + c.rng.IntN(40); ; left-- {
		if (left <= 0 || c.atEnd) && len(c.log.missing(c.start, c.high, c.isFor, c.got)) == 0 {
			return c.atEnd
		}
		e, err := dec.Next()
		if err != nil {
			c.t.Errorf("%s: %v; cursor %d, missing %v", c.name, err, c.high, c.log.missing(c.start, c.high, c.isFor, c.got))
			return true
		}
		if !c.take(n, e) {
			return true
		}
	}
}

// take checks one event.
func (c *hopper) take(n *node, e sse.Event) bool {
	pos, cursor := c.log.place(e.Data), c.log.placeOf(e.ID)
	late := cursor != pos
	switch {
	case c.got[pos]:
		c.t.Errorf("%s: %d came twice", c.name, pos)
	case !late && pos <= c.high:
		c.t.Errorf("%s: %d came after %d", c.name, pos, c.high)
	case late && (cursor != c.high || pos > c.high):
		c.t.Errorf("%s: late %d sets the cursor to %d, which was at %d", c.name, pos, cursor, c.high)
	case late && !n.log.(*view).wasLate(pos):
		c.t.Errorf("%s: %d came late although the node had it in time", c.name, pos)
	case !c.isFor(c.log.at(pos)):
		c.t.Errorf("%s: %d is not for it", c.name, pos)
	default:
		c.got[pos] = true
		c.high, c.cursor = cursor, e.ID
		c.atEnd = c.atEnd || e.Data == "end"
		return true
	}
	return false
}
