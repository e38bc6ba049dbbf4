//go:build linux

package cluster_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// drained is when one node ended its streams.
type drained struct {
	node       int
	begin, end time.Time
	over       time.Duration // as it said
}

var endingOver = regexp.MustCompile(`msg="ending streams".* over=(\S+)`)

// rollingRestart restarts every node as an operator does: one after the other, each ready before the next goes.
func rollingRestart(t *testing.T, w *world) (drains []drained) {
	t.Helper()
	for i, h := range w.hubs {
		d := drained{node: i, begin: time.Now()}
		h.Stop()
		d.end = time.Now()
		said := endingOver.FindAllStringSubmatch(h.Log(), -1)
		if len(said) == 0 {
			t.Fatalf("node %d does not say over which time it ends its streams", i)
		}
		var err error
		if d.over, err = time.ParseDuration(said[len(said)-1][1]); err != nil {
			t.Fatal(err)
		}
		drains = append(drains, d)
		h.Start()
		w.leader(t)
		pause(t, 2500*time.Millisecond) // as long as the shipped configuration leaves a node alone that was away
	}
	return drains
}

// even requires that a drain ends streams evenly: in any five seconds, and in any quarter of the window, at
// most one and a half times their share.
func even(t *testing.T, d drained, sources []*source) {
	t.Helper()
	var ends []time.Time
	for _, s := range sources {
		for _, e := range s.ends {
			if e.After(d.begin) && e.Before(d.end) {
				ends = append(ends, e)
			}
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	if len(ends) < len(sources)/10 {
		t.Errorf("node %d had %d of %d streams: nothing was tried", d.node, len(ends), len(sources))
		return
	}
	for _, span := range []time.Duration{5 * time.Second, d.over / 4} {
		most := 0
		for i, from := range ends {
			n := 0
			for _, e := range ends[i:] {
				if e.Sub(from) >= span {
					break
				}
				n++
			}
			most = max(most, n)
		}
		limit := 1.5 * float64(len(ends)) * span.Seconds() / d.over.Seconds()
		t.Logf("node %d: %d streams over %v (%v from first to last), at most %d in %v, allowed %.1f",
			d.node, len(ends), d.over, ends[len(ends)-1].Sub(ends[0]).Round(time.Millisecond), most, span.Round(time.Millisecond), limit)
		if float64(most) > limit {
			t.Errorf("node %d: %d streams ended within %v, of %d over %v: more than %.1f", d.node, most, span, len(ends), d.over, limit)
		}
	}
}

// Nobody notices a rolling restart of all nodes behind nginx: 300 clients that give up for good on anything but
// 200 go on, and nothing is lost or doubled. Covers: SUB-38, SUB-41.
func TestARollingRestartBehindAProxy(t *testing.T) { //nolint:tparallel // one at a time, beside streams that are idle
	minutes(t)
	t.Parallel()
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			// Of which some 10 s are for the streams: nginx without a word of ours keeps away from a node for 10 s after it
			// was refused, and must have come back to it when the next one goes.
			w := embedded(t, "interest", "--shutdown-timeout", "16s")
			through := nginx(t, p.bare, w.urls()...)
			var drains []drained
			v := play(t, plan{
				hubs: []string{through}, direct: w.urls(), clients: 300, rate: 200, before: time.Second, afterward: time.Second, bare: p.bare,
				fail: func(*run) { drains = rollingRestart(t, w) },
			})
			row(t, "rolling restart behind nginx, "+p.name, w.mode, v)
			for _, d := range drains {
				even(t, d, v.run.sources)
			}
			if !p.bare {
				t.Run("no hub at all", func(t *testing.T) { nobodyAtHome(t, w, through) })
			}
		})
	}
}

// nobodyAtHome kills every hub. The shipped configuration then answers for them, so that clients come back.
func nobodyAtHome(t *testing.T, w *world, through string) {
	t.Helper()
	v := play(t, plan{
		hubs: []string{through}, direct: w.urls(), clients: 60, rate: 200, before: time.Second, afterward: time.Second,
		fail: func(*run) {
			for _, h := range w.hubs {
				h.Kill()
			}
			answersAlone(t, through)
			for _, h := range w.hubs {
				h.Spawn()
			}
			w.leader(t)
		},
	})
	row(t, "kill -9 of every hub, behind nginx", w.mode, v)
}

// answersAlone checks what nginx says when it has nobody to ask.
func answersAlone(t *testing.T, through string) {
	t.Helper()
	res := get(t.Context(), t, through+"?topic=a", "")
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || !regexp.MustCompile(`^retry: [1-9]\d*\n`).Match(body) {
		t.Errorf("a stream without any hub is answered %q, %v", body, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, through, strings.NewReader(url.Values{"topic": {"a"}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", spec.MediaTypeForm)
	req.Header.Set("Authorization", "Bearer "+child.Token(t))
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("a publication without any hub is answered %s", fmt.Sprint(answer.StatusCode, answer.Header))
	}
}
