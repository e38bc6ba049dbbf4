//go:build linux

package cluster_test

import (
	"fmt"
	"testing"
	"time"
)

// A judge that sees nothing would find every hub good: each fault, made by hand, must be counted.
func TestTheJudgeSeesEveryFault(t *testing.T) {
	const n = 8
	all := taste{[]string{"*"}, func(string) bool { return true }}
	one := taste{[]string{"a"}, func(topic string) bool { return topic == "a" }}
	id := func(seq int) string { return fmt.Sprint("id", seq) }
	for _, c := range []struct {
		name   string
		change func(log *[]logged, attempts []attempt, got *[]receipt, s *source)
		count  func(verdict) int
		want   int
	}{
		{"nothing", func(*[]logged, []attempt, *[]receipt, *source) {}, func(v verdict) int { return v.faults() }, 0},
		{"lost", func(_ *[]logged, _ []attempt, got *[]receipt, _ *source) {
			*got = append((*got)[:3], (*got)[5:]...)
		}, func(v verdict) int { return v.lost }, 2},
		{"lost at the end", func(_ *[]logged, _ []attempt, got *[]receipt, _ *source) { *got = (*got)[:n-1] }, func(v verdict) int { return v.lost }, 1},
		{"lost although never acknowledged", func(_ *[]logged, a []attempt, got *[]receipt, _ *source) {
			a[2].acked = 0
			*got = append((*got)[:2], (*got)[3:]...)
		}, func(v verdict) int { return v.lost }, 1},
		{"doubled", func(_ *[]logged, _ []attempt, got *[]receipt, _ *source) { *got = append(*got, (*got)[4]) }, func(v verdict) int { return v.doubled }, 1},
		{"out of order", func(_ *[]logged, _ []attempt, got *[]receipt, _ *source) {
			(*got)[3], (*got)[4] = (*got)[4], (*got)[3]
		}, func(v verdict) int { return v.disorder }, 1},
		{"late", func(_ *[]logged, _ []attempt, got *[]receipt, _ *source) {
			(*got)[3], (*got)[4] = (*got)[4], (*got)[3]
			(*got)[4].id = id(5)
		}, func(v verdict) int { return v.late }, 1},
		{"not selected", func(_ *[]logged, a []attempt, _ *[]receipt, s *source) {
			s.taste = one
			a[6].topics = []string{"b"}
		}, func(v verdict) int { return v.alien }, 1},
		{"not in the log", func(log *[]logged, _ []attempt, _ *[]receipt, _ *source) { *log = append((*log)[:3], (*log)[4:]...) }, func(v verdict) int { return v.missing }, 1},
		{"in the log twice", func(log *[]logged, _ []attempt, _ *[]receipt, _ *source) { *log = append(*log, (*log)[2]) }, func(v verdict) int { return v.twice }, 1},
		{"a publisher's order", func(log *[]logged, _ []attempt, got *[]receipt, _ *source) {
			(*log)[2], (*log)[3] = (*log)[3], (*log)[2]
			(*got)[2], (*got)[3] = (*got)[3], (*got)[2]
		}, func(v verdict) int { return v.misplaced }, 1},
		{"acknowledged under another id", func(_ *[]logged, a []attempt, _ *[]receipt, _ *source) { a[1].id = "other" }, func(v verdict) int { return v.misplaced }, 1},
		{"gave up, and is held to what it had", func(_ *[]logged, _ []attempt, got *[]receipt, s *source) {
			why := "status 503"
			s.closed.Store(&why)
			*got = (*got)[:4]
		}, func(v verdict) int { return v.closed*100 + v.lost }, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log []logged
			var attempts []attempt
			var got []receipt
			for i := range n {
				at := time.Duration(i+1) * time.Millisecond
				attempts = append(attempts, attempt{topics: []string{"a"}, acked: at, id: id(i)})
				log = append(log, logged{i, id(i), i == n-1})
				got = append(got, receipt{i, id(i), at + time.Millisecond})
			}
			s := &source{taste: all}
			c.change(&log, attempts, &got, s)
			s.got = got
			v := judge(log, attempts, []*source{s})
			if n := c.count(v); n != c.want {
				t.Errorf("%d, want %d: %+v", n, c.want, v)
			}
			if c.want > 0 && v.faults()+v.late == 0 {
				t.Errorf("no fault in %+v", v)
			}
		})
	}
}

// What the swarm believes of selectors, and what is published, must not miss each other.
func TestEveryClientWantsSomethingAndEveryUpdateSomebody(t *testing.T) {
	all := tastes(60)
	for _, c := range all {
		n := 0
		for _, k := range kinds {
			if c.wants(k) {
				n++
			}
		}
		if n == 0 {
			t.Errorf("%v matches nothing", c.selectors)
		}
	}
	for _, k := range kinds {
		n := 0
		for _, c := range all {
			if c.selectors[0] != "*" && c.wants(k) {
				n++
			}
		}
		if n == 0 {
			t.Errorf("only * matches %v", k)
		}
	}
}
