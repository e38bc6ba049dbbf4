package load

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Schema names the shape of Result. It changes when a field goes or means something else; fields may be added.
const Schema = "cinnabar-bench/1"

// Result is what one run saw. Names end in their unit: _s, _ms and _us are seconds, milliseconds and microseconds,
// _kb is 1024 bytes, _per_s is a rate. What a mode does not measure is left out.
type Result struct {
	Schema      string    `json:"schema"`
	Mode        string    `json:"mode"` // fanout, topics, idle, reconnect, publish
	Hub         string    `json:"hub"`  // URL, without credentials and query
	PublishHub  string    `json:"publish_hub,omitempty"`
	Start       time.Time `json:"start"`
	Seconds     float64   `json:"measured_s"` // from the end of the warm-up to the last answer or arrival
	Interrupted bool      `json:"interrupted"`

	Settings   Settings    `json:"settings"`
	Streams    *Streams    `json:"streams,omitempty"`
	Publishing *Published  `json:"publishing,omitempty"`
	Deliveries *Deliveries `json:"deliveries,omitempty"`
	CatchUp    *CatchUp    `json:"catch_up,omitempty"`
	Server     *Server     `json:"server,omitempty"`    // with a Meter
	Generator  *Generator  `json:"generator,omitempty"` // where the system tells
}

// Settings repeats what was asked for.
type Settings struct {
	Subscribers      int     `json:"subscribers,omitempty"`
	Topics           int     `json:"topics,omitempty"`
	SelectorTemplate string  `json:"selector_template,omitempty"`
	Publishers       int     `json:"publishers,omitempty"`
	Rate             float64 `json:"rate_per_s"` // 0 = flat out
	Window           int     `json:"window,omitempty"`
	Size             int     `json:"data_bytes,omitempty"`
	Private          bool    `json:"private,omitempty"`
	Warmup           float64 `json:"warmup_s,omitempty"`
	Duration         float64 `json:"duration_s,omitempty"`
	Hold             float64 `json:"hold_s,omitempty"`
	Missed           int     `json:"missed,omitempty"`
	History          int     `json:"history,omitempty"`
}

// Latency is a distribution. Quantiles are at most 1.6 % too high.
type Latency struct {
	Mean float64 `json:"mean_ms"`
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
	Max  float64 `json:"max_ms"`
}

// Streams is how subscriptions fared.
type Streams struct {
	Opened     int64    `json:"opened"`
	Failed     int64    `json:"failed"`
	FirstError string   `json:"first_error,omitempty"`
	Took       float64  `json:"open_s"`
	PerSecond  float64  `json:"opened_per_s"`
	Open       *Latency `json:"latency,omitempty"` // of each: from the dial to the head of the answer
	Ended      int64    `json:"ended"`             // by the hub, before the run was over
	Alive      int64    `json:"alive"`             // when the run was over
	Heartbeats *int64   `json:"heartbeats,omitempty"`
}

// Published is how publications fared: those of the measured time, but for Failed, which are all.
type Published struct {
	Accepted  int64    `json:"accepted"`
	Failed    int64    `json:"failed"`
	First     string   `json:"first_error,omitempty"`
	PerSecond float64  `json:"accepted_per_s"`
	Latency   *Latency `json:"latency,omitempty"` // from before the request to the answer
	Behind    float64  `json:"behind_max_ms"`     // how late an update of a fixed rate was sent at worst
	Stalls    int64    `json:"stalls"`            // times that the window was full, and nothing arrived until the patience was over
}

// Deliveries is what reached subscribers. Received, PerSecond and Latency are of the measured time; the faults are of
// the whole run, warm-up included, and must all be 0.
type Deliveries struct {
	Received   int64    `json:"received"`
	PerSecond  float64  `json:"received_per_s"`
	Latency    *Latency `json:"latency,omitempty"` // from before the publication to the subscriber
	Lost       int64    `json:"lost"`              // accepted, and never received by a subscriber of the topic
	Duplicated int64    `json:"duplicated"`        // received again
	Disordered int64    `json:"out_of_order"`      // received after a later update of the same publisher
	Unwanted   int64    `json:"unwanted"`          // received without a subscription to the topic
	Foreign    int64    `json:"foreign"`           // events on these topics that this run did not publish; no fault of the hub
}

// CatchUp is how long subscribers that came back took to have all that they had missed, each from the moment the
// first of them began to connect.
type CatchUp struct {
	All   float64  `json:"all_s"` // the last one
	Each  *Latency `json:"each,omitempty"`
	Never int64    `json:"never"` // did not get everything
}

// Server is what the hub's processes used.
type Server struct {
	CPU              float64  `json:"cpu_s"`
	Cores            float64  `json:"cores"` // processors kept busy
	CPUPerDelivery   *float64 `json:"cpu_us_per_delivery,omitempty"`
	CPUPerUpdate     *float64 `json:"cpu_us_per_update,omitempty"`
	RSSBefore        float64  `json:"rss_before_kb"`
	RSSAfter         float64  `json:"rss_after_kb"`
	RSSPerConnection *float64 `json:"rss_kb_per_connection,omitempty"`
	Error            string   `json:"error,omitempty"` // the figures are missing
}

// Generator is what this process used, which the hub did not have if both ran on one machine.
type Generator struct {
	CPU   float64 `json:"cpu_s"`
	Cores float64 `json:"cores"`
}

// Faults returns what must not happen, in one error; nil if all was well.
func (r *Result) Faults() error {
	var all []string
	fault := func(n int64, what string) {
		if n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, what))
		}
	}
	if d := r.Deliveries; d != nil {
		fault(d.Lost, "deliveries lost")
		fault(d.Duplicated, "duplicated")
		fault(d.Disordered, "out of order")
		fault(d.Unwanted, "unwanted")
	}
	if p := r.Publishing; p != nil {
		fault(p.Failed, "publications failed")
	}
	if s := r.Streams; s != nil {
		fault(s.Failed, "streams not opened")
		fault(s.Ended, "streams ended by the hub")
	}
	if c := r.CatchUp; c != nil && !r.Interrupted {
		fault(c.Never, "subscribers never caught up")
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, ", "))
}
