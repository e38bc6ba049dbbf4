package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

// writeCluster writes tables for people: the nodes, what is wrong with any, the stream and its replicas.
func writeCluster(w io.Writer, s *app.ClusterState) error {
	var b bytes.Buffer
	writeNodes(&b, s)
	for _, n := range s.Nodes {
		switch {
		case !n.Answers && n.Seen.IsZero():
			fmt.Fprintf(&b, "%s does not answer: it was stopped, or was not there since %s started\n", printable(n.Name), printable(s.Node))
		case !n.Answers:
			fmt.Fprintf(&b, "%s does not answer; it was last heard of %s ago\n", printable(n.Name), time.Since(n.Seen).Round(time.Second))
		case n.Reason != "":
			fmt.Fprintf(&b, "%s is not ready: %s\n", printable(n.Name), printable(n.Reason))
		}
		if !n.SuspectSince.IsZero() {
			fmt.Fprintf(&b, "%s makes sure that it has lost nothing, since %s\n", printable(n.Name), time.Since(n.SuspectSince).Round(time.Second))
		}
	}
	b.WriteByte('\n')
	writeStream(&b, &s.Stream)
	_, err := w.Write(b.Bytes())
	return err
}

func writeNodes(b *bytes.Buffer, s *app.ClusterState) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	row(table, "NODE", "VERSION", "READY", "CONNECTIONS", "FOLLOWER", "FILTERS", "POSITION", "LAG")
	for _, n := range s.Nodes {
		if !n.Answers {
			row(table, n.Name, "-", "no answer", "-", "-", "-", "-", "-")
			continue
		}
		lag := "-"
		if s.Stream.Error == "" {
			lag = digits(n.Lag)
		}
		row(table, n.Name, n.Version, readiness(&n), strconv.Itoa(n.Connections), orDash(n.Follower),
			strconv.Itoa(n.Filters), digits(uint64(n.Position)), lag)
	}
	_ = table.Flush() // into memory
}

func writeStream(b *bytes.Buffer, s *app.ClusterStream) {
	state := "takes publications"
	switch {
	case s.Error != "":
		state = "cannot be read: " + printable(s.Error)
	case s.Leader == "":
		state = "has no leader: publications wait"
	case !s.Quorum:
		state = "has no quorum: publications wait"
	}
	fmt.Fprintf(b, "Stream %s %s\n", printable(s.Name), state)
	if s.Error != "" {
		b.WriteString("Known before:\n")
	}
	if s.Updates == 0 {
		fmt.Fprintf(b, "no updates retained, last position %d\n", s.Last)
	} else {
		fmt.Fprintf(b, "%d updates retained, %s, positions %d to %d\n", s.Updates, humanize.IBytes(s.Bytes), s.First, s.Last)
	}
	if len(s.Replicas) == 0 {
		return
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	row(table, "REPLICA", "STATE", "LAG", "HEARD OF")
	for _, r := range s.Replicas {
		state, heard := "behind", r.Active.Round(time.Millisecond).String()+" ago"
		switch {
		case s.Error != "", s.Leader == "": // it is the leader who knows
			state, heard = "unknown", "-"
		case r.Leader:
			state, heard = "leader", "-"
		case r.Offline:
			if state = "offline"; r.Active == 0 { // not since the leader was started
				heard = "-"
			}
		case r.Current:
			state = "current"
		}
		row(table, r.Name, state, digits(r.Lag), heard)
	}
	_ = table.Flush() // into memory
}

func row(table io.Writer, cells ...string) {
	for i, c := range cells {
		cells[i] = printable(c)
	}
	_, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) // into memory
}

func readiness(n *app.ClusterNode) string {
	switch {
	case n.Draining && n.Connections > 0:
		return "draining"
	case n.Draining:
		return "drained"
	case n.Ready:
		return "yes"
	default:
		return "no"
	}
}

func digits(n uint64) string { return strconv.FormatUint(n, 10) }

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// printable makes one line of s that a terminal can be given: it came over the network.
func printable(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)), " ")
}
