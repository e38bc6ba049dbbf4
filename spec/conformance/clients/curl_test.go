package clients_test

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// Covers: PUB-01, PUB-22, REC-01, SUB-37.
func TestRealClientCurlPublishesSubscribesAndResumes(t *testing.T) {
	curl := child.Require(t, "curl")
	h := child.New(t, "--anonymous")
	h.Start()
	const topic = "https://example.com/curl"
	publish := func(data string) string {
		out, err := exec.CommandContext(t.Context(), curl, "-sS", "--fail-with-body", "-d", "topic="+topic, "--data-urlencode", "data="+data,
			"-H", "Authorization: Bearer "+child.Token(t), h.URL).CombinedOutput()
		if err != nil {
			t.Fatalf("curl: %v: %s", err, out)
		}
		return string(out)
	}
	subscribe := func(more ...string) *lines {
		return run(t, curl, append([]string{"-sSN", "-G", "--data-urlencode", "topic=" + topic, h.URL}, more...)...)
	}
	wait := func(l *lines, ids ...string) {
		t.Helper()
		var want []string
		for _, id := range ids {
			want = append(want, "id: "+id)
		}
		child.Eventually(t, patience, func() error {
			got := slices.DeleteFunc(l.get(), func(s string) bool { return !strings.HasPrefix(s, "id: ") })
			if !slices.Equal(got, want) {
				return errors.New("curl shows " + strings.Join(got, ", ") + ", want " + strings.Join(want, ", "))
			}
			return nil
		})
	}
	first := subscribe()
	child.Eventually(t, patience, func() error {
		if len(first.get()) < 2 {
			return errors.New("curl shows nothing of the stream's opening")
		}
		return nil
	})
	one, two := publish("one"), publish("two\nlines")
	wait(first, one, two)
	h.Kill()
	h.Start()
	three := publish("three")
	wait(subscribe("-H", "Last-Event-ID: "+one), two, three)
	wait(subscribe("--data-urlencode", "lastEventID="+two), three)
	wait(subscribe("--data-urlencode", "lastEventID=earliest"), one, two, three)
}
