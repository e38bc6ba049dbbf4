package app_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestNamesOfOthersAreRefused covers rebinding: a page whose name now resolves to this machine.
func TestNamesOfOthersAreRefused(t *testing.T) {
	dev, _ := start(t, "--dev", "--transport=memory", "--public-url=https://Hub.example/.well-known/mercure")
	normal, _ := start(t, both...)
	// HEAD, where there is no stream to wait for.
	publicDev, publicNormal, admin := dev.URL()+"?topic=a", normal.URL()+"?topic=a", "http://"+dev.AdminAddr()+"/debug/pprof/"
	for name, tt := range map[string]struct {
		url, host string
		refused   bool
	}{
		"dev by its address":          {publicDev, "", false},
		"dev by another address":      {publicDev, "192.0.2.1:80", false},
		"dev by an IPv6 address":      {publicDev, "[::1]:3000", false},
		"dev by an IPv6 alone":        {publicDev, "[::1]", false},
		"dev as localhost":            {publicDev, "LOCALHOST:3000", false},
		"dev as localhost, absolute":  {publicDev, "localhost.:3000", false},
		"dev below localhost":         {publicDev, "app.localhost", false},
		"dev by its public name":      {publicDev, "hub.example", false},
		"dev by a foreign name":       {publicDev, "evil.example:3000", true},
		"dev by a lookalike":          {publicDev, "localhost.evil.example", true},
		"dev by another lookalike":    {publicDev, "evillocalhost", true},
		"admin by its address":        {admin, "", false},
		"admin as localhost":          {admin, "localhost", false},
		"admin by a foreign name":     {admin, "evil.example", true},
		"a real hub by whatever name": {publicNormal, "evil.example", false},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, tt.url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = tt.host
			resp, err := httpClient(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if got := resp.StatusCode == http.StatusMisdirectedRequest; got != tt.refused {
				t.Errorf("status %d, want refused to be %t", resp.StatusCode, tt.refused)
			}
		})
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, publicDev, strings.NewReader("topic=a"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	resp, err := httpClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a publication is answered %d, want 421", resp.StatusCode)
	}
}
