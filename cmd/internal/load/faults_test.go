package load_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/load"
	"github.com/cinnabar-hub/cinnabar/spec/client"
)

// TestAHubThatIsAtFaultIsFoundOut runs three subscribers of three topics at a hub with one fault, which concerns
// the first stream's fourth update, until it has taken enough updates.
func TestAHubThatIsAtFaultIsFoundOut(t *testing.T) {
	t.Parallel()
	honest := func(_, _ int, data string) []string { return []string{data} }
	var held string
	tests := []struct {
		name, fault string
		meddle      func(f *fakeHub) func(stream, n int, data string) []string
		count       func(*load.Result) int64
	}{
		{"none", "", func(*fakeHub) func(int, int, string) []string { return honest }, func(*load.Result) int64 { return 1 }},
		{"one lost", "1 deliveries lost", func(*fakeHub) func(int, int, string) []string {
			return func(stream, n int, data string) []string {
				if stream == 0 && n == 3 {
					return nil
				}
				return []string{data}
			}
		}, func(r *load.Result) int64 { return r.Deliveries.Lost }},
		{"one twice", "1 duplicated", func(*fakeHub) func(int, int, string) []string {
			return func(stream, n int, data string) []string {
				if stream == 0 && n == 3 {
					return []string{data, data}
				}
				return []string{data}
			}
		}, func(r *load.Result) int64 { return r.Deliveries.Duplicated }},
		{"two in the wrong order", "1 out of order", func(*fakeHub) func(int, int, string) []string {
			return func(stream, n int, data string) []string {
				switch {
				case stream == 0 && n == 3:
					held = data
					return nil
				case stream == 0 && n == 4:
					return []string{data, held}
				}
				return []string{data}
			}
		}, func(r *load.Result) int64 { return r.Deliveries.Disordered }},
		{"one to a stranger", "1 unwanted", func(f *fakeHub) func(int, int, string) []string {
			return func(stream, n int, data string) []string {
				if stream == 0 && n == 3 {
					f.streams[1].events <- data // whose later updates come after it
				}
				return []string{data}
			}
		}, func(r *load.Result) int64 { return r.Deliveries.Unwanted }},
		{"one stream ended", "1 streams ended by the hub", func(*fakeHub) func(int, int, string) []string {
			return func(stream, n int, data string) []string {
				if stream == 0 && n == 3 {
					return []string{data, "end"}
				}
				return []string{data}
			}
		}, func(r *load.Result) int64 { return r.Streams.Ended }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // those that wait for what is lost wait together
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f := &fakeHub{}
			f.meddle = tt.meddle(f)
			f.posted = func(n int) {
				if n == 200 { // far beyond what the faults need, whichever topics are chosen
					cancel()
				}
			}
			startFake(t, f)
			p := load.Publishing{Publishers: 1, Size: 64, Window: 4, Duration: time.Hour}
			r, err := load.RunTopics(ctx, load.Target{URL: f.URL, Patience: 10 * time.Second, Connect: 1}, load.Topics{Publishing: p, Subscribers: 3, Topics: 3})
			if err != nil {
				t.Fatal(err)
			}
			if !r.Interrupted || r.Publishing.Accepted == 0 {
				t.Errorf("interrupted %v, %+v", r.Interrupted, r.Publishing)
			}
			if got := tt.count(r); got != 1 {
				t.Errorf("found %d times; %v", got, r.Faults())
			}
			switch err := r.Faults(); {
			case tt.fault == "" && err != nil:
				t.Errorf("at fault: %v", err)
			case tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)):
				t.Errorf("at fault: %v, want %s", err, tt.fault)
			}
		})
	}
}

func TestAHubThatFailsOnTheWayIsFoundOut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &fakeHub{answer: http.StatusServiceUnavailable, free: 10, posted: func(n int) {
		if n == 20 {
			cancel()
		}
	}}
	f.meddle = func(_, n int, data string) []string {
		if n > 5 {
			return nil // with the answers that say so, soon after
		}
		return []string{data}
	}
	startFake(t, f)
	p := load.Publishing{Publishers: 1, Size: 64, Window: 100, Duration: time.Hour}
	r, err := load.RunFanout(ctx, load.Target{URL: f.URL, Patience: time.Second}, load.Fanout{Publishing: p, Subscribers: 3})
	if err != nil {
		t.Fatal(err)
	}
	if r.Publishing.Failed < 10 || !strings.Contains(r.Publishing.First, "503") || !strings.Contains(r.Faults().Error(), "publications failed") {
		t.Errorf("%+v, %v", r.Publishing, r.Faults())
	}
	if r.Deliveries.Lost != 3*(10-1-6) { // of those that were accepted; the first was tried before anybody was there
		t.Errorf("%d lost", r.Deliveries.Lost)
	}
}

func TestAnInterruptionIsNoFault(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &fakeHub{posted: func(n int) {
		if n == 5 { // while the subscribers are away
			cancel()
		}
	}}
	f.meddle = func(_, _ int, data string) []string { return []string{data} }
	startFake(t, f)
	r, err := load.RunReconnect(ctx, load.Target{URL: f.URL, Patience: long}, load.Reconnect{Subscribers: 3, Missed: 1000, Size: 64})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Faults(); err != nil || !r.Interrupted {
		t.Errorf("interrupted %v, %v", r.Interrupted, err)
	}
}

func TestAHubThatRefusesIsTold(t *testing.T) {
	f := startFake(t, &fakeHub{answer: http.StatusForbidden})
	p := load.Publishing{Publishers: 1, Size: 64, Duration: time.Second}
	_, err := load.RunPublish(t.Context(), load.Target{URL: f.URL}, load.Publish{Publishing: p, Topics: 1})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != http.StatusForbidden {
		t.Errorf("publish: %v", err)
	}
	refuser := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			return
		}
		http.Error(w, "Too Many Requests: no\x1b[2J more", http.StatusTooManyRequests)
	})
	url := serve(t, refuser)
	_, err = load.RunFanout(t.Context(), load.Target{URL: url}, load.Fanout{Publishing: p, Subscribers: 3})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Detail != `no\x1b[2J more` {
		t.Errorf("subscribe: %v", err)
	}
	_, err = load.RunIdle(t.Context(), load.Target{URL: url}, load.Idle{Subscribers: 3, Topics: 1, Hold: time.Second})
	if e, ok := errors.AsType[*client.Error](err); !ok || !e.Temporary() {
		t.Errorf("idle: %v", err)
	}
	page := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if _, err = load.RunFanout(t.Context(), load.Target{URL: page}, load.Fanout{Publishing: p, Subscribers: 3}); err == nil || !strings.Contains(err.Error(), "no stream of events") {
		t.Errorf("a page: %v", err)
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	good := load.Publishing{Publishers: 1, Size: 64, Duration: time.Second}
	with := func(change func(*load.Publishing)) load.Publishing {
		p := good
		change(&p)
		return p
	}
	nan := 0.0
	nan /= nan
	target := load.Target{URL: "http://127.0.0.1:9/"} // where nothing would answer
	fanout := func(subscribers int, p load.Publishing) error {
		_, err := load.RunFanout(t.Context(), target, load.Fanout{Publishing: p, Subscribers: subscribers})
		return err
	}
	topics := func(o load.Topics, draft08 bool) error {
		target := target
		target.Draft08 = draft08
		o.Publishing, o.Subscribers = good, 10
		_, err := load.RunTopics(t.Context(), target, o)
		return err
	}
	for name, err := range map[string]error{
		"--subscribers 0":          fanout(0, good),
		"--publishers 0":           fanout(1, with(func(p *load.Publishing) { p.Publishers = 0 })),
		"--rate -1":                fanout(1, with(func(p *load.Publishing) { p.Rate = -1 })),
		"--rate NaN":               fanout(1, with(func(p *load.Publishing) { p.Rate = nan })),
		"--size 10":                fanout(1, with(func(p *load.Publishing) { p.Size = 10 })),
		"--window -1":              fanout(1, with(func(p *load.Publishing) { p.Window = -1 })),
		"--warmup -1s":             fanout(1, with(func(p *load.Publishing) { p.Warmup = -time.Second })),
		"--duration 0s":            fanout(1, with(func(p *load.Publishing) { p.Duration = 0 })),
		"too many to keep book":    fanout(1_000_000, with(func(p *load.Publishing) { p.Publishers = 1000 })),
		"--topics 0":               topics(load.Topics{}, false),
		"more than the 10":         topics(load.Topics{Topics: 11}, false),
		"%d must stand in it":      topics(load.Topics{Topics: 2, SelectorTemplate: "x{id}"}, false),
		"it must have variables":   topics(load.Topics{Topics: 2, SelectorTemplate: "x%d"}, false),
		`not "{?q}"`:               topics(load.Topics{Topics: 2, SelectorTemplate: "x%d{?q}"}, false),
		"nothing else that varies": topics(load.Topics{Topics: 2, SelectorTemplate: "x%d/:id/*"}, true),
	} {
		t.Run(name, func(t *testing.T) {
			if _, ok := errors.AsType[*load.OptionError](err); !ok || !strings.Contains(err.Error(), name) {
				t.Errorf("%v", err)
			}
		})
	}
	target.SubscribeToken = "a\r\nHost: b"
	if err := fanout(1, good); err == nil || strings.Contains(err.Error(), "Host: b") {
		t.Errorf("a token with line breaks: %v", err)
	}
}
