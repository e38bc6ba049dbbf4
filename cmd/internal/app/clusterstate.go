package app

import "github.com/cinnabar-hub/cinnabar/transport"

// What the admin listener answers at /cluster, for the commands that read it.
type (
	ClusterState  = transport.ClusterState
	ClusterNode   = transport.Node
	ClusterStream = transport.Stream
)
