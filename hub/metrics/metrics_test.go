package metrics

import (
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// catalogue is every series of the hub: what dashboards and alerts are written against.
var catalogue = []string{
	"cinnabar_delivered_bytes_total",
	"cinnabar_delivered_total",
	"cinnabar_follower_matched_total",
	"cinnabar_follower_position",
	"cinnabar_heartbeats_total",
	"cinnabar_kept_away_total",
	"cinnabar_lagged_total",
	"cinnabar_late_total",
	"cinnabar_panics_total",
	"cinnabar_presence_failures_total",
	"cinnabar_presence_waiting",
	"cinnabar_presences",
	"cinnabar_publish_seconds",
	"cinnabar_published_total",
	"cinnabar_refused_total",
	"cinnabar_rejoins_total",
	"cinnabar_replayed_total",
	"cinnabar_resume_depth",
	"cinnabar_resumes_total",
	"cinnabar_selectors",
	"cinnabar_soft_refused_total",
	"cinnabar_subscribers",
	"cinnabar_subscribers_ended_total",
	"cinnabar_subscribers_opened_total",
	"cinnabar_subscription_events_total",
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
