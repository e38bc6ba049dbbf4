package app

import (
	"github.com/cinnabar-hub/cinnabar/hub/admin"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// ClusterState is what the admin listener answers at /cluster, for the command that reads it.
type ClusterState = transport.ClusterState

// ClusterNode is one of its nodes.
type ClusterNode = transport.Node

// ClusterStream is where the nodes keep their log.
type ClusterStream = transport.Stream

// SubscriptionCounts is what the admin listener answers at /subscriptions/counts.
type SubscriptionCounts = admin.Counts

// Disconnected is what it answers to an order to disconnect.
type Disconnected = admin.Disconnected
