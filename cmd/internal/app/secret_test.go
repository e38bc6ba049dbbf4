//go:build unix

package app_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
)

// TestKeyFromAPipeIsReadOnce covers @<(command) and @/dev/stdin, for both roles and across a reload.
func TestKeyFromAPipeIsReadOnce(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := w.WriteString(secret + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("@/dev/fd/%d", r.Fd())
	a, _ := start(t, "--transport=memory", "--publisher-jwt-key="+path, "--subscriber-jwt-key="+path)
	for _, when := range []string{"after the start", "after a reload"} {
		p := client.Publisher{URL: a.URL(), Token: mint(t, secret), HTTP: httpClient(t)}
		if _, err := p.Publish(t.Context(), &spec.Update{Topics: []string{"a"}}); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if err := a.Reload(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
