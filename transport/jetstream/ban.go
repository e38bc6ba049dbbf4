package jetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// Bans are carried out by every node, and kept by every node in its memory. Who was not there when one was
// pronounced learns of it from the others: with its beat (peers.go) each node says a digest of the bans that it
// keeps, and one that hears another digest than its own asks all for theirs. A node that starts asks before it serves.

// maxBansAnswer is how many bytes of bans go into one message. A subject alone may be longer.
const maxBansAnswer = 64 << 10

// banOrder is the request that carries a ban to the other nodes.
type banOrder struct {
	From string `json:"from"` // instance, which has carried it out
	transport.Ban
}

// banAnswer is a node's answer to it.
type banAnswer struct {
	Instance string `json:"instance"`
	transport.NodeBanned
}

// bansAnswer is a part of the bans that a node keeps.
type bansAnswer struct {
	Node     string          `json:"node"`
	Instance string          `json:"instance"`
	Bans     []transport.Ban `json:"bans"`
	More     bool            `json:"more,omitempty"` // another message follows
}

// Disconnect carries a ban out on every node; see transport.Cluster. This one needs no bus for it.
func (l *Log) Disconnect(ctx context.Context, b transport.Ban) (transport.Banned, error) {
	if err := b.Validate(); err != nil {
		return transport.Banned{}, fmt.Errorf("jetstream: disconnect: %w", err)
	}
	c := l.control.Load()
	if c == nil || l.isClosed() {
		return transport.Banned{}, fmt.Errorf("jetstream: disconnect: %w", l.orClosed(errNotServed))
	}
	n, err := c.node.Disconnect(ctx, b)
	if err != nil {
		return transport.Banned{}, fmt.Errorf("jetstream: disconnect: %w: %w", transport.ErrRefused, err)
	}
	done := transport.Banned{Streams: n, Nodes: []transport.NodeBanned{{Name: c.name, Answers: true, Streams: n}}}
	order, err := json.Marshal(banOrder{From: c.instance, Ban: b})
	if err != nil {
		return transport.Banned{}, fmt.Errorf("jetstream: disconnect: %w", err)
	}
	silent := c.gather(ctx, verbDisconnect, order, func(m *nats.Msg) (string, bool) {
		var a banAnswer
		if err := json.Unmarshal(m.Data, &a); err != nil || !validPrefix.MatchString(a.Name) || a.Instance == c.instance {
			return "", false
		}
		done.Nodes = append(done.Nodes, a.NodeBanned)
		done.Streams += a.Streams
		return a.Name, true
	})
	for _, name := range silent {
		done.Nodes = append(done.Nodes, transport.NodeBanned{Name: name})
	}
	slices.SortFunc(done.Nodes, func(a, b transport.NodeBanned) int { return cmp.Compare(a.Name, b.Name) })
	return done, nil
}

// carryOut answers the order of another node.
func (c *control) carryOut(ctx context.Context, r micro.Request) error {
	var o banOrder
	err := json.Unmarshal(r.Data(), &o)
	if err == nil {
		err = o.Validate()
	}
	if err != nil {
		return r.Error(codeRefused, clip(err.Error()), nil)
	}
	if o.From == c.instance {
		return nil
	}
	a := banAnswer{Instance: c.instance, NodeBanned: transport.NodeBanned{Name: c.name, Answers: true}}
	if a.Streams, err = c.node.Disconnect(ctx, o.Ban); err != nil {
		a.Error = clip(err.Error())
	}
	return r.RespondJSON(a)
}

// tellBans answers with the bans that this node keeps, in as many messages as they take.
func (c *control) tellBans(r micro.Request) error {
	a := bansAnswer{Node: c.name, Instance: c.instance}
	size := 0
	for _, b := range c.node.Bans() {
		if size > 0 && size+len(b.Subject)+len(b.Subscriber) > maxBansAnswer {
			a.More = true
			if err := r.RespondJSON(a); err != nil {
				return err
			}
			a.Bans, a.More, size = nil, false, 0
		}
		a.Bans = append(a.Bans, b)
		size += len(b.Subject) + len(b.Subscriber) + 100
	}
	return r.RespondJSON(a)
}

// learnBans asks all nodes for their bans and carries out those that are new here.
func (c *control) learnBans(ctx context.Context) {
	have := map[string]bool{}
	for _, b := range c.node.Bans() {
		have[banKey(b)] = true
	}
	var learned []transport.Ban
	c.gather(ctx, verbBans, nil, func(m *nats.Msg) (string, bool) {
		var a bansAnswer
		if err := json.Unmarshal(m.Data, &a); err != nil || !validPrefix.MatchString(a.Node) || a.Instance == c.instance {
			return "", false
		}
		for _, b := range a.Bans {
			if b.Validate() == nil && !have[banKey(b)] {
				have[banKey(b)] = true
				learned = append(learned, b)
			}
		}
		return a.Node, !a.More
	})
	for _, b := range learned {
		n, err := c.node.Disconnect(ctx, b)
		if err != nil {
			c.log.opts.Logger.Warn("a ban learned from another node is not carried out", slog.Any("error", err))
			continue
		}
		c.log.opts.Logger.Info("learned from another node whom to keep away", slog.Int("streams", n), slog.Duration("for", b.For))
	}
}

// banKey tells bans apart: by their subject, and by whether all of its streams had to end or a single one.
func banKey(b transport.Ban) string {
	if b.Subscriber != "" {
		return b.Subject + "\x00"
	}
	return b.Subject
}

// bansDigest is a number that differs between nodes that keep different bans; 0 = none.
func (c *control) bansDigest() (sum uint64) {
	for _, b := range c.node.Bans() {
		h := fnv.New64a()
		_, _ = h.Write([]byte(banKey(b))) // never fails
		sum ^= h.Sum64()
	}
	return sum
}
