package spec

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

func TestParseUpdateReadsEveryField(t *testing.T) {
	u, err := ParseUpdate(ParseForm("topic=a&topic=b&private=off&id=%20&id=x"), Limits{})
	if err == nil {
		t.Fatalf("the first id, a blank, did not count: %+v", u)
	}
	u, err = ParseUpdate(ParseForm("data=x&data=y&topic=a&topic=b&private=off&id=i&id=j&type=t&type=mercure&retry=007&retry=-1&other=1"), Limits{})
	want := &Update{Topics: []string{"a", "b"}, ID: "i", Type: "t", Data: "x", Retry: 7, Private: true}
	if err != nil || !reflect.DeepEqual(u, want) {
		t.Errorf("%+v, %v, want %+v", u, err, want)
	}
}

func TestParseUpdateRefusals(t *testing.T) {
	l := Limits{Topics: 3, TopicBytes: 10, IDBytes: 5}
	tests := []struct {
		name, body string
		status     int
		says       []string // what the text must name
	}{
		{"no topic", "data=x", 400, []string{"topic", "missing"}},
		{"an empty alternate", "topic=a&topic=", 400, []string{"topic", "empty"}},
		{"the wildcard", "topic=*", 400, []string{"topic"}},
		{"too many topics", "topic=a&topic=b&topic=c&topic=d", 413, []string{"topic", "4", "3"}},
		{"a long topic", "topic=01234567890", 413, []string{"topic", "11", "10"}},
		{"a long id", "topic=a&id=123456", 413, []string{"id", "6", "5"}},
		{"a long type", "topic=a&type=123456", 413, []string{"type", "6", "5"}},
		{"controls in a topic", "topic=a%7F", 400, []string{"topic"}},
		{"C1 in an id", "topic=a&id=%C2%85", 400, []string{"id"}},
		{"an id ending with a blank", "topic=a&id=a+", 400, []string{"id", "space"}},
		{"a reserved id", "topic=a&id=%23x", 400, []string{"id", "#"}},
		{"a reserved type", "topic=a&type=mercure", 400, []string{"type", "mercure"}},
		{"retry with a sign", "topic=a&retry=-1", 400, []string{"retry"}},
		{"retry beyond 64 bits", "topic=a&retry=18446744073709551616", 400, []string{"retry", "64"}},
		{"data that is not UTF-8", "topic=a&data=%C3", 400, []string{"data", "UTF-8"}},
		{"targets of old hubs", "topic=a&target=u", 400, []string{"target"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limits := l
			if strings.Contains(tt.body, "mercure") {
				limits = Limits{}
			}
			u, err := ParseUpdate(ParseForm(tt.body), limits)
			if got := statusOf(t, err); got != tt.status {
				t.Fatalf("status %d (%+v, %v), want %d", got, u, err, tt.status)
			}
			for _, word := range tt.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
		})
	}
	if _, err := ParseUpdate(ParseForm("topic=a&topic=b&topic=0123456789&id=12345&type=12345&retry=18446744073709551615"), l); err != nil {
		t.Errorf("at every limit: %v", err)
	}
}

func TestValidText(t *testing.T) {
	for s, want := range map[string]bool{
		"": true, "plain": true, "café ☕": true, "\U0010FFFF": true, "\uFFFD": true, "\u00a0": true,
		"a\tb": false, "\x00": false, "\x7f": false, "\u0080": false, "\u009f": false, "a\u200db": false, "\u00ad": false,
		"\ufeff": false, "\u202e": false, "\U000E0001": false, "\xff": false, "\xed\xa0\x80": false, "é\x1f": false,
	} {
		if got := ValidText(s); got != want {
			t.Errorf("%+q: %v", s, got)
		}
	}
}

// FuzzParseUpdate checks that what is accepted can be written to the wire and read back unchanged.
func FuzzParseUpdate(f *testing.F) {
	var v struct{ Cases []struct{ Body string } }
	readVectors(f, "sse-wire.json", &v)
	for _, c := range v.Cases {
		f.Add(c.Body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		form, err := ParseFormLimit(body, Limits{}.FormFields())
		if err != nil {
			return
		}
		u, err := ParseUpdate(form, Limits{})
		if statusOf(t, err) != 200 {
			return
		}
		for _, topic := range u.Topics {
			if topic == "" || topic == Wildcard || len(topic) > 2048 || !ValidText(topic) {
				t.Fatalf("%q: topic %q was accepted", body, topic)
			}
		}
		e := sse.Event{ID: u.ID, Type: u.Type, Data: u.Data, Retry: u.Retry}
		d := sse.NewDecoder(strings.NewReader(string(sse.AppendEvent(nil, e))), 1<<30)
		got, err := d.Next()
		e.Data = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(e.Data)
		if err != nil || got != e {
			t.Fatalf("%q: read back %+v, %v, want %+v", body, got, err, e)
		}
	})
}
