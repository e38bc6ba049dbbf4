package jetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/transport"
)

const (
	gatherQuiet    = 100 * time.Millisecond // after the last answer, when all that are known have answered
	gatherPatience = time.Second            // for those that are known and do not answer
	gatherBuffer   = maxPeers
	streamPatience = 2 * time.Second
)

// Cluster asks all nodes and the stream; see transport.Cluster.
func (l *Log) Cluster(ctx context.Context) (transport.ClusterState, error) {
	c := l.control.Load()
	if c == nil || l.isClosed() {
		return transport.ClusterState{}, fmt.Errorf("jetstream: cluster: %w", l.orClosed(errNotServed))
	}
	var (
		state = transport.ClusterState{Node: c.name}
		both  sync.WaitGroup
	)
	both.Go(func() { state.Stream = c.askStream(ctx) })
	both.Go(func() { state.Nodes = c.askNodes(ctx) })
	both.Wait()
	if err := ctx.Err(); err != nil {
		return transport.ClusterState{}, fmt.Errorf("jetstream: cluster: %w", context.Cause(ctx))
	}
	state.Nodes = c.withSilent(state.Nodes, state.Stream)
	for i, n := range state.Nodes {
		if last := state.Stream.Last; n.Answers && state.Stream.Error == "" && last > n.Position {
			state.Nodes[i].Lag = uint64(last - n.Position)
		}
	}
	return state, nil
}

// askNodes asks all nodes at once. This one needs no bus for it.
func (c *control) askNodes(ctx context.Context) []transport.Node {
	nodes := []transport.Node{c.self(ctx)}
	c.gather(ctx, verbStatus, nil, func(m *nats.Msg) (string, bool) {
		var n transport.Node
		if err := json.Unmarshal(m.Data, &n); err != nil || !validPrefix.MatchString(n.Name) || n.Instance == c.instance {
			return "", false
		}
		n.Seen = time.Now() // by our clock, as for those that do not answer
		nodes = append(nodes, n)
		return n.Name, true
	})
	return nodes
}

// gather sends a request to all nodes at once and hands every answer to take, which tells whose it is if it was that
// node's last one. It waits for the nodes that have been heard of, and returns those that have not answered by name.
func (c *control) gather(ctx context.Context, verb string, request []byte, take func(*nats.Msg) (node string, last bool)) (silent []string) {
	_, waiting := c.peers.alive(time.Now())
	defer func() { silent = slices.Sorted(maps.Keys(waiting)) }()
	answers := make(chan *nats.Msg, gatherBuffer)
	inbox := nats.NewInbox()
	sub, err := c.log.nc.ChanSubscribe(inbox, answers)
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }() // a connection that has ended has no subscriptions
		err = c.log.nc.PublishRequest(c.base+verb, inbox, request)
	}
	if err != nil {
		c.log.opts.Logger.Warn("control plane: the other nodes cannot be asked", slog.Any("error", err))
		return nil
	}
	patience := time.NewTimer(gatherPatience)
	defer patience.Stop()
	quiet := time.NewTimer(gatherQuiet)
	defer quiet.Stop()
	for {
		calm := quiet.C
		if len(waiting) > 0 {
			calm = nil
		}
		select {
		case m := <-answers:
			if node, last := take(m); last {
				delete(waiting, node)
				quiet.Reset(gatherQuiet)
			}
		case <-calm:
			return nil
		case <-patience.C:
			return nil
		case <-ctx.Done():
			return nil
		case <-c.log.closed:
			return nil
		}
	}
}

// withSilent adds the nodes that should be there and have not answered: those that were heard of, and in a cluster
// of embedded servers those that have a copy of the stream.
func (c *control) withSilent(nodes []transport.Node, s transport.Stream) []transport.Node {
	_, known := c.peers.alive(time.Now())
	if c.log.opts.Cluster != nil {
		for _, r := range s.Replicas {
			if _, heard := known[r.Name]; !heard && validPrefix.MatchString(r.Name) {
				known[r.Name] = time.Time{}
			}
		}
	}
	for _, n := range nodes {
		delete(known, n.Name)
	}
	for name, seen := range known {
		nodes = append(nodes, transport.Node{Name: name, Seen: seen})
	}
	slices.SortFunc(nodes, func(a, b transport.Node) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Instance, b.Instance))
	})
	return nodes
}

// lastStream is the stream as it was last read.
type lastStream struct {
	mu    sync.Mutex // guards below
	known transport.Stream
}

// askStream reads the stream, or tells why not and what was known last.
func (c *control) askStream(ctx context.Context) transport.Stream {
	ctx, cancel := context.WithTimeout(ctx, streamPatience)
	defer cancel()
	name := c.log.opts.Prefix
	stream, err := c.log.js.Stream(ctx, name)
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	if err == nil {
		info := stream.CachedInfo()
		if c.log.opts.mode() == modeStandalone || info.Cluster == nil { // the server is this node
			info.Cluster = &jetstream.ClusterInfo{Leader: c.name}
		}
		c.stream.known = describe(info)
		return clone(c.stream.known)
	}
	s := clone(c.stream.known)
	s.Name, s.Error, s.Quorum, s.Leader = name, clip(err.Error()), false, ""
	for i := range s.Replicas {
		s.Replicas[i].Leader, s.Replicas[i].Current = false, false
	}
	return s
}

// clone returns a copy of s with replicas of its own.
func clone(s transport.Stream) transport.Stream {
	s.Replicas = slices.Clone(s.Replicas)
	return s
}

// serverName shortens what the server says in place of the name of one that it has not met since it was started.
func serverName(name string) string {
	id, unmet := strings.CutPrefix(name, "Server name unknown at this time (peerID: ")
	if !unmet {
		return name
	}
	return "not met: " + strings.TrimSuffix(id, ")")
}

// describe says what the server told.
func describe(info *jetstream.StreamInfo) transport.Stream {
	s := transport.Stream{
		Name: info.Config.Name, First: transport.Position(info.State.FirstSeq), Last: transport.Position(info.State.LastSeq),
		Updates: info.State.Msgs, Bytes: info.State.Bytes,
	}
	if s.Updates == 0 {
		s.First = s.Last + 1
	}
	there := 0
	if s.Leader = info.Cluster.Leader; s.Leader != "" {
		there++
		s.Replicas = append(s.Replicas, transport.Replica{Name: s.Leader, Leader: true, Current: true})
	}
	for _, p := range info.Cluster.Replicas {
		// the servers call one current for ten seconds after it was last heard of
		r := transport.Replica{Name: serverName(p.Name), Offline: p.Offline || p.Active >= peerSilence, Lag: p.Lag, Active: p.Active}
		if r.Current = p.Current && !r.Offline; !r.Offline {
			there++
		}
		s.Replicas = append(s.Replicas, r)
	}
	s.Quorum = s.Leader != "" && 2*there > max(info.Config.Replicas, len(s.Replicas))
	slices.SortFunc(s.Replicas, func(a, b transport.Replica) int { return cmp.Compare(a.Name, b.Name) })
	return s
}
