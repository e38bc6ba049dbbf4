package spec

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

func readVectors(tb testing.TB, name string, v any) {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("vectors", name))
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
}

func isPanic(err error) bool { return errors.Is(err, errPanic) }

// statusOf returns the HTTP status of err, a *Problem, and fails the test for any other error.
func statusOf(tb testing.TB, err error) int {
	tb.Helper()
	if err == nil {
		return 200
	}
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		tb.Fatalf("not a *Problem: %v", err)
	}
	if p.Reason == "" || p.Detail == "" {
		tb.Errorf("problem without reason or text: %+v", p)
	}
	return p.Status
}

// generated stands for an id made by the hub.
const generated = "<generated>"

func TestWireVectors(t *testing.T) {
	var v struct {
		Cases []struct {
			ID, Body, Reason string
			Status           int
			Wire             string
			WireHex          string `json:"wire_hex"`
			ResponseBody     string `json:"response_body"`
			ClientSees       struct {
				Type, Data, LastEventID string
				Retry                   uint64
			} `json:"client_sees"`
		}
		Connection []struct{ ID, Wire, Bytes string }
	}
	readVectors(t, "sse-wire.json", &v)
	if len(v.Cases) != 76 || len(v.Connection) != 9 {
		t.Fatalf("%d cases and %d of connections, want 76 and 9", len(v.Cases), len(v.Connection))
	}
	n := newTestNamespace(t, testHub)
	for _, c := range v.Cases {
		t.Run(c.ID, func(t *testing.T) {
			u, err := ParseUpdate(ParseForm(c.Body), Limits{})
			status := statusOf(t, err)
			if err == nil && n.Reserved(u.Topics[0], true) {
				status = 400
			}
			if status != c.Status {
				t.Fatalf("%q: status %d (%v), want %d: %s", c.Body, status, err, c.Status, c.Reason)
			}
			if c.Status != 200 {
				return
			}
			if (u.ID == "") != (c.ResponseBody == generated) {
				t.Errorf("id %q, want %q", u.ID, c.ResponseBody)
			}
			if u.ID == "" {
				u.ID = generated
			}
			wire := sse.AppendEvent(nil, sse.Event{ID: u.ID, Type: u.Type, Data: u.Data, Retry: u.Retry})
			if string(wire) != c.Wire || c.WireHex != "" && hex.EncodeToString(wire) != c.WireHex {
				t.Errorf("%s\ngot  %q\nwant %q", c.Reason, wire, c.Wire)
			}
			seen, err := sse.NewDecoder(strings.NewReader(string(wire)), 0).Next()
			if err != nil {
				t.Fatal(err)
			}
			if seen.Type == "" {
				seen.Type = "message"
			}
			want := sse.Event{Type: c.ClientSees.Type, Data: c.ClientSees.Data, ID: c.ClientSees.LastEventID, Retry: c.ClientSees.Retry}
			if seen != want {
				t.Errorf("client sees %+v, want %+v", seen, want)
			}
		})
	}
	got := map[string]string{
		"SSE-C01": sse.Comment, "SSE-C02": sse.Comment, "SSE-C04": "\n",
		"SSE-C07": string(sse.AppendEvent(sse.AppendEvent(nil, sse.Event{ID: "e1", Data: "a"}), sse.Event{ID: "e2", Data: "b"})),
		"SSE-C08": sse.Comment + strings.ReplaceAll(string(sse.AppendRetry(nil, 1)), "1", "N"),
		"SSE-C09": string(sse.AppendEvent(nil, sse.Event{ID: "e5", Data: "x", CursorID: "e9"})),
	}
	for _, c := range v.Connection {
		if bytes, ok := got[c.ID]; ok && bytes != c.Wire+c.Bytes {
			t.Errorf("%s: got %q, want %q", c.ID, bytes, c.Wire+c.Bytes)
		}
	}
}
