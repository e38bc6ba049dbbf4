package app

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestStepsRunInReverseOnceAndTheirErrorsAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lifecycle{log: slog.New(slog.DiscardHandler)}
		var order []string
		disk := errors.New("disk on fire")
		var wg sync.WaitGroup
		var again error
		for _, s := range []step{
			{name: "first", limit: time.Second},
			{name: "second", limit: time.Second, must: true},
			{name: "third", limit: time.Hour},
			{name: "fourth", limit: time.Minute},
		} {
			s.run = func(ctx context.Context) error {
				order = append(order, s.name)
				switch s.name {
				case "fourth": // somebody stops it a second time meanwhile
					wg.Go(func() { again = l.stop(context.WithoutCancel(ctx)) })
				case "second":
					return disk
				case "third": // takes all it may
					<-ctx.Done()
					return ctx.Err()
				}
				return ctx.Err()
			}
			l.add(s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		err := l.stop(ctx)
		wg.Wait()
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("took %s, want the caller's 10 s", took)
		}
		if want := []string{"fourth", "third", "second", "first"}; !reflect.DeepEqual(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
		if !errors.Is(err, disk) || !strings.Contains(err.Error(), "stop second: disk on fire") || !strings.Contains(err.Error(), "stop third") {
			t.Errorf("error %v", err)
		}
		if third := l.stop(t.Context()); again != err || third != err { //nolint:errorlint // the very same error
			t.Errorf("stopping again returned %v and %v", again, third)
		}
	})
}
