package metrics

import (
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// catalogue is every series of the hub: what dashboards and alerts are written against.
var catalogue = []string{
	"cinnabar_delivered_bytes_total",
	"cinnabar_delivered_total",
	"cinnabar_follower_position",
	"cinnabar_heartbeats_total",
	"cinnabar_lagged_total",
	"cinnabar_panics_total",
	"cinnabar_publish_seconds",
	"cinnabar_published_total",
	"cinnabar_refused_total",
	"cinnabar_replayed_total",
	"cinnabar_resumes_total",
	"cinnabar_selectors",
	"cinnabar_soft_refused_total",
	"cinnabar_subscribers",
	"cinnabar_subscribers_ended_total",
	"cinnabar_subscribers_opened_total",
}

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
}

// TestEveryCollectorIsRegistered touches each field of the struct and expects each name of the catalogue.
func TestEveryCollectorIsRegistered(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	fields := reflect.ValueOf(m).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		c, ok := reflect.TypeAssert[prometheus.Collector](fields.Field(i))
		if !ok || fields.Field(i).IsNil() {
			t.Errorf("%s is no collector", name)
			continue
		}
		if vec, ok := c.(*prometheus.CounterVec); ok { // has no series before its first use
			labels := []string{"x"}
			if name == "Refused" {
				labels = []string{"x", "y"}
			}
			vec.WithLabelValues(labels...).Inc()
		}
		if !reg.Unregister(c) {
			t.Errorf("%s is not registered", name)
			continue
		}
		reg.MustRegister(c)
	}
	if fields.NumField() != len(catalogue) {
		t.Errorf("%d collectors, %d names", fields.NumField(), len(catalogue))
	}
	if got := names(t, reg); !slices.Equal(got, catalogue) {
		t.Errorf("series %q, want %q", got, catalogue)
	}
}

// names gathers the names of all series in order and checks their form.
func names(t *testing.T, reg prometheus.Gatherer) []string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`^cinnabar_[a-z]+(_[a-z]+)*$`)
	var got []string
	for _, f := range families {
		got = append(got, f.GetName())
		if !form.MatchString(f.GetName()) || f.GetHelp() == "" {
			t.Errorf("series %q with help %q", f.GetName(), f.GetHelp())
		}
	}
	return got
}

func TestWithoutARegistry(*testing.T) {
	m := New(nil)
	m.Subscribers.Inc()
	m.Refused.WithLabelValues("publish", "no_token").Inc()
	m.PublishSeconds.Observe(1)
	New(nil) // and a second hub in one process has its own
}

// TestTransportSeries: every counter of a transport's Stats is read at each scrape.
func TestTransportSeries(t *testing.T) {
	stats := transport.Stats{
		Appends: 1, AppendErrors: 2, AppendRetries: 3, AppendLatency: 4 * time.Millisecond, Followed: 5,
		WindowHits: 6, WindowMisses: 7, Retained: 8, RetainedBytes: 9,
	}
	if n := reflect.TypeFor[transport.Stats]().NumField(); n != len(transportCatalogue) {
		t.Errorf("Stats has %d fields, %d are shown", n, len(transportCatalogue))
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
		if f.CanUint() {
			f.SetUint(2 * f.Uint())
		} else {
			f.SetInt(2 * f.Int())
		}
	}
	check(2)
}
