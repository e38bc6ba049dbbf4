package jetstream

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

func TestWhyAPositionWasNotRead(t *testing.T) {
	whole, sparse := extent{first: 5, last: 9, messages: 5}, extent{first: 5, last: 9, messages: 4}
	for _, c := range []struct {
		x    extent
		pos  transport.Position
		want error
	}{
		{whole, 4, transport.ErrTrimmed},
		{whole, 5, transport.ErrUnavailable},
		{whole, 9, transport.ErrUnavailable},
		{whole, 10, nil},
		{sparse, 4, transport.ErrTrimmed},
		{sparse, 5, nil},
		{sparse, 9, nil},
		{extent{first: 10, last: 9}, 9, transport.ErrTrimmed},
	} {
		if err := c.x.gap(c.pos); !errors.Is(err, c.want) {
			t.Errorf("position %d of %+v: %v, want %v", c.pos, c.x, err, c.want)
		}
	}
}

func TestAGapInTheMiddleOfABatchIsSeen(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	for i := range 10 {
		add(t, l, update(i))
	}
	stream, err := l.js.Stream(t.Context(), l.opts.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, pos := range []uint64{4, 7} {
		if err := stream.DeleteMsg(t.Context(), pos); err != nil {
			t.Fatal(err)
		}
	}
	batch, next, gap, err := l.readStore(t.Context(), 1, 9, readBatch)
	if err != nil || len(batch) != 6 || next != 9 || gap != 4 {
		t.Errorf("%d entries to %d with a gap at %d, %v; want 6 to 9 with a gap at 4", len(batch), next, gap, err)
	}
	if got := scan(t, l, 1, 9); len(got) != 6 { // deleted singly: left out silently
		t.Errorf("%d entries", len(got))
	}
}

// A batch that retention overtakes is whole, cut short before what is lost, or ErrTrimmed: never full of holes.
func TestRetentionLeavesNoHolesInABatch(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir(), MaxMessages: 600})
	fillConcurrently(t, l, 600)
	acked, stop := publishing(t, l)
	defer stop()
	for read := 0; acked() < 1000; read++ {
		x, err := l.freshExtent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		after := x.first + 20
		batch, next, err := l.readChecked(t.Context(), after, x.last)
		if errors.Is(err, transport.ErrTrimmed) {
			continue
		}
		if err != nil || transport.Position(len(batch)) != next-after {
			t.Fatalf("read %d: %d entries of (%d, %d], %v", read, len(batch), after, next, err)
		}
	}
}

func TestCallsUnderWayEndWithTheConnection(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	if _, err := l.nc.Subscribe("silent", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	c, err := l.inbox.send(&nats.Msg{Subject: "silent"}, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.done:
	case <-time.After(30 * time.Second):
		t.Fatal("the call has not ended")
	}
	if !c.cut {
		t.Error("the call ended, and not because the connection broke")
	}
	add(t, l, update(1))
	scan(t, l, 0, 1)
}

// As much as all reads can bring at once is not taken for slowness of the connection.
func TestReadsDoNotCutTheConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("reads hundreds of megabytes")
	}
	const large = 14 << 20 // with as many reads as there are at a time, more than what may wait by default
	l := open(t, Options{Dir: t.TempDir(), MaxUpdateBytes: large, WindowBytes: 1 << 20})
	add(t, l, &spec.Update{Topics: []string{"t"}, Data: strings.Repeat("y", large)})
	before := l.nc.Stats().Reconnects
	var wg sync.WaitGroup
	for range maxReads + 1 {
		wg.Go(func() {
			n := 0
			for _, err := range l.Scan(t.Context(), 0, 1, nil) {
				if err != nil {
					t.Error(err)
					return
				}
				n++
			}
			if n != 1 {
				t.Errorf("%d entries", n)
			}
		})
	}
	wg.Wait()
	if cut := l.nc.Stats().Reconnects - before; cut > 0 {
		t.Errorf("the connection was cut %d times", cut)
	}
}

func TestALargeUpdateIsFollowed(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir(), MaxUpdateBytes: 20 << 20})
	c := follow(t, l)
	e := add(t, l, &spec.Update{Topics: []string{"t"}, Data: strings.Repeat("y", pullBytes+1<<20)})
	c.until(t, e.Pos)
}
