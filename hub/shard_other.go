//go:build !linux

package hub

import "context"

// Shards need epoll; elsewhere every stream keeps its handler's goroutine.
type (
	shards     struct{}
	shard      struct{}
	shardState struct{}
)

func (*shard) enqueue(*subscriber) {}

func (*shards) available() bool                { return false }
func (*shards) start(*Hub) error               { return nil }
func (*shards) run(context.Context)            {}
func (*shards) take(*subscriber, *h1Sink) bool { return false }
