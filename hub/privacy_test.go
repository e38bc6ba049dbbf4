package hub

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// TestTokensStayPrivate sends tokens in every place, good and bad, and looks for them in everything the
// hub says: log, answers, metrics.
//
// Covers: AUT-13.
func TestTokensStayPrivate(t *testing.T) {
	change, book, reg := observed(nil)
	n, good := startClosedNode(t, change)
	tokens := []string{
		good,
		mint(t, testKey+"!", time.Hour, "*"), // not ours
		mint(t, testKey, -time.Hour, "*"),    // expired
		mint(t, testKey, time.Hour, "b"),     // grants something else
		"SECRETSECRET",                       // nothing like a token
		"SECRET.SECRET.SECRET%0A%00",         // nor this
		strings.Repeat("SECRET", 4<<10),      // too long
	}
	var answers bytes.Buffer
	for _, token := range tokens {
		for _, target := range []string{
			"/?authorization=" + token,
			spec.DefaultHubPath + "?authorization=" + token, // no topic
			spec.DefaultHubPath + "?topic=a&match=1&authorization=" + token,
			spec.DefaultHubPath + "?topic=a&authorization=" + token + "&authorization=" + token,
		} {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut} {
				for _, headers := range [][]string{
					{},
					{"Authorization", "Bearer " + token},
					{"Authorization", "Basic " + token},
					{"Cookie", spec.CookieClassic + "=" + token},
					{"Authorization", token, "Accept", "application/problem+json"},
				} {
					w := n.serve(method, target, "topic=a", append([]string{"Content-Type", formType}, headers...)...)
					fmt.Fprintln(&answers, w.Code, w.Header(), w.Body)
				}
			}
		}
	}
	res := n.get("topic=a&authorization=" + good) // a stream
	fmt.Fprintln(&answers, res.StatusCode, res.Header)
	if res.StatusCode != http.StatusOK {
		t.Errorf("the stream is refused: %d", res.StatusCode)
	}

	scrape := n.scrape(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	for where, text := range map[string]string{"log": book.String(), "answers": answers.String(), "metrics": scrape} {
		if text == "" {
			t.Errorf("%s: nothing to look at", where)
		}
		for _, token := range tokens {
			for part := range strings.SplitSeq(token, ".") { // not even a part
				if i := strings.Index(text, part[:min(len(part), 40)]); i >= 0 {
					t.Errorf("%s holds a token: %.200q", where, text[max(0, i-80):])
				}
			}
		}
		if strings.Contains(text, "SECRET") {
			t.Errorf("%s holds what might have been a token", where)
		}
	}
}

func (n *node) scrape(h http.Handler) string {
	r, w := newExchange(n.t, http.MethodGet, "/metrics", "")
	h.ServeHTTP(w, r)
	return w.Body.String()
}
