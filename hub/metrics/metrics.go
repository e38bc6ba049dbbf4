// Package metrics is the catalogue of everything the hub counts: one struct, one field a series.
package metrics

import "github.com/prometheus/client_golang/prometheus"

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
	Late             prometheus.Counter     // updates written after a later one (SSE-C09)
	Resumes          *prometheus.CounterVec // streams opened with a cursor, by outcome
	Heartbeats       prometheus.Counter     // comments sent on silent streams
	Panics           prometheus.Counter     // contained, each is a defect
	ResumeDepth      prometheus.Histogram   // updates that a stream opened with a known cursor got before its first live one
	FollowerPosition prometheus.Gauge       // position of the newest entry the fan-out has seen
	FollowerMatched  prometheus.Counter     // entries of the fan-out that a local subscriber selects

	Presences          prometheus.Gauge       // subscribers of this node in the directory
	PresenceWaiting    prometheus.Gauge       // subscribers whose coming or going has yet to be written and told
	PresenceFailures   *prometheus.CounterVec // steps that failed and are taken again, by step
	SubscriptionEvents prometheus.Counter     // subscription events appended
	Rejoins            prometheus.Counter     // subscribers that came back within the rejoin grace
	Disconnected       prometheus.Counter     // stream requests answered 204 (SUB-41)
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
		Refused:        vec("refused_total", "Requests refused, by action and reason.", "action", "reason"),
		SoftRefused:    counter("soft_refused_total", "Streams refused with 200 and a larger retry."),
		Delivered:      counter("delivered_total", "Updates written to subscribers, live and replayed."),
		DeliveredBytes: counter("delivered_bytes_total", "Bytes handed to subscribers' sockets."),
		Replayed:       counter("replayed_total", "Updates written to subscribers from the log."),
		Lagged:         counter("lagged_total", "Times a subscriber fell behind its queue and went back to the log."),
		Late:           counter("late_total", "Updates written to subscribers after a later one."),
		Resumes:        vec("resumes_total", "Streams opened with a cursor, by outcome.", "outcome"),
		Heartbeats:     counter("heartbeats_total", "Comments sent on silent streams."),
		Panics:         counter("panics_total", "Panics contained. Each one is a defect."),
		ResumeDepth: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "resume_depth",
			Help:    "Updates replayed to a stream that was opened with a cursor, before its first live one.",
			Buckets: []float64{0, 1, 3, 10, 30, 100, 300, 1000, 10_000, 100_000},
		}),
		FollowerPosition:   gauge("follower_position", "Log position of the newest entry seen by the fan-out."),
		FollowerMatched:    counter("follower_matched_total", "Entries handed to the fan-out that a local subscriber selects."),
		Presences:          gauge("presences", "Subscribers of this node in the directory."),
		PresenceWaiting:    gauge("presence_waiting", "Subscribers whose coming or going has yet to be told."),
		PresenceFailures:   vec("presence_failures_total", "Steps of keeping the directory that failed, by step.", "step"),
		SubscriptionEvents: counter("subscription_events_total", "Subscription events stored."),
		Rejoins:            counter("rejoins_total", "Subscribers that came back within the rejoin grace."),
		Disconnected:       counter("kept_away_total", "Stream requests of disconnected clients, answered 204."),
	}
	if reg != nil {
		reg.MustRegister(m.Subscribers, m.SubscribersOpened, m.SubscribersEnded, m.Selectors, m.Published,
			m.PublishSeconds, m.Refused, m.SoftRefused, m.Delivered, m.DeliveredBytes, m.Replayed, m.Lagged,
			m.Late, m.Resumes, m.ResumeDepth, m.Heartbeats, m.Panics, m.FollowerPosition, m.FollowerMatched,
			m.Presences, m.PresenceWaiting, m.PresenceFailures, m.SubscriptionEvents, m.Rejoins, m.Disconnected)
	}
	return m
}
