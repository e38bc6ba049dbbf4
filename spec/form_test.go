package spec

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestParseFormFollowsTheURLStandard(t *testing.T) {
	tests := []struct {
		name, raw string
		want      Form
	}{
		{"nothing", "", nil},
		{"empty pairs are skipped", "&&a=1&", Form{{"a", "1"}}},
		{"a semicolon is ordinary", "topic=a;b", Form{{"topic", "a;b"}}},
		{"a stray percent sign is kept", "a=100%&b=%zz&c=%4", Form{{"a", "100%"}, {"b", "%zz"}, {"c", "%4"}}},
		{"plus is a space", "a+b=c+d%2B", Form{{"a b", "c d+"}}},
		{"no equals sign", "private", Form{{"private", ""}}},
		{"no name", "=x", Form{{"", "x"}}},
		{"only the first equals sign counts", "a=b=c", Form{{"a", "b=c"}}},
		{"names are decoded", "%74opic=a", Form{{"topic", "a"}}},
		{"separators may be encoded", "a=%26%3D", Form{{"a", "&="}}},
		{"bytes are kept", "a=%FF%00", Form{{"a", "\xff\x00"}}},
		{"order and repetition", "a=1&b=2&a=3", Form{{"a", "1"}, {"b", "2"}, {"a", "3"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ParseForm(tt.raw); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%q: %q, want %q", tt.raw, got, tt.want)
			}
		})
	}
	f := ParseForm("a=1&b=2&a=3")
	if v, ok := f.First("a"); v != "1" || !ok {
		t.Errorf("first a: %q, %v", v, ok)
	}
	if _, ok := f.First("A"); ok {
		t.Error("names are compared without case")
	}
	if got := f.All("a"); !reflect.DeepEqual(got, []string{"1", "3"}) {
		t.Errorf("all a: %q", got)
	}
}

func TestParseFormLimitCountsFields(t *testing.T) {
	if f, err := ParseFormLimit("a&b&&c", 3); err != nil || len(f) != 3 {
		t.Errorf("at the limit: %v, %v", f, err)
	}
	if _, err := ParseFormLimit("a&b&c&d", 3); statusOf(t, err) != 413 || !strings.Contains(err.Error(), "3") {
		t.Errorf("over the limit: %v", err)
	}
	if n := (Limits{}).FormFields(); n < DefaultLimits().Topics+10 {
		t.Errorf("room for only %d fields", n)
	}
}

// FuzzForm compares the parser with that of the standard library where both must agree.
func FuzzForm(f *testing.F) {
	f.Add("topic=a&data=b%20c+d&&x")
	f.Add("a=%zz;%&=")
	f.Fuzz(func(t *testing.T, raw string) {
		form := ParseForm(raw)
		if strings.Contains(raw, ";") {
			return
		}
		if values, err := url.ParseQuery(raw); err == nil {
			got := url.Values{}
			for _, x := range form {
				got.Add(x.Name, x.Value)
			}
			if !reflect.DeepEqual(got, values) {
				t.Fatalf("%q: %q, want %q", raw, got, values)
			}
		}
	})
}

func BenchmarkParseForm(b *testing.B) {
	raw := "topic=https%3A%2F%2Fexample.com%2Fbooks%2F1&private=on&data=" + strings.Repeat("%7B%22a%22%3A1%7D", 64)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		ParseForm(raw)
	}
}
