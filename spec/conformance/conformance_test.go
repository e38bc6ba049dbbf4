package conformance

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestCasesAreWellFormed(t *testing.T) {
	names := map[string]bool{}
	name := regexp.MustCompile(`^[a-z]+/[a-z0-9.-]+$`)
	for _, c := range Cases() {
		if names[c.Name] || !name.MatchString(c.Name) {
			t.Errorf("the name %q is not unique or not area/what", c.Name)
		}
		names[c.Name] = true
		if len(c.Rows) == 0 || c.Run == nil || !strings.HasSuffix(c.Doc, ".") {
			t.Errorf("%s lacks rows, a sentence or a function", c.Name)
		}
	}
}

// onlyTheHead are cases that a stream without events satisfies.
var onlyTheHead = map[string]bool{
	"subscribe/head": true, "subscribe/accept-does-not-matter": true, "stream/first-bytes": true, "stream/no-compression": true,
}

// TestNoCaseHoldsForAServerThatIsNoHub shows that no case is empty: each fails for servers that do not
// even try.
func TestNoCaseHoldsForAServerThatIsNoHub(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"always 500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"always 200": func(http.ResponseWriter, *http.Request) {},
		"always 404": http.NotFound,
		"an empty stream": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			if r.Method != http.MethodGet {
				return
			}
			_, _ = w.Write([]byte(":\nretry: 1\n"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(h)
			defer s.Close()
			target := Target{
				URL: s.URL + "/.well-known/mercure", PublisherKey: "a key", SubscriberKey: "another key", Wait: 150 * time.Millisecond, Concurrency: 16,
				AllowOrigin: "https://a.example", PublishOrigin: "https://b.example", Heartbeat: time.Millisecond, Lifetime: 100 * time.Millisecond,
				WriteTimeout: 10 * time.Millisecond, History: 3, Subscriptions: true,
				Issuer: "https://issuer.example", IssuerKey: "an issuer's key", NoIssuers: true,
			}
			strict := target
			strict.Generation, strict.NoClassic = Draft08, true
			_, err := Run(t.Context(), target, func(r Result) {
				if strings.HasPrefix(r.Case.Name, "strict/") {
					return
				}
				if r.Err == nil && (name != "an empty stream" || !onlyTheHead[r.Case.Name]) {
					t.Errorf("%s holds (skipped: %q)", r.Name(), r.Skipped)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = RunCases(t.Context(), strict, strictCases(), func(r Result) {
				if r.Err == nil {
					t.Errorf("%s holds (skipped: %q)", r.Name(), r.Skipped)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestTargetsThatCannotBeTested(t *testing.T) {
	for name, target := range map[string]Target{
		"no URL":                        {PublisherKey: "a", SubscriberKey: "b"},
		"another scheme":                {URL: "ftp://a.example/", PublisherKey: "a", SubscriberKey: "b"},
		"no keys":                       {URL: "http://a.example/"},
		"no issuer":                     {URL: "http://a.example/", IssuerKey: "a"},
		"no issuer key":                 {URL: "http://a.example/", Issuer: "https://a.example"},
		"no such key":                   {URL: "http://a.example/", Issuer: "https://a.example", IssuerKey: "-----BEGIN X-----"},
		"a generation without its keys": {URL: "http://a.example/", PublisherKey: "a", SubscriberKey: "b", Generation: Draft08},
		"both without the keys of one":  {URL: "http://a.example/", Issuer: "https://a.example", IssuerKey: "a", Generation: Both},
		"no such generation":            {URL: "http://a.example/", PublisherKey: "a", SubscriberKey: "b", Generation: "draft-09"},
		"a strict hub in both":          {URL: "http://a.example/", Generation: Both, PublisherKey: "a", SubscriberKey: "b", Issuer: "https://a.example", IssuerKey: "a", NoClassic: true},
		"one key":                       {URL: "http://a.example/", PublisherKey: "a"},
	} {
		if _, err := Run(t.Context(), target, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTheReaderTakesOnlyWhatAHubMayWrite(t *testing.T) {
	const opening = ":\nretry: 5\n"
	for body, want := range map[string]string{
		opening:                                  "",
		opening + "id: 1\ndata: x\n\n":           "",
		":\nid: 1\ndata: x\n\n":                  "",
		opening + ":\nid: 1\ndata: x\n\n:\n":     "",
		opening + "id: 1\ndata: x\n\nretry: 9\n": "",
		opening + "\n":                           "SSE-W2",
		opening + "id:1\ndata: x\n\n":            "SSE-W2",
		opening + "id: 1\ndata:x\n\n":            "SSE-W2",
		opening + "id: 1\nfoo: x\n\n":            "SSE-W2",
		opening + "id: 1\n:\ndata: x\n\n":        "SSE-W2",
		opening + "data: x\n\n":                  "SSE-W6",
		opening + "id: 1\n\n":                    "SSE-W4",
		opening + "id: 1\r\ndata: x\r\n\r\n":     "SSE-W9",
		opening + "id: 1\ndata: x\n":             "within an event",
		opening + "id: 1\ndata: x":               "within an event",
		"\ufeff" + opening:                       "within an event",
	} {
		s := &stream{p: newProbe(Target{}, classic), events: make(chan event, 8), comments: make(chan struct{}, 1), begun: make(chan struct{})}
		err := s.read(strings.NewReader(body))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
}
