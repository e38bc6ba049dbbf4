package transport

import (
	"context"
	"errors"
	"time"
)

// Errors of a Cluster, beside ErrUnavailable and ErrClosed.
var (
	ErrNoNode  = errors.New("no node of this name answers")
	ErrRefused = errors.New("the node refuses") // wrapped with its reason
)

// Cluster is what a log that several nodes may share tells of them, and how it passes orders on. A log with one
// node is a cluster of one. All methods are safe for concurrent use.
type Cluster interface {
	// Serve lets the other nodes ask c, until the log closes. It returns when they can; a second call is an error.
	Serve(ctx context.Context, c NodeControl) error
	// Node names this node, and how the log is kept: standalone, cluster or external. Both never change.
	Node() (name, mode string)
	// Cluster asks every node and the stream. Who does not answer within about a second is told as such, and so is
	// a stream that cannot be read: an error means that this node does not serve (yet, or any more).
	Cluster(ctx context.Context) (ClusterState, error)
	// DrainNode makes the node called name refuse new streams and end those it has; it returns when that has begun.
	// Errors: ErrNoNode at once when there is none, ErrRefused, ErrUnavailable when it does not answer.
	DrainNode(ctx context.Context, name string) error
	// UndrainNode takes the node into service again. Errors as DrainNode.
	UndrainNode(ctx context.Context, name string) error
	// Disconnect carries b out on every node. Each keeps it in its memory until it is over, and the nodes compare
	// what they keep every two seconds, so that one that starts later, or was cut off, learns of it; the end of the
	// last node that knows a ban ends it. Who does not answer within about a second is told as such.
	// Errors: ErrBan, ErrRefused when this node itself does not carry it out, ErrUnavailable, ErrClosed.
	Disconnect(ctx context.Context, b Ban) (Banned, error)
	// Peers is how many other nodes have been heard of within the last five seconds; it does no I/O. A node that
	// is cut off from the bus hears of none.
	Peers() int
}

// NodeControl is what a hub lets its cluster ask. Its methods are called from any goroutine and must not wait
// for streams to end.
type NodeControl interface {
	Report(ctx context.Context) NodeReport
	Drain(ctx context.Context) error   // begins, and returns
	Undrain(ctx context.Context) error // an error is shown to the operator
	// Disconnect tells the streams that b is about to end, and keeps who it is about away for b.For, or for longer if
	// that was said before. It returns how many were told.
	Disconnect(ctx context.Context, b Ban) (streams int, err error)
	// Bans are those in force that keep somebody away, each with the time that is left.
	Bans() []Ban
}

// NodeReport is what a hub tells of itself.
type NodeReport struct {
	Version     string    `json:"version"`
	Started     time.Time `json:"started"`
	Ready       bool      `json:"ready"`
	Reason      string    `json:"reason,omitempty"` // why it is not ready
	Draining    bool      `json:"draining"`
	Connections int       `json:"connections"` // streams open now
}

// ClusterState is a cluster as one of its nodes sees it.
type ClusterState struct {
	Node   string `json:"node"`  // that was asked
	Nodes  []Node `json:"nodes"` // by name
	Stream Stream `json:"stream"`
}

// Node is one hub process. Of one that does not answer only Name and Seen are known.
type Node struct {
	Name     string    `json:"name"`
	Instance string    `json:"instance,omitempty"` // another one after each start
	Answers  bool      `json:"answers"`
	Seen     time.Time `json:"seen,omitzero"` // when it was last heard of; zero = not since this node started
	NodeReport
	Mode     string   `json:"mode"`     // how the log is kept: standalone, cluster, external
	Follower string   `json:"follower"` // all, interest; empty before the hub follows
	Filters  int      `json:"filters"`  // subjects that the follower has subscribed
	Position Position `json:"position"` // up to where the hub has what it follows
	Lag      uint64   `json:"lag"`      // from there to the end of the log, 0 when that is not known
	// SuspectSince is since when an interest follower has not been sure that nothing was lost; zero = it is sure.
	SuspectSince time.Time `json:"suspect_since,omitzero"`
	Counts       Counts    `json:"counts"`
}

// Counts are the counters of a node's Stats that tell of a cluster's health, since its start.
type Counts struct {
	Appends       uint64            `json:"appends"`
	AppendRetries uint64            `json:"append_retries"`
	AppendErrors  uint64            `json:"append_errors"`
	Followed      uint64            `json:"followed"`
	BusMessages   uint64            `json:"bus_messages"`
	Suspected     map[string]uint64 `json:"suspected,omitempty"`
	Reread        uint64            `json:"reread"`
	Late          uint64            `json:"late"`
	Lost          uint64            `json:"lost"`
}

// Stream is where the log is kept.
type Stream struct {
	Name     string    `json:"name"`
	Error    string    `json:"error,omitempty"` // why it could not be read; the rest is then as it was known last
	Quorum   bool      `json:"quorum"`          // a leader, and more than half of the replicas are there: it takes appends
	Leader   string    `json:"leader"`          // server that takes appends; empty = none. In standalone and cluster mode, a node
	Replicas []Replica `json:"replicas"`        // by name, the leader included
	First    Position  `json:"first"`           // as Span
	Last     Position  `json:"last"`
	Updates  uint64    `json:"updates"` // retained
	Bytes    uint64    `json:"bytes"`
}

// Replica is a server with a copy of the stream.
type Replica struct {
	Name    string        `json:"name"`
	Leader  bool          `json:"leader"`
	Current bool          `json:"current"`   // has everything
	Offline bool          `json:"offline"`   // not heard of by the leader for some seconds
	Lag     uint64        `json:"lag"`       // operations behind the leader
	Active  time.Duration `json:"active_ns"` // since the leader heard of it
}
