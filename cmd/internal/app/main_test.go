package app_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A NATS server that is stopped while it makes its copy of a stream, as when another node cannot start, leaves the
// goroutines of that stream's store behind. One that is not stopped has many others.
func TestMain(m *testing.M) {
	const server = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction(server+"/ats.Register.func1"),
		goleak.IgnoreTopFunction(server+".(*fileStore).flushStreamStateLoop"))
}
