package load

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTable writes r for people.
func (r *Result) WriteTable(w io.Writer) error {
	t := &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)}
	fmt.Fprintf(w, "%s at %s\n%s\n", r.Mode, r.Hub, r.Settings.words(r.Mode))
	if r.Interrupted {
		fmt.Fprintln(w, "interrupted: what was measured until then")
	}
	fmt.Fprintln(w)
	if r.Deliveries != nil || r.Publishing != nil || r.CatchUp != nil {
		t.row("", "count", "per second", "mean ms", "p50", "p90", "p99", "max")
		if s := r.Streams; s != nil {
			t.rates("streams opened", s.Opened, s.PerSecond, s.Open)
		}
		if p := r.Publishing; p != nil {
			t.rates("updates accepted", p.Accepted, p.PerSecond, p.Latency)
		}
		if d := r.Deliveries; d != nil {
			t.rates("updates received", d.Received, d.PerSecond, d.Latency)
		}
		if c := r.CatchUp; c != nil {
			t.rates("subscribers caught up", int64(r.Settings.Subscribers)-c.Never, 0, c.Each)
		}
		if err := t.w.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	_, err := io.WriteString(w, r.lines())
	return err
}

// table has one column of names and others of numbers.
type table struct{ w *tabwriter.Writer }

func (t *table) row(name string, cells ...string) {
	fmt.Fprintf(t.w, "%-21s\t%s\t\n", name, strings.Join(cells, "\t"))
}

func (t *table) rates(name string, n int64, perSecond float64, l *Latency) {
	cells := []string{thousands(float64(n)), thousands(perSecond)}
	if perSecond == 0 {
		cells[1] = "-"
	}
	if l == nil {
		cells = append(cells, "-", "-", "-", "-", "-")
	} else {
		for _, v := range []float64{l.Mean, l.P50, l.P90, l.P99, l.Max} {
			cells = append(cells, fmt.Sprintf("%.2f", v))
		}
	}
	t.row(name, cells...)
}

// words says what was asked for.
func (s *Settings) words(mode string) string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if s.Subscribers > 0 {
		add("%s subscribers", thousands(float64(s.Subscribers)))
	}
	switch {
	case s.SelectorTemplate != "":
		add("%s templates like %s, every update a new topic", thousands(float64(s.Topics)), s.SelectorTemplate)
	case s.Topics > 0:
		add("topics: %s", thousands(float64(s.Topics)))
	}
	if s.Publishers > 0 {
		add("publishers: %d", s.Publishers)
	}
	switch {
	case s.Duration == 0:
	case s.Rate > 0:
		add("%g updates/s", s.Rate)
	case s.Window > 0 && mode != "publish":
		add("flat out with %d updates in flight", s.Window)
	default:
		add("flat out")
	}
	if s.Size > 0 {
		add("%d bytes", s.Size)
	}
	if s.Private {
		add("private")
	}
	if s.Missed > 0 {
		add("%s updates missed, %s others in the history", thousands(float64(s.Missed)), thousands(float64(s.History)))
	}
	if s.Duration > 0 {
		add("%gs after %gs to warm up", s.Duration, s.Warmup)
	}
	if s.Hold > 0 {
		add("held for %gs", s.Hold)
	}
	return strings.Join(all, ", ")
}

// lines are the rest, a subject a line.
func (r *Result) lines() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s "+format+"\n", append([]any{name}, args...)...)
	}
	if s := r.Streams; s != nil {
		line("streams", "opened %s in %.2f s (%s/s), failed %d, ended by the hub %d, open at the end %s",
			thousands(float64(s.Opened)), s.Took, thousands(s.PerSecond), s.Failed, s.Ended, thousands(float64(s.Alive)))
		if s.FirstError != "" {
			line("", "first failure: %s", s.FirstError)
		}
		if s.Heartbeats != nil {
			line("", "heartbeats while held: %s, %.2f a stream", thousands(float64(*s.Heartbeats)), float64(*s.Heartbeats)/max(float64(s.Alive), 1))
		}
	}
	if p := r.Publishing; p != nil {
		line("publishing", "failed %d, sent late by at most %.1f ms, stalls %d", p.Failed, p.Behind, p.Stalls)
		if p.First != "" {
			line("", "first failure: %s", p.First)
		}
	}
	if d := r.Deliveries; d != nil {
		line("faults", "lost %d, duplicated %d, out of order %d, unwanted %d; of others %d", d.Lost, d.Duplicated, d.Disordered, d.Unwanted, d.Foreign)
	}
	if c := r.CatchUp; c != nil {
		line("catch-up", "all after %.3f s, never %d", c.All, c.Never)
	}
	if s := r.Server; s != nil {
		line("server", "%s", s.words())
	}
	if g := r.Generator; g != nil {
		line("generator", "%.2f s of processor time, %.2f processors", g.CPU, g.Cores)
	}
	return b.String()
}

func (s *Server) words() string {
	if s.Error != "" {
		return "not measured: " + s.Error
	}
	text := fmt.Sprintf("%.2f s of processor time, %.2f processors; memory %s KB before, %s KB after", s.CPU, s.Cores, thousands(s.RSSBefore), thousands(s.RSSAfter))
	if s.CPUPerDelivery != nil {
		text += fmt.Sprintf("; %.2f µs a delivery", *s.CPUPerDelivery)
	}
	if s.CPUPerUpdate != nil {
		text += fmt.Sprintf("; %.1f µs an update", *s.CPUPerUpdate)
	}
	if s.RSSPerConnection != nil {
		text += fmt.Sprintf("; %.1f KB a connection", *s.RSSPerConnection)
	}
	return text
}

// thousands writes v without decimals, in groups of three.
func thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
