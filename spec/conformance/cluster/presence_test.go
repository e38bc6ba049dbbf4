//go:build linux

package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

const (
	seats     = 100              // streams at each node
	lease     = 10 * time.Second // for which a node that is silent counts as there
	clearance = 3 * time.Second  // for the others to clear up after it
)

// Who is listening, on every node, whatever happens to nodes. Covers: ACT-02, ACT-08, ACT-28, G-15, SUB-41.
func TestEveryNodeListsWhoIsThere(t *testing.T) {
	minutes(t)
	w := embedded(t, "interest", "--subscriptions")
	leader := w.leader(t)
	// The watcher's node stays, and so does the leader in the first run: its death is an election besides.
	stays, dies, freezes := leader, (leader+1)%nodes, (leader+2)%nodes
	a := newAudience(t, "")
	all := w.urls()
	watching := watch(t, all[stays])

	leaveStaying := a.fill(t, all[stays], "staying", seats)
	leaveDying := a.fill(t, all[dies], "dying", seats)
	leaveFreezing := a.fill(t, all[freezes], "freezing", seats)
	defer leaveStaying()
	defer leaveDying()
	defer leaveFreezing()
	a.see(t, patience, all, map[string]int{"staying": seats, "dying": seats, "freezing": seats})
	for _, name := range []string{"staying", "dying", "freezing"} {
		watching.hears(t, patience, name, map[string]int{"+": seats})
	}

	t.Run("a node dies", func(t *testing.T) {
		left := []string{all[stays], all[freezes]}
		w.hubs[dies].Kill()
		died := time.Now()
		a.see(t, patience, left, map[string]int{"staying": seats, "freezing": seats})
		listed := time.Since(died)
		watching.hears(t, patience, "dying", map[string]int{"+-": seats})
		t.Logf("%d subscriptions of a dead node: out of the lists after %v, the last inactive event after %v",
			seats, listed.Round(time.Millisecond), time.Since(died).Round(time.Millisecond))
		if listed > lease+clearance {
			t.Errorf("the lists are right only after %v", listed)
		}
		w.hubs[dies].Start()
		w.leader(t)
		a.see(t, patience, all, map[string]int{"staying": seats, "freezing": seats})
	})

	t.Run("a node stands still and goes on", func(t *testing.T) {
		others := []string{all[stays], all[dies]}
		w.hubs[freezes].Send(syscall.SIGSTOP)
		frozen := time.Now()
		a.see(t, patience, others, map[string]int{"staying": seats})
		cleared := time.Since(frozen)
		pause(t, lease+clearance+2*time.Second-cleared)
		w.hubs[freezes].Send(syscall.SIGCONT)
		thawed := time.Now()
		a.see(t, patience, all, map[string]int{"staying": seats, "freezing": seats})
		t.Logf("a node that stood still for %v: out of the others' lists after %v, back in all %v after it went on",
			thawed.Sub(frozen).Round(time.Millisecond), cleared.Round(time.Millisecond), time.Since(thawed).Round(time.Millisecond))
		watching.hears(t, patience, "freezing", map[string]int{"+-+": seats})
		watching.hears(t, patience, "staying", map[string]int{"+": seats})
	})

	t.Run("all leave", func(t *testing.T) {
		leaveStaying()
		leaveFreezing()
		a.see(t, patience, all, map[string]int{})
		watching.hears(t, patience, "staying", map[string]int{"+-": seats})
		watching.hears(t, patience, "freezing", map[string]int{"+-+-": seats})
		watching.hears(t, patience, "dying", map[string]int{"+-": seats}) // nobody has told it a second time
	})

	t.Run("one is sent away", func(t *testing.T) {
		ann := newAudience(t, "ann")
		for _, h := range all {
			t.Cleanup(ann.fill(t, h, "ann", 10))
		}
		a.see(t, patience, all, map[string]int{"ann": 10 * nodes})
		if n := disconnect(t, w.hubs[stays].Admin, `{"subject":"ann","for":"1h"}`); n != 10*nodes {
			t.Errorf("%d streams were told to end, there are %d", n, 10*nodes)
		}
		a.see(t, patience, all, map[string]int{})
		watching.hears(t, patience, "ann", map[string]int{"+-": 10 * nodes})
		w.hubs[dies].Kill() // and what it keeps in its memory
		w.hubs[dies].Start()
		for _, h := range all {
			no, ok := errors.AsType[*refusal](ann.sit(t.Context(), h, "ann/again"))
			if !ok || no.status != http.StatusNoContent {
				t.Errorf("%s answers who was sent away %+v, want 204", h, no)
			}
		}
	})

	t.Run("much coming and going", func(t *testing.T) { comeAndGo(t, a, all, watching) })
}

// disconnect gives an order to a node, and returns how many streams were told to end.
func disconnect(t *testing.T, admin, order string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, admin+"/subscribers/disconnect", strings.NewReader(order))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var done struct{ Streams int }
	if err := json.NewDecoder(res.Body).Decode(&done); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", res.StatusCode, err)
	}
	return done.Streams
}

// comeAndGo lets many clients come and go for a while. At the end nobody is listed, and of everybody who was entered
// it was told once that he came, and then once that he left.
func comeAndGo(t *testing.T, a *audience, hubs []string, watching *watcher) {
	t.Helper()
	var opened, tried atomic.Int64
	var clients sync.WaitGroup
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Second)
	defer stop()
	for c := range 40 {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				visit, leave := context.WithCancel(ctx)
				tried.Add(1)
				err := a.sit(visit, hubs[rand.IntN(len(hubs))], fmt.Sprint("visiting/", c, "-", n))
				switch {
				case err == nil:
					opened.Add(1)
					select {
					case <-time.After(10*time.Millisecond + rand.N(200*time.Millisecond)):
					case <-ctx.Done():
					}
				case ctx.Err() == nil && !errors.Is(err, context.Canceled):
					t.Errorf("a visit: %v", err)
				}
				leave()
			}
		})
	}
	clients.Wait()
	a.see(t, patience, hubs, map[string]int{})
	// Who was gone before being entered has not been told of. What is told of those who were entered comes soon after
	// the list is empty; nothing comes after that.
	told := 0
	child.Eventually(t, patience, func() error {
		words := watching.told(spec.Classic.Name, "visiting")
		pause(t, time.Second)
		again, draft08 := watching.told(spec.Classic.Name, "visiting"), watching.told(spec.Draft08.Name, "visiting")
		if len(words) != 1 || words["+-"] == 0 || !maps.Equal(words, again) || !maps.Equal(words, draft08) {
			return fmt.Errorf("events about visits: %s, then %s, of draft-08 %s", said(words), said(again), said(draft08))
		}
		told = words["+-"]
		return nil
	})
	if told < int(opened.Load())/2 {
		t.Errorf("%d visits began, only %d are told of", opened.Load(), told)
	}
	if told > int(tried.Load()) {
		t.Errorf("%d visits were tried, %d are told of", tried.Load(), told)
	}
	t.Logf("%d visits began, %d are told of", opened.Load(), told)
}
