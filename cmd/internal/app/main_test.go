package app_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A nats-server that is ended while it takes its part in a stream that others have just made may leave the store of
// it behind; that is its own. Everything else of a server that was not ended shows.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"))
}
