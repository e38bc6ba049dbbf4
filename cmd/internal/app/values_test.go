package app

import (
	"strings"
	"testing"
)

// TestOriginsAreWrittenAsBrowsersSendThem, for they are compared as texts.
func TestOriginsAreWrittenAsBrowsersSendThem(t *testing.T) {
	for s, want := range map[string]string{
		"https://a.example":             "https://a.example",
		"HTTPS://A.Example/":            "https://a.example",
		"https://a.example:443":         "https://a.example",
		"http://a.example:80/":          "http://a.example",
		"https://a.example:":            "https://a.example",
		"https://a.example:0443":        "https://a.example",
		"https://a.example:80":          "https://a.example:80",
		"http://a.example:443":          "http://a.example:443",
		"http://localhost:5173":         "http://localhost:5173",
		"https://[::1]:443":             "https://[::1]",
		"https://[0:0:0:0:0:0:0:1]:444": "https://[::1]:444",
		"https://192.0.2.1:443":         "https://192.0.2.1",
		"https://xn--bcher-kva.example": "https://xn--bcher-kva.example",
		"moz-extension://0a1b2c":        "moz-extension://0a1b2c",
		"null":                          "null",
		"*":                             "*",
	} {
		if got, err := parseOrigin(s); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", s, got, err, want)
		}
	}
	for s, want := range map[string]string{
		"https://*.b.example":         "no patterns",
		"https://*":                   "no patterns",
		"https://b\u00fccher.example": "xn--",
		"https://a.example:99999":     "65535",
		"https://:443":                "host",
		"https://a.example/page":      "without a path",
		"https://u@a.example":         "origin",
		"a.example":                   "origin",
	} {
		if got, err := parseOrigin(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want an error with %q", s, got, err, want)
		}
	}
}

func TestNodeNamesAreMadeOfHostNames(t *testing.T) {
	for host, want := range map[string]string{
		"hub-0": "hub-0", "hub-1.example.com": "hub-1", "my laptop (2)": "my-laptop-2", "h\u00fcgel": "h-gel", "...": "",
		strings.Repeat("a", 70): strings.Repeat("a", 64),
	} {
		if got := nodeName(host); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}
