//go:build linux

package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// verdict is what became of a run.
type verdict struct {
	run                     *run
	attempts, acked, stored int
	deliveries, reconnects  int

	lost      int // deliveries that a client should have had
	doubled   int // deliveries beyond the first
	disorder  int // deliveries after one of a later place in the log, without saying so
	late      int // deliveries after one of a later place in the log that say so (SSE-C09)
	alien     int // updates that the client did not select, or of nobody
	closed    int // clients that gave up
	refused   int // cursors that a hub did not find
	missing   int // acknowledged updates that are not in the log
	twice     int // updates that are in the log more than once
	misplaced int // updates of one publisher out of its order, or under another id than acknowledged

	publishStall  time.Duration // longest time from an update's first attempt to its acknowledgement
	ackGap        time.Duration // longest time in which no publisher on any node was acknowledged
	deliveryStall time.Duration // longest time from an acknowledgement to a delivery
	silence       time.Duration // longest time between two deliveries to a client that hears everything
	unavailable   int           // answers 503
	cut           int           // publications that a network error ended

	details []string // of what is wrong, the first few
}

// maxDetails is how many faults are told in full.
const maxDetails = 12

func (v *verdict) tell(format string, args ...any) {
	if len(v.details) < maxDetails {
		v.details = append(v.details, fmt.Sprintf(format, args...))
	}
}

// judge compares what was acknowledged with the log, and every delivery with both.
func judge(log []logged, attempts []attempt, sources []*source) verdict {
	v := verdict{attempts: len(attempts), stored: len(log)}
	place := v.judgeLog(log, attempts)
	v.ackGap = longestGap(attempts)
	for _, s := range sources {
		v.judgeSource(s, log, place, attempts)
	}
	return v
}

// longestGap is the longest time between two acknowledgements.
func longestGap(attempts []attempt) (longest time.Duration) {
	var acks []time.Duration
	for _, a := range attempts {
		if a.acked > 0 {
			acks = append(acks, a.acked)
		}
	}
	slices.Sort(acks)
	for i := 1; i < len(acks); i++ {
		longest = max(longest, acks[i]-acks[i-1])
	}
	return longest
}

// judgeLog returns each update's place in the log, by its number.
func (v *verdict) judgeLog(log []logged, attempts []attempt) map[int]int {
	place := make(map[int]int, len(log))
	newest := map[int]int{} // by worker
	for i, l := range log {
		if l.seq < 0 || l.seq >= len(attempts) {
			v.alien++
			v.tell("the log has update %d, which nobody published", l.seq)
			continue
		}
		if at, ok := place[l.seq]; ok {
			v.twice++
			v.tell("update %d is in the log twice, as %d and %d", l.seq, at, i)
			continue
		}
		place[l.seq] = i
		a := attempts[l.seq]
		if a.acked > 0 && a.id != l.id {
			v.misplaced++
			v.tell("update %d was acknowledged as %s and is in the log as %s", l.seq, a.id, l.id)
		}
		if a.acked == 0 {
			continue // it may have been stored long after its publisher went on
		}
		if before, ok := newest[a.worker]; ok && l.seq < before {
			v.misplaced++
			v.tell("update %d of publisher %d is in the log after its %d", l.seq, a.worker, before)
		}
		newest[a.worker] = max(newest[a.worker], l.seq)
	}
	for seq, a := range attempts {
		if a.acked == 0 {
			continue
		}
		v.acked++
		if _, ok := place[seq]; !ok {
			v.missing++
			v.tell("update %d (%s) was acknowledged at %v and is not in the log", seq, a.id, a.acked)
		}
	}
	return place
}

// judgeSource checks one client. One that gave up is only held to what it had until then.
func (v *verdict) judgeSource(s *source, log []logged, place map[int]int, attempts []attempt) {
	v.deliveries += len(s.got)
	v.reconnects += int(s.reconnects.Load())
	v.alien += s.alien
	v.refused += len(s.refused)
	for _, r := range s.refused {
		v.tell("%s: cursor not found: %s", s.name, r)
	}
	if why := s.closed.Load(); why != nil {
		v.closed++
		v.tell("%s gave up: %s", s.name, *why)
	}
	seen := make(map[int]bool, len(s.got))
	highest, before := -1, time.Duration(0)
	for _, g := range s.got {
		at, ok := place[g.seq]
		if !ok || !s.wants(attempts[g.seq].topics) {
			if ok || g.seq < len(attempts) && attempts[g.seq].acked > 0 {
				v.alien++
				v.tell("%s received update %d, which is not for it or not in the log", s.name, g.seq)
			}
			continue
		}
		switch {
		case seen[g.seq]:
			v.doubled++
			v.tell("%s received update %d twice, the second time at %v", s.name, g.seq, g.at)
		case at < highest && g.id != log[at].id:
			v.late++
			v.tell("%s received update %d (place %d) late at %v, after place %d", s.name, g.seq, at, g.at, highest)
		case at < highest:
			v.disorder++
			v.tell("%s received update %d (place %d) at %v after place %d", s.name, g.seq, at, g.at, highest)
		}
		seen[g.seq] = true
		highest = max(highest, at)
		if acked := attempts[g.seq].acked; acked > 0 {
			v.deliveryStall = max(v.deliveryStall, g.at-acked)
		}
		if s.selectors[0] == "*" && before > 0 {
			v.silence = max(v.silence, g.at-before)
		}
		before = g.at
	}
	v.judgeLosses(s, log, attempts, seen, highest)
}

func (v *verdict) judgeLosses(s *source, log []logged, attempts []attempt, seen map[int]bool, highest int) {
	for i, l := range log {
		if l.seq < 0 || l.seq >= len(attempts) || seen[l.seq] || !s.wants(attempts[l.seq].topics) {
			continue
		}
		if s.closed.Load() != nil && i > highest {
			return
		}
		v.lost++
		v.tell("%s lost update %d (place %d of %d, %s, acknowledged at %v)", s.name, l.seq, i, len(log), l.id, attempts[l.seq].acked)
		seen[l.seq] = true
	}
}

// add takes over what the publishers saw.
func (r *run) add(v *verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.publishStall, v.unavailable, v.cut = r.publishStall, r.unavailable, r.cut
	for _, w := range r.wrong {
		v.misplaced++
		v.tell("a publisher was answered %s", w)
	}
}

// faults is how much must not be.
func (v *verdict) faults() int {
	return v.lost + v.doubled + v.disorder + v.alien + v.closed + v.refused + v.missing + v.twice + v.misplaced
}

// require fails the test for everything but late deliveries, which are reported.
func (v *verdict) require(t *testing.T) {
	t.Helper()
	if v.faults() > 0 {
		t.Errorf("%d deliveries lost, %d doubled, %d out of order, %d of what was not asked for; %d clients gave up, %d cursors were not found; "+
			"%d acknowledged updates are not in the log, %d are there twice, %d are out of their publisher's order or were wrongly answered",
			v.lost, v.doubled, v.disorder, v.alien, v.closed, v.refused, v.missing, v.twice, v.misplaced)
	}
	if v.acked == 0 || v.deliveries == 0 {
		t.Errorf("%d updates acknowledged, %d delivered: nothing was tried", v.acked, v.deliveries)
	}
	for _, d := range v.details {
		t.Log(d)
	}
}
