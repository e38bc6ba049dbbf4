package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinnabar-hub/cinnabar/transport"
)

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
	counter("append_seconds_total", "Time until the store acknowledged, summed over the updates stored.", func(s transport.Stats) float64 { return s.AppendLatency.Seconds() })
	counter("followed_total", "Entries handed to the fan-out.", func(s transport.Stats) float64 { return float64(s.Followed) })
	counter("window_hits_total", "Scans answered from the shared window.", func(s transport.Stats) float64 { return float64(s.WindowHits) })
	counter("window_misses_total", "Scans that had to read the store.", func(s transport.Stats) float64 { return float64(s.WindowMisses) })
	gauge("retained", "Updates retained.", func(s transport.Stats) float64 { return float64(s.Retained) })
	gauge("retained_bytes", "Bytes retained.", func(s transport.Stats) float64 { return float64(s.RetainedBytes) })

	gauge("filters", "Subjects that an interest follower has subscribed.", func(s transport.Stats) float64 { return float64(s.Filters) })
	counter("bus_messages_total", "Messages that the bus brought to an interest follower, copies included.", func(s transport.Stats) float64 { return float64(s.BusMessages) })
	counter("bus_bytes_total", "Bytes of these messages.", func(s transport.Stats) float64 { return float64(s.BusBytes) })
	counter("reread_total", "Entries handed out from the store because the bus had not brought them.", func(s transport.Stats) float64 { return float64(s.Reread) })
	counter("late_total", "Of these, entries handed out after a higher position.", func(s transport.Stats) float64 { return float64(s.Late) })
	counter("lost_total", "Entries that left the log before they could be followed.", func(s transport.Stats) float64 { return float64(s.Lost) })
	reg.MustRegister(suspicions{stats})
}

// suspicions is the one series of a transport that has a label; its values come from a closed set in the transport.
type suspicions struct{ stats func() transport.Stats }

var suspectedDesc = prometheus.NewDesc(namespace+"_transport_suspected_total",
	"Times that an interest follower had to make sure that nothing was lost, by reason.", []string{"reason"}, nil)

// Describe sends the one description; see prometheus.Collector.
func (suspicions) Describe(ch chan<- *prometheus.Desc) { ch <- suspectedDesc }

// Collect sends a value for each reason there has been; see prometheus.Collector.
func (s suspicions) Collect(ch chan<- prometheus.Metric) {
	for reason, n := range s.stats().Suspected {
		ch <- prometheus.MustNewConstMetric(suspectedDesc, prometheus.CounterValue, float64(n), reason)
	}
}

// Node is what names a node in its metrics.
type Node struct {
	Name    string
	Version string
	Mode    string // how the log is kept: standalone, cluster, external, memory
}

// RegisterNode registers who this node is, what its follower hears, and how many other nodes it knows of.
func RegisterNode(reg prometheus.Registerer, n Node, stats func() transport.Stats, peers func() int) {
	reg.MustRegister(nodeInfo{n, stats}, prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Namespace: namespace, Name: "peers", Help: "Other nodes heard of within five seconds."},
		func() float64 { return float64(peers()) }))
}

// nodeInfo is 1, with what names the node as labels.
type nodeInfo struct {
	Node
	stats func() transport.Stats
}

var nodeInfoDesc = prometheus.NewDesc(namespace+"_node_info",
	"1, with the node's name, version and mode, and what its follower hears.", []string{"node", "version", "mode", "follower"}, nil)

// Describe sends the one description; see prometheus.Collector.
func (nodeInfo) Describe(ch chan<- *prometheus.Desc) { ch <- nodeInfoDesc }

// Collect sends the one value; see prometheus.Collector.
func (n nodeInfo) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(nodeInfoDesc, prometheus.GaugeValue, 1, n.Name, n.Version, n.Mode, n.stats().Follower)
}
