package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/hub/admin"
	"github.com/cinnabar-hub/cinnabar/transport"
)

func TestCountsTable(t *testing.T) {
	for want, c := range map[string]app.SubscriptionCounts{
		"0 subscriptions of 0 subscribers\n": {},
		"SUBSCRIPTIONS  MATCH       SELECTOR\n12             topic       a\uFFFD[2J b\n3              urlpattern  *\nand 4 selectors more\n19 subscriptions of 9 subscribers match x y\n": {
			Topic: "x\ny", Subscribers: 9, Subscriptions: 19, More: 4,
			Selectors: []admin.SelectorCount{{Selector: "a\x1b[2J\nb", Subscriptions: 12}, {MatchType: "urlpattern", Selector: "*", Subscriptions: 3}},
		},
	} {
		var b bytes.Buffer
		if err := writeCounts(&b, &c); err != nil || b.String() != want {
			t.Errorf("%v: got\n%s\nwant\n%s", err, b.String(), want)
		}
	}
}

func TestDisconnectedTable(t *testing.T) {
	d := app.Disconnected{Banned: transport.Banned{Nodes: []transport.NodeBanned{{Name: "a", Answers: true, Streams: 3}, {Name: "b"}}}, Subject: "ann\n", For: "5m0s"}
	var b bytes.Buffer
	if err := writeDisconnected(&b, &d); err != nil {
		t.Error(err)
	}
	if want := "NODE  STREAMS ENDED\na     3\nb     no answer\nann is kept away for 5m0s\n"; b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	d = app.Disconnected{Banned: transport.Banned{Nodes: []transport.NodeBanned{{Name: "c", Answers: true, Error: "too many"}}}}
	if err := writeDisconnected(&b, &d); err == nil || !strings.Contains(err.Error(), "c refuses: too many") || !strings.Contains(b.String(), "c     refused\nnobody is kept away\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
