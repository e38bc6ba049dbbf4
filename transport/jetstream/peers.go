package jetstream

import (
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Who else is there: a node says so every two seconds, and again when it hears of a new one, so that a newcomer
// knows all at once. It says good-bye when it leaves; one that stops without that counts as there for five
// seconds, and is remembered for a quarter of an hour as one that does not answer.
const (
	aliveEvery = 2 * time.Second
	aliveFor   = 5 * time.Second
	missedFor  = 15 * time.Minute
	maxPeers   = 1024
)

// beat is what a node says.
type beat struct {
	Node     string `json:"node"`
	Instance string `json:"instance"`
	Leaving  bool   `json:"leaving,omitempty"`
	Bans     uint64 `json:"bans,omitempty"` // digest of whom it keeps away (ban.go)
}

// peers are the other nodes that this one has heard of. The zero value knows none.
type peers struct {
	mu    sync.Mutex // guards below
	known map[string]peer
	clash time.Time // when another process was last heard under our name
}

type peer struct {
	instance string
	seen     time.Time
}

// hear notes what a node said, and reports whether it is one that was not there before.
func (p *peers) hear(b beat, now time.Time) (arrived bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, known := range p.known {
		if now.Sub(known.seen) > missedFor {
			delete(p.known, name)
		}
	}
	before, ok := p.known[b.Node]
	switch {
	case b.Leaving:
		if before.instance == b.Instance { // not when it has been started again meanwhile
			delete(p.known, b.Node)
		}
		return false
	case !ok && len(p.known) >= maxPeers:
		return false
	case p.known == nil:
		p.known = map[string]peer{}
	}
	p.known[b.Node] = peer{instance: b.Instance, seen: now}
	return !ok || before.instance != b.Instance || now.Sub(before.seen) > aliveFor
}

// alive returns how many are there, and known when each was heard of last, missing ones included.
func (p *peers) alive(now time.Time) (n int, known map[string]time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known = make(map[string]time.Time, len(p.known))
	for name, k := range p.known {
		silent := now.Sub(k.seen)
		if silent <= aliveFor {
			n++
		}
		if silent <= missedFor {
			known[name] = k.seen
		}
	}
	return n, known
}

// clashes reports, once in missedFor, that another process uses our name.
func (p *peers) clashes(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.clash.IsZero() && now.Sub(p.clash) < missedFor {
		return false
	}
	p.clash = now
	return true
}

// Peers is how many other nodes are there; see transport.Cluster.
func (l *Log) Peers() int {
	c := l.control.Load()
	if c == nil {
		return 0
	}
	n, _ := c.peers.alive(time.Now())
	return n
}

// say tells the other nodes that this one is there, or leaves. What cannot be sent now is said again soon.
func (c *control) say(leaving bool) {
	text, err := json.Marshal(beat{Node: c.name, Instance: c.instance, Leaving: leaving, Bans: c.bansDigest()})
	if err == nil {
		err = c.log.nc.Publish(c.base+"alive", text)
	}
	if err == nil && leaving {
		err = c.log.nc.FlushTimeout(time.Second)
	}
	if err != nil {
		c.log.opts.Logger.Debug("control plane: not said", slog.Any("error", err))
	}
}

// hear takes what another node, or this one, said. Called by the client library from one goroutine.
func (c *control) hear(m *nats.Msg) {
	var b beat
	if err := json.Unmarshal(m.Data, &b); err != nil || !validPrefix.MatchString(b.Node) || b.Instance == "" {
		c.log.opts.Logger.Debug("control plane: this is no node", slog.Any("error", err))
		return
	}
	now := time.Now()
	if b.Bans != 0 && b.Bans != c.bansDigest() {
		select {
		case c.differ <- struct{}{}:
		default: // it is about to be looked into
		}
	}
	switch {
	case b.Instance == c.instance:
	case b.Node == c.name && !b.Leaving:
		if c.peers.clashes(now) {
			c.log.opts.Logger.Error(sameName+": orders by name reach both", slog.String("name", c.name))
		}
	case b.Node == c.name:
	case c.peers.hear(b, now):
		select {
		case c.poke <- struct{}{}:
		default: // it is about to
		}
	}
}
