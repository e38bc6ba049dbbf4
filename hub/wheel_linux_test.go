package hub

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestDueWheelIsNeverLate plays hours of a shard at random, and looks at every step whether the wheel says what a plain list of
// times says: the shard is woken in time, who is due first comes first, nobody is lost.
//
// Covers: SUB-33, SUB-35.
func TestDueWheelIsNeverLate(t *testing.T) {
	for seed := range uint64(8) {
		p := &wheelPlay{t: t, rnd: rand.New(rand.NewPCG(seed, 115)), now: time.Now()}
		p.wheel = newDueWheel(p.now)
		for range 20_000 {
			p.step()
			p.check()
		}
		for _, s := range slices.Clone(p.streams) {
			p.remove(s)
		}
		if at, ok := p.wheel.next(); ok || p.wheel.count != 0 || len(p.wheel.all()) != 0 {
			t.Fatalf("seed %d: %d streams left, next %v", seed, p.wheel.count, at)
		}
	}
}

type wheelPlay struct {
	t       *testing.T
	rnd     *rand.Rand
	now     time.Time
	wheel   *dueWheel
	streams []*subscriber
}

// when is a time of one of the kinds that there are: about now, a heartbeat, a lifetime, past, never asked for.
func (p *wheelPlay) when() time.Time {
	d := []time.Duration{
		0, 50 * time.Millisecond, 100 * time.Millisecond, time.Second, 15 * time.Second, wheelTurn, time.Minute, 24 * time.Hour,
	}[p.rnd.IntN(8)]
	at := p.now.Add(time.Duration(p.rnd.Int64N(int64(2*time.Second+d))) - time.Second/2)
	switch p.rnd.IntN(20) {
	case 0:
		return at.Round(0).Truncate(time.Second) // an exp, which the wall clock tells
	case 1:
		return time.Time{}
	case 2:
		return p.now.AddDate(500, 0, 0)
	case 3:
		return p.now.Add(wheelTurn + time.Duration(p.rnd.IntN(3)-1)<<wheelShift)
	}
	return at
}

func (p *wheelPlay) step() {
	switch k := p.rnd.IntN(10); {
	case len(p.streams) == 0 || k == 0 && len(p.streams) < 200:
		s := &subscriber{}
		s.place, s.at = absent, p.when()
		p.wheel.add(s)
		p.streams = append(p.streams, s)
	case k == 1:
		p.remove(p.any())
	case k < 6:
		p.wheel.schedule(p.any(), p.when())
	default:
		p.pass()
	}
}

// pass lets time go by, to the next time to look or as something else comes up, and does what is due.
func (p *wheelPlay) pass() {
	d := time.Duration(p.rnd.Int64N(int64(40 * time.Millisecond)))
	if p.rnd.IntN(50) == 0 {
		d = time.Duration(p.rnd.Int64N(int64(3 * wheelTurn)))
	}
	if at, ok := p.wheel.next(); ok && p.rnd.IntN(3) == 0 {
		d = max(0, at.Sub(p.now))
	}
	p.now = p.now.Add(min(d, time.Hour))
	for s := p.wheel.advance(p.now); s != nil && !p.now.Before(s.at); s = p.wheel.first() {
		if at := p.when(); p.now.Before(at) {
			p.wheel.schedule(s, at)
		} else {
			p.remove(s)
		}
	}
}

func (p *wheelPlay) any() *subscriber { return p.streams[p.rnd.IntN(len(p.streams))] }

func (p *wheelPlay) remove(s *subscriber) {
	p.wheel.remove(s)
	p.wheel.remove(s) // a second time does nothing
	p.streams = slices.DeleteFunc(p.streams, func(other *subscriber) bool { return other == s })
}

func (p *wheelPlay) check() {
	p.t.Helper()
	if all := p.wheel.all(); len(all) != len(p.streams) || p.wheel.count != len(p.streams) {
		p.t.Fatalf("%d streams, count %d; %d are there", len(all), p.wheel.count, len(p.streams))
	}
	if len(p.streams) == 0 {
		return
	}
	soonest := slices.MinFunc(p.streams, func(a, b *subscriber) int { return a.at.Compare(b.at) }).at
	if at, ok := p.wheel.next(); !ok || at.After(soonest) {
		p.t.Fatalf("looks next at %v, %v; but a stream is due at %v", at, ok, soonest)
	}
	if s := p.wheel.advance(p.now); !soonest.After(p.now) && (s == nil || !s.at.Equal(soonest)) {
		p.t.Fatal("a stream is due, and is not the first")
	}
}
