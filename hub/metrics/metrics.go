// Package metrics is the catalogue of everything the hub counts: one struct, one field a series.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// Metrics holds the hub's collectors. Safe for concurrent use. Labels come from closed sets in the code,
// never from what a client sends.
type Metrics struct {
	Subscribers       prometheus.Gauge       // streams open now
	SubscribersOpened prometheus.Counter     // streams opened since start
	SubscribersEnded  *prometheus.CounterVec // streams ended, by reason
	Selectors         prometheus.Gauge       // distinct selectors in the index

	Published        prometheus.Counter     // publications acknowledged
	PublishSeconds   prometheus.Histogram   // from the request's arrival to its answer, acknowledged ones
	Refused          *prometheus.CounterVec // requests refused, by action and reason
	SoftRefused      prometheus.Counter     // streams refused softly (SUB-41)
	Delivered        prometheus.Counter     // updates written to subscribers, live and replayed
	DeliveredBytes   prometheus.Counter     // bytes handed to sockets
	Replayed         prometheus.Counter     // updates written from the log rather than live
	Lagged           prometheus.Counter     // times a subscriber's queue overflowed and it went back to the log (SUB-36)
	Resumes          *prometheus.CounterVec // streams opened with a cursor, by outcome
	Heartbeats       prometheus.Counter     // comments sent on silent streams
	Panics           prometheus.Counter     // contained, each is a defect
	FollowerPosition prometheus.Gauge       // position of the newest entry the fan-out has seen
}

const namespace = "cinnabar"

// New makes the collectors and registers them with reg; nil registers them nowhere.
func New(reg prometheus.Registerer) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	m := &Metrics{
		Subscribers:       gauge("subscribers", "Streams open now."),
		SubscribersOpened: counter("subscribers_opened_total", "Streams opened."),
		SubscribersEnded:  vec("subscribers_ended_total", "Streams ended, by reason.", "reason"),
		Selectors:         gauge("selectors", "Distinct selectors with a local subscriber."),
		Published:         counter("published_total", "Publications acknowledged."),
		PublishSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "publish_seconds",
			Help:    "Time from a publication's arrival to its acknowledgement.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		Refused:          vec("refused_total", "Requests refused, by action and reason.", "action", "reason"),
		SoftRefused:      counter("soft_refused_total", "Streams refused with 200 and a larger retry."),
		Delivered:        counter("delivered_total", "Updates written to subscribers, live and replayed."),
		DeliveredBytes:   counter("delivered_bytes_total", "Bytes handed to subscribers' sockets."),
		Replayed:         counter("replayed_total", "Updates written to subscribers from the log."),
		Lagged:           counter("lagged_total", "Times a subscriber fell behind its queue and went back to the log."),
		Resumes:          vec("resumes_total", "Streams opened with a cursor, by outcome.", "outcome"),
		Heartbeats:       counter("heartbeats_total", "Comments sent on silent streams."),
		Panics:           counter("panics_total", "Panics contained. Each one is a defect."),
		FollowerPosition: gauge("follower_position", "Log position of the newest entry seen by the fan-out."),
	}
	if reg != nil {
		reg.MustRegister(m.Subscribers, m.SubscribersOpened, m.SubscribersEnded, m.Selectors, m.Published,
			m.PublishSeconds, m.Refused, m.SoftRefused, m.Delivered, m.DeliveredBytes, m.Replayed, m.Lagged,
			m.Resumes, m.Heartbeats, m.Panics, m.FollowerPosition)
	}
	return m
}

// RegisterTransport registers series that are read from a transport's Stats when scraped.
func RegisterTransport(reg prometheus.Registerer, stats func() transport.Stats) {
	counter := func(name, help string, get func(transport.Stats) float64) {
		reg.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Namespace: namespace, Subsystem: "transport", Name: name, Help: help},
			func() float64 { return get(stats()) }))
	}
	gauge := func(name, help string, get func(transport.Stats) float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: namespace, Subsystem: "transport", Name: name, Help: help},
			func() float64 { return get(stats()) }))
	}
	counter("appends_total", "Updates stored.", func(s transport.Stats) float64 { return float64(s.Appends) })
	counter("append_errors_total", "Updates that could not be stored.", func(s transport.Stats) float64 { return float64(s.AppendErrors) })
	counter("append_retries_total", "Updates sent to the store again after a time-out.", func(s transport.Stats) float64 { return float64(s.AppendRetries) })
	counter("append_seconds_total", "Time spent storing updates.", func(s transport.Stats) float64 { return s.AppendLatency.Seconds() })
	counter("followed_total", "Entries handed to the fan-out.", func(s transport.Stats) float64 { return float64(s.Followed) })
	counter("window_hits_total", "Scans answered from the shared window.", func(s transport.Stats) float64 { return float64(s.WindowHits) })
	counter("window_misses_total", "Scans that had to read the store.", func(s transport.Stats) float64 { return float64(s.WindowMisses) })
	gauge("retained", "Updates retained.", func(s transport.Stats) float64 { return float64(s.Retained) })
	gauge("retained_bytes", "Bytes retained.", func(s transport.Stats) float64 { return float64(s.RetainedBytes) })
}
