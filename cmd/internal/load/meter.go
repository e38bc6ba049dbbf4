package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Meter tells what the hub's processes use: by their numbers, on this machine with Linux, or from a Prometheus
// endpoint that has process_resident_memory_bytes and process_cpu_seconds_total, such as Cinnabar's admin listener's.
// The zero value measures nothing.
type Meter struct {
	PIDs       []int
	MetricsURL string
}

// reading is what a Meter says at one moment.
type reading struct {
	cpu time.Duration
	rss int64 // bytes
}

func (m *Meter) check() error {
	switch {
	case len(m.PIDs) > 0 && m.MetricsURL != "":
		return badOption("give --pid or --metrics, not both")
	case len(m.PIDs) > 0 && runtime.GOOS != "linux":
		return badOption("--pid needs Linux; use --metrics")
	}
	return nil
}

func (m *Meter) used() bool { return len(m.PIDs) > 0 || m.MetricsURL != "" }

func (m *Meter) read(ctx context.Context) (reading, error) {
	if m.MetricsURL != "" {
		return scrape(ctx, m.MetricsURL)
	}
	var sum reading
	for _, pid := range m.PIDs {
		r, err := readProcess(pid)
		if err != nil {
			return reading{}, err
		}
		sum.cpu += r.cpu
		sum.rss += r.rss
	}
	return sum, nil
}

// userHZ is what /proc counts processor time in, on every Linux.
const userHZ = 100

func readProcess(pid int) (reading, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat") //nolint:gosec // of the process the user named
	if err != nil {
		return reading{}, badOption("--pid %d: %v", pid, err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // its name may hold anything
	if len(fields) < 22 {
		return reading{}, fmt.Errorf("%s/stat cannot be read", dir)
	}
	var v [3]int64
	for i, field := range [...]int{11, 12, 21} { // utime, stime, rss
		if v[i], err = strconv.ParseInt(fields[field], 10, 64); err != nil {
			return reading{}, fmt.Errorf("%s/stat cannot be read: %w", dir, err)
		}
	}
	return reading{cpu: time.Duration(v[0]+v[1]) * time.Second / userHZ, rss: v[2] * int64(os.Getpagesize())}, nil
}

func scrape(ctx context.Context, url string) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return reading{}, badOption("--metrics: %v", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reading{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return reading{}, fmt.Errorf("--metrics: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return reading{}, fmt.Errorf("--metrics: %s", resp.Status)
	}
	rss, err := sample(string(text), "process_resident_memory_bytes")
	if err != nil {
		return reading{}, err
	}
	cpu, err := sample(string(text), "process_cpu_seconds_total")
	return reading{cpu: time.Duration(cpu * float64(time.Second)), rss: int64(rss)}, err
}

// sample finds a series without labels.
func sample(text, name string) (float64, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.Fields(value + " ?")[0], 64)
			if err != nil {
				return 0, fmt.Errorf("--metrics: %s: %w", name, err)
			}
			return v, nil
		}
	}
	return 0, errors.New("--metrics: there is no " + name)
}
