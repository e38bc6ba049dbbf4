//go:build linux

package cluster_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// table collects a row for each failure, to be printed at the end of everything.
var table struct {
	mu   sync.Mutex
	rows []string // guarded by mu
}

const tableHead = "failure | mode | lost | doubled | late | closed | longest publish stall | longest without any acknowledgement | longest delivery stall | longest silence | acknowledged | deliveries | reconnects | 503 | cut"

// row adds and prints a row of the failure table.
func row(t *testing.T, failure, mode string, v verdict) {
	t.Helper()
	line := strings.Join([]string{
		failure, mode, fmt.Sprint(v.lost), fmt.Sprint(v.doubled), fmt.Sprint(v.late), fmt.Sprint(v.closed),
		brief(v.publishStall), brief(v.ackGap), brief(v.deliveryStall), brief(v.silence), fmt.Sprint(v.acked), fmt.Sprint(v.deliveries), fmt.Sprint(v.reconnects),
		fmt.Sprint(v.unavailable), fmt.Sprint(v.cut),
	}, " | ")
	t.Log(line)
	table.mu.Lock()
	defer table.mu.Unlock()
	table.rows = append(table.rows, line)
}

func brief(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// printTable prints all rows together, also when nothing failed and go test shows no log.
func printTable() {
	table.mu.Lock()
	defer table.mu.Unlock()
	if len(table.rows) > 0 {
		fmt.Fprintf(os.Stdout, "\n%s\n%s\n", tableHead, strings.Join(table.rows, "\n"))
	}
}
