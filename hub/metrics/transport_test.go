package metrics

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cinnabar-hub/cinnabar/transport"
)

var transportCatalogue = map[string]float64{
	"cinnabar_transport_appends_total":        1,
	"cinnabar_transport_append_errors_total":  2,
	"cinnabar_transport_append_retries_total": 3,
	"cinnabar_transport_append_seconds_total": 0.004,
	"cinnabar_transport_followed_total":       5,
	"cinnabar_transport_window_hits_total":    6,
	"cinnabar_transport_window_misses_total":  7,
	"cinnabar_transport_retained":             8,
	"cinnabar_transport_retained_bytes":       9,
	"cinnabar_transport_filters":              10,
	"cinnabar_transport_bus_messages_total":   11,
	"cinnabar_transport_bus_bytes_total":      12,
	"cinnabar_transport_reread_total":         13,
	"cinnabar_transport_late_total":           14,
	"cinnabar_transport_lost_total":           15,
	"cinnabar_transport_suspected_total":      16,
}

// TestTransportSeries: every number of a transport's Stats is read at each scrape.
func TestTransportSeries(t *testing.T) {
	stats := transport.Stats{
		Appends: 1, AppendErrors: 2, AppendRetries: 3, AppendLatency: 4 * time.Millisecond, Followed: 5,
		WindowHits: 6, WindowMisses: 7, Retained: 8, RetainedBytes: 9,
		Follower: "interest", Filters: 10, BusMessages: 11, BusBytes: 12, Reread: 13, Late: 14, Lost: 15,
		Suspected: map[string]uint64{"gap": 16},
	}
	if n := reflect.TypeFor[transport.Stats]().NumField(); n != len(transportCatalogue)+1 {
		t.Errorf("Stats has %d fields, %d are shown, and the follower's name by RegisterNode", n, len(transportCatalogue))
	}
	reg := prometheus.NewPedanticRegistry()
	RegisterTransport(reg, func() transport.Stats { return stats })
	if got := names(t, reg); len(got) != len(transportCatalogue) {
		t.Errorf("series %q", got)
	}
	check := func(factor float64) {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			m := f.GetMetric()[0]
			if got, want := m.GetCounter().GetValue()+m.GetGauge().GetValue(), factor*transportCatalogue[f.GetName()]; got != want {
				t.Errorf("%s is %v, want %v", f.GetName(), got, want)
			}
		}
	}
	check(1)
	v := reflect.ValueOf(&stats).Elem()
	for _, f := range v.Fields() {
		switch {
		case f.CanUint():
			f.SetUint(2 * f.Uint())
		case f.CanInt():
			f.SetInt(2 * f.Int())
		}
	}
	stats.Suspected["gap"] *= 2
	check(2)
}

// TestSuspicionsAreByReason: each reason is a series of its own, and there is none before the first.
func TestSuspicionsAreByReason(t *testing.T) {
	var stats transport.Stats
	reg := prometheus.NewPedanticRegistry()
	RegisterTransport(reg, func() transport.Stats { return stats })
	compare(t, reg, "cinnabar_transport_suspected_total", "")
	stats.Suspected = map[string]uint64{"gap": 1, "reconnect": 2}
	compare(t, reg, "cinnabar_transport_suspected_total", `
# HELP cinnabar_transport_suspected_total Times that an interest follower had to make sure that nothing was lost, by reason.
# TYPE cinnabar_transport_suspected_total counter
cinnabar_transport_suspected_total{reason="gap"} 1
cinnabar_transport_suspected_total{reason="reconnect"} 2
`)
}

func TestNodeSeries(t *testing.T) {
	var stats transport.Stats
	peers := 0
	reg := prometheus.NewPedanticRegistry()
	RegisterNode(reg, Node{Name: "a", Version: "v1.2.3", Mode: "cluster"}, func() transport.Stats { return stats }, func() int { return peers })
	stats.Follower, peers = "interest", 2 // read when scraped
	compare(t, reg, "cinnabar_node_info", `
# HELP cinnabar_node_info 1, with the node's name, version and mode, and what its follower hears.
# TYPE cinnabar_node_info gauge
cinnabar_node_info{follower="interest",mode="cluster",node="a",version="v1.2.3"} 1
`)
	compare(t, reg, "cinnabar_peers", `
# HELP cinnabar_peers Other nodes heard of within five seconds.
# TYPE cinnabar_peers gauge
cinnabar_peers 2
`)
}

// compare compares one family of series with its text.
func compare(t *testing.T, reg prometheus.Gatherer, name, text string) {
	t.Helper()
	if err := testutil.GatherAndCompare(reg, strings.NewReader(text), name); err != nil {
		t.Error(err)
	}
}
