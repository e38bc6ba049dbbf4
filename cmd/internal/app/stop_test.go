package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// fakeLog knows of so many other nodes.
type fakeLog struct {
	transport.Transport
	peers int
}

func (l fakeLog) Peers() int { return l.peers }

// Covers: SUB-38.
func TestStreamsEndOverTheTimeThatIsLeftIfThereAreOtherNodes(t *testing.T) {
	many := Config{ClusterListen: "127.0.0.1:6222"}
	for name, tt := range map[string]struct {
		cfg   Config
		log   transport.Transport
		alone bool
		left  time.Duration // until the caller's deadline
		want  time.Duration
	}{
		"one node":                    {Config{}, fakeLog{}, false, 30 * time.Second, 0},
		"many nodes":                  {many, fakeLog{peers: 2}, false, 30 * time.Second, 20 * time.Second},
		"on NATS":                     {Config{NATSURLs: []string{"nats://127.0.0.1:4222"}}, fakeLog{peers: 1}, false, 30 * time.Second, 20 * time.Second},
		"little time":                 {many, fakeLog{peers: 2}, false, 10 * time.Second, 7 * time.Second},
		"no time":                     {many, fakeLog{peers: 2}, false, -time.Second, 0},
		"the others are gone":         {many, fakeLog{}, false, 30 * time.Second, 0},
		"the others go at that time":  {many, fakeLog{peers: 2}, true, 30 * time.Second, 0},
		"a log that does not tell":    {many, nil, false, 30 * time.Second, 20 * time.Second},
		"a node that hears of others": {Config{}, fakeLog{peers: 1}, false, 30 * time.Second, 0}, // on a directory of its own
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &App{cfg: tt.cfg, transport: tt.log}
				a.alone.Store(tt.alone)
				ctx, cancel := context.WithTimeout(t.Context(), tt.left)
				defer cancel()
				if got := a.spread(ctx); got != tt.want {
					t.Errorf("%v, want %v", got, tt.want)
				}
			})
		})
	}
}
