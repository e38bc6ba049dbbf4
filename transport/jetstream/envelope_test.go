package jetstream

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport/eventid"
)

func FuzzEnvelopeRoundTrip(f *testing.F) {
	f.Add("https://example.com/a", "b", "id", "type", uint64(3), true, "data")
	f.Add(" \t", "\u2028<&>\"\\", "", "", uint64(1<<64-1), false, "\x00\xff\r\n")
	f.Add(strings.Repeat("\"", maxHeader), "", "", "", uint64(0), false, "{}")
	codec := eventid.NewRandom()
	f.Fuzz(func(t *testing.T, a, b, id, typ string, retry uint64, private bool, data string) {
		for _, s := range []string{a, b, id, typ} {
			if !utf8.ValidString(s) {
				t.Skip() // never published (PUB-06, PUB-12, PUB-16)
			}
		}
		u := &spec.Update{Topics: []string{a, b}, ID: id, Type: typ, Retry: retry, Private: private, Data: data}
		m, err := encode("p.u.x", "nonce", u)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(m.Header[headerEnvelope][0]); n > maxHeader {
			t.Fatalf("header of %d bytes", n)
		}
		e, err := decode(codec, 7, m.Header, m.Data)
		if err != nil {
			t.Fatal(err)
		}
		want := *u
		if id == "" {
			want.ID = codec.Encode(7, eventid.Check("nonce"))
		}
		if got := e.Update; !slices.Equal(got.Topics, want.Topics) || got.ID != want.ID || got.Type != typ ||
			got.Retry != retry || got.Private != private || got.Data != data || e.Pos != 7 {
			t.Fatalf("%+v became %+v", want, got)
		}
	})
}

func TestForeignMessagesAreNoUpdates(t *testing.T) {
	for name, h := range map[string]nats.Header{
		"no header":      nil,
		"no JSON":        {headerEnvelope: {"x"}},
		"no topics":      {headerEnvelope: {"{}"}},
		"length beyond":  {headerEnvelope: {"100"}},
		"length below":   {headerEnvelope: {"-1"}},
		"twice":          {headerEnvelope: {`{"topics":["a"]}`, `{"topics":["b"]}`}},
		"no JSON within": {headerEnvelope: {"2"}},
	} {
		if _, err := decode(eventid.NewRandom(), 1, h, []byte("data")); !errors.Is(err, errEnvelope) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
