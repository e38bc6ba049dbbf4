package hub

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// presence keeps the directory of subscribers, and the events that tell of them, true to the streams of this node.
// A stream's consumer only says that it has come or gone; workers do the rest, one connection's steps in order:
//
//	join ─► Enter ─► active events ─►  …  ─► leave ─► Leave ─► inactive events
//	           │                               │
//	           └─ failed: again, later         └─ held for the rejoin grace: may join again, and nothing is told
//
// So whoever hears of a subscription finds it listed, and whoever has read a list and the log's end before it misses
// nothing (ACT-11, ACT-19). What is waiting is bounded by the streams there are, and maxWaiting of those that have ended.
type presence struct {
	// static after construction
	hub  *Hub
	dir  transport.Directory
	wake chan struct{} // capacity 1: the dispatcher has something to look at

	workers sync.WaitGroup // started by the dispatcher, which waits for them

	// guarded by mu
	mu       sync.Mutex
	members  map[*member]struct{} // of open streams, held ones, and those that are not done
	waiting  []*member            // with something to do, first come first served
	running  int                  // workers
	attended bool                 // the directory is kept: workers may run
	epoch    uint64               // counts the times this node was taken for dead
	failures int                  // in a row
	again    time.Time            // nothing is tried before, after a failure
	turn     time.Time            // when the next step may be taken while publishers are at work
	done     uint64               // steps taken
	quiet    []chan struct{}      // closed when nothing waits and nobody works
	closing  bool                 // the hub ends
	held     heldMembers
}

// member is one connection as the directory and the watchers know it, or are about to.
type member struct {
	presence transport.Presence
	issuer   string        // of the token that its subject is in, empty for a classic one
	others   []counterpart // its subscriptions in the other generation's form, if they are told of so, too

	// guarded by presence.mu
	here   bool // its stream is open, or it is held
	fresh  bool // it has yet to be told of, even if its stream is over already
	busy   bool // waiting, or with a worker
	listed listing
	epoch  uint64 // of the listing
	told   int    // active events appended
	unsure bool   // the next one was tried, whatever came of it: one inactive event too many does no harm
	bye    int    // inactive events yet to be appended
	hold   *hold  // while it is held
}

// listing is what is known of a member's entry in the directory.
type listing uint8

const (
	unlisted    listing = iota
	maybeListed         // Enter failed, whatever came of it
	listed
)

const (
	workersServing = 8    // that write at a time: a storm of connections leaves the log to publishers
	workersLeaving = 64   // when the node is on its way out and nobody else needs it
	stepsPerSecond = 2000 // while publishers are at work
	stepPatience   = 5 * time.Second
	maxWaiting     = 1 << 16 // ended streams that wait for a log or directory that fails; more are given up
	firstRetry     = 50 * time.Millisecond
	lastRetry      = 5 * time.Second
)

func newPresence(h *Hub) *presence {
	return &presence{
		hub: h, dir: h.o.Directory, wake: make(chan struct{}, 1),
		members: map[*member]struct{}{}, held: newHeldMembers(),
	}
}

// join announces a stream that has begun: it returns at once (ACT-11).
func (p *presence) join(s *subscriber) {
	one := transport.Presence{
		Subscriber: "urn:uuid:" + uuid.NewString(), Subject: s.grant.Subject, Selectors: s.selectors, Since: time.Now(),
	}
	one.Payload, one.Payloads = payloads(s.grant, s.selectors)
	others := p.counterparts(&one)
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.rejoin(&one, s.grant.Issuer); m != nil {
		s.member.Store(m)
		return
	}
	m := &member{presence: one, issuer: s.grant.Issuer, others: others, here: true, fresh: true}
	p.members[m] = struct{}{}
	s.member.Store(m)
	p.enqueue(m)
}

// leave tells that the stream of s has been removed; it returns at once.
func (p *presence) leave(s *subscriber, why endReason) {
	m := s.member.Swap(nil)
	if m == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keep(m, why) {
		return
	}
	p.part(m)
}

// part takes a member's leave. However short its stream was, it is told of, unless that fails, or too many wait. The lock
// is held.
func (p *presence) part(m *member) {
	m.here = false
	m.fresh = m.fresh && p.failures == 0 && len(p.waiting) < maxWaiting
	p.enqueue(m)
}

// enqueue lets a worker look at m. The lock is held.
func (p *presence) enqueue(m *member) {
	if !m.busy {
		m.busy = true
		p.waiting = append(p.waiting, m)
		p.hub.metrics.PresenceWaiting.Set(float64(len(p.waiting)))
		if p.running < p.limit() {
			p.poke()
		}
	}
}

func (p *presence) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// step is one thing to do for a member.
type step uint8

const (
	stepNone step = iota
	stepEnter
	stepActive
	stepLeave
	stepInactive
)

// String returns the label of a step that failed.
func (s step) String() string { return [...]string{"none", "enter", "active", "leave", "inactive"}[s] }

// next says what m needs; with nothing left, it is not busy any more, and forgotten if its stream has ended.
func (p *presence) next(m *member) (s step, event int, epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	current, all := m.listed == listed && m.epoch == p.epoch, len(m.presence.Selectors)+len(m.others)
	m.fresh = m.fresh && (!current || m.told < all)
	switch {
	case (m.here || m.fresh) && !current:
		return stepEnter, 0, p.epoch
	case (m.here || m.fresh) && m.told < all:
		m.unsure = true
		return stepActive, m.told, 0
	case !m.here && m.listed != unlisted:
		return stepLeave, 0, 0
	case !m.here && m.bye > 0:
		return stepInactive, m.bye - 1, 0
	}
	p.finish(m)
	return stepNone, 0, 0
}

// finish lets go of a member for which nothing is left to do. The lock is held.
func (p *presence) finish(m *member) {
	m.busy = false
	if !m.here {
		delete(p.members, m)
	}
}

// take takes a step and notes what came of it.
func (p *presence) take(ctx context.Context, m *member, s step, event int, epoch uint64) error {
	ctx, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	switch s {
	case stepEnter:
		err := p.dir.Enter(ctx, m.presence)
		p.entered(m, epoch, err)
		return err
	case stepLeave:
		there, err := p.dir.Leave(ctx, m.presence.Subscriber)
		if err == nil {
			p.left(m, there)
		}
		return err
	default:
		err := p.tell(ctx, m, event, s == stepActive)
		if err != nil && !errors.Is(err, transport.ErrTooLarge) { // such a one never fits
			return err
		}
		p.appended(m, s)
		return nil
	}
}

// entered notes the outcome of an Enter that was begun in an epoch.
func (p *presence) entered(m *member, epoch uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		m.listed = max(m.listed, maybeListed)
		return
	}
	if m.listed != listed {
		p.hub.metrics.Presences.Inc()
	}
	if m.epoch != epoch { // watchers were told that the former entry is over
		m.told, m.unsure = 0, false
	}
	m.listed, m.epoch = listed, epoch
}

// left notes that m is listed no more. Somebody else who has cleared it has told the watchers as well.
func (p *presence) left(m *member, there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.listed == listed {
		p.hub.metrics.Presences.Dec()
	}
	m.listed, m.bye = unlisted, 0
	if there {
		m.bye = m.told
		if m.unsure {
			m.bye++
		}
	}
}

// appended notes that an event of m is in the log.
func (p *presence) appended(m *member, s step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s == stepActive {
		m.told++
		m.unsure = false
	} else {
		m.bye--
	}
}

// tell appends one of m's events.
func (p *presence) tell(ctx context.Context, m *member, event int, active bool) error {
	u := p.event(&m.presence, m.others, event, active)
	if _, err := p.hub.o.Transport.Append(ctx, u); err != nil {
		return err
	}
	p.hub.metrics.SubscriptionEvents.Inc()
	return nil
}

// lost is told that this node was taken for dead: its entries are gone and watchers were told so. Open streams are
// entered again, and announced again, under the ids they have; whoever is held is gone.
func (p *presence) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	p.hub.log.Warn("this node was taken for dead: its subscribers are entered again", "subscribers", len(p.members))
	for m := range p.members {
		if m.hold != nil {
			p.held.drop(m)
			m.here, m.fresh = false, false
		}
		p.enqueue(m)
	}
}
