package jetstream

import (
	"context"
	"fmt"
	"testing"

	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/transporttest"
)

// followsAll is a log whose follower is interested in all from its beginning, as the suite expects.
type followsAll struct{ *Log }

func (l followsAll) Follow(ctx context.Context, fn func(transport.Entry)) (transport.Interest, error) {
	in, err := l.Log.Follow(ctx, fn)
	if err != nil {
		return nil, err
	}
	if _, err := in.Add(ctx, classic("*")); err != nil {
		return nil, fmt.Errorf("add: %w", err)
	}
	return in, nil
}

func TestTransportFollowingWhatIsOfInterest(t *testing.T) {
	t.Parallel()
	transporttest.Run(t, transporttest.Implementation{
		Open: func(t *testing.T, l transporttest.Limits) transport.Transport {
			t.Helper()
			s, prefix := sharedServers(t)
			return followsAll{openExternal(t, s, Options{
				Prefix: prefix, Follow: FollowInterest, MaxMessages: int64(l.MaxMessages), MaxAge: l.MaxAge,
			})}
		},
		Reopen: func(t *testing.T, tr transport.Transport) transport.Transport {
			t.Helper()
			return followsAll{openAnywhere(t, tr.(followsAll).opts)}
		},
		TooLarge:  3 << 20,
		ReadAhead: readBatch,
	})
}
