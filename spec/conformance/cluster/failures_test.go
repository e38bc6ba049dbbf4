//go:build linux

package cluster_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// failure is something that happens to a world, and is over when do returns: all hubs are ready again then.
type failure struct {
	name string
	in   string // "embedded", "external", "" = both
	do   func(t *testing.T, w *world)
}

const (
	down    = time.Second      // how long a killed process is away
	stopped = 10 * time.Second // how long a process stands still
	severed = 3 * time.Second  // how long a connection is cut
)

// failures is the failure table.
var failures = []failure{
	{"kill -9 of a server that does not lead", "", killOther},
	{"kill -9 of the stream's leader", "", killLeader},
	{"SIGSTOP of the stream's leader for 10 s", "", stopLeader},
	{"SIGSTOP of a hub for 10 s", "external", stopHub},
	{"kill -9 of a hub", "external", killHub},
	{"a hub's connection to NATS cut for 3 s", "external", cutHub},
	{"all routes cut for 3 s", "", cutAll},
	{"routes of the leader cut for 3 s", "", cutLeader},
	{"polite end of the stream's leader", "", endLeader},
}

func killOther(t *testing.T, w *world)  { t.Helper(); w.killed(t, (w.leader(t)+1)%nodes) }
func killLeader(t *testing.T, w *world) { t.Helper(); w.killed(t, w.leader(t)) }
func cutAll(t *testing.T, w *world)     { t.Helper(); w.cutOff(t, -1) }
func cutLeader(t *testing.T, w *world)  { t.Helper(); w.cutOff(t, w.leader(t)) }
func stopLeader(t *testing.T, w *world) { t.Helper(); standStill(t, w.process(w.leader(t))) }
func stopHub(t *testing.T, w *world)    { t.Helper(); standStill(t, w.hubs[0].Process) }

// standStill stops a process for a while, as a virtual machine that is moved.
func standStill(t *testing.T, p *child.Process) {
	t.Helper()
	p.Send(syscall.SIGSTOP)
	pause(t, stopped)
	p.Send(syscall.SIGCONT)
}

func killHub(t *testing.T, w *world) {
	t.Helper()
	w.hubs[1].Kill()
	pause(t, down)
	w.hubs[1].Spawn()
}

// cutHub cuts a hub off from every NATS server.
func cutHub(t *testing.T, w *world) {
	t.Helper()
	for j := range nodes {
		w.clients[[2]int{0, j}].cut()
	}
	pause(t, severed)
	for j := range nodes {
		w.clients[[2]int{0, j}].heal(t)
	}
}

func endLeader(t *testing.T, w *world) {
	t.Helper()
	p := w.process(w.leader(t))
	p.Signal()
	p.Wait(patience)
	pause(t, down)
	p.Spawn()
}

// killed kills a server, and starts it again a little later.
func (w *world) killed(t *testing.T, i int) {
	t.Helper()
	w.process(i).Kill()
	pause(t, down)
	w.process(i).Spawn()
}

// cutOff cuts the routes of a server, or all, for a while.
func (w *world) cutOff(t *testing.T, server int) {
	t.Helper()
	through := 0
	for _, l := range w.routes {
		through += l.carries()
	}
	if through < nodes { // a server connects to each other one at least once, from one of their two sides
		t.Errorf("only %d connections between servers go through our links", through)
	}
	w.isolate(t, server, false)
	pause(t, severed)
	w.isolate(t, server, true)
}

// playAll plays those of the failures that apply, one after the other, in one world.
func playAll(t *testing.T, w *world, kind string, some []failure) {
	t.Helper()
	for _, f := range some {
		if f.in != "" && f.in != kind {
			continue
		}
		began := time.Now()
		w.leader(t) // all is well, or none of the others is tried
		t.Logf("ready for the next failure after %v", time.Since(began).Round(time.Millisecond))
		t.Run(f.name, func(t *testing.T) {
			v := play(t, plan{
				hubs: w.urls(), clients: 60, rate: 500, before: time.Second, afterward: time.Second,
				fail: func(*run) {
					f.do(t, w)
					w.leader(t) // all is well again
				},
			})
			row(t, f.name, w.mode, v)
		})
	}
}

// Covers: REC-22.
func TestFailuresOfAnEmbeddedCluster(t *testing.T) {
	minutes(t)
	playAll(t, embedded(t, "interest"), "embedded", failures)
}

// Covers: REC-22.
func TestFailuresOfHubsOnNATSServers(t *testing.T) {
	minutes(t)
	playAll(t, external(t, "interest"), "external", failures)
}

// The follower that hears everything, for comparison.
func TestFailuresWithTheFollowerOfEverything(t *testing.T) {
	minutes(t)
	playAll(t, embedded(t, "all"), "embedded", failures[:2])
}
