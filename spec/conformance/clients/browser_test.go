package clients_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// page is a page in a headless browser, served from an origin of its own.
type page struct {
	t      *testing.T
	ctx    context.Context // chromedp's handle of the tab
	origin string
}

// prelude is what the pages of these tests share: streams by name, with all that happened to them.
const prelude = `<!doctype html><meta charset="utf-8"><title>a page</title><script>
const streams = {};
function subscribe(name, url, credentials = false) {
  const source = new EventSource(url, { withCredentials: credentials });
  const s = streams[name] = { source, got: [], ids: [], opened: 0, errors: [] };
  source.onopen = () => s.opened++;
  source.onmessage = (e) => { s.got.push(e.data); s.ids.push(e.lastEventId); };
  source.onerror = () => s.errors.push(source.readyState);
}
async function follow(name, url, init) { // draft-08's way: fetch, and the stream read by hand
  const r = await fetch(url, init);
  const s = streams[name] = { got: [], ids: [], status: r.status, cursor: r.headers.get("Mercure-Last-Event-ID") };
  const reader = s.reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  (async () => {
    let text = "", id = "", data = [];
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const lines = (text + part.value).split("\n");
      text = lines.pop();
      for (const line of lines) {
        if (line.startsWith("id: ")) id = line.slice(4);
        else if (line.startsWith("data: ")) data.push(line.slice(6));
        else if (line === "" && data.length > 0) {
          s.got.push(data.join("\n"));
          s.ids.push(id);
          data = [];
        }
      }
    }
  })().catch((e) => s.got.push("failed: " + e));
}
</script>`

// openPage starts a browser and opens a page in it. Its origin is known before the hub starts.
func openPage(t *testing.T) *page {
	t.Helper()
	program := child.Require(t, "chromium", "chromium-browser", "google-chrome", "chrome")
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(prelude))
	}))
	t.Cleanup(site.Close)
	profile, err := os.MkdirTemp("", "cinnabar-browser-") //nolint:usetesting // the browser's helpers may write a moment longer than it lives
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	alloc, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()),
		chromedp.ExecPath(program), chromedp.UserDataDir(profile), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
	)
	t.Cleanup(stop)
	ctx, leave := chromedp.NewContext(alloc)
	t.Cleanup(leave)
	p := &page{t: t, ctx: ctx, origin: site.URL}
	if err := chromedp.Do(ctx, chromedp.Navigate(site.URL)); err != nil {
		t.Fatalf("open a page: %v", err)
	}
	return p
}

// eval runs a script and awaits its value. The arguments go into the script as with fmt.
func eval[T any](p *page, script string, args ...any) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	js := "(async () => {" + fmt.Sprintf(script, args...) + "})()"
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", js, err)
	}
	return value
}

func (p *page) run(script string, args ...any) {
	p.t.Helper()
	eval[chromedp.Void](p, script, args...)
}

// state is what is known of a stream.
type state struct {
	Got    []string `json:"got"`
	IDs    []string `json:"ids"`
	Opened int      `json:"opened"`
	Errors []int    `json:"errors"` // readyState at each error event
	Ready  int      `json:"ready"`
}

const closed = 2 // EventSource.CLOSED: it will not come back

func (p *page) stream(name string) state {
	p.t.Helper()
	s := eval[state](p, "const s = streams[%q]; return { got: s.got, ids: s.ids, opened: s.opened, errors: s.errors, ready: s.source.readyState };", name)
	for _, ready := range s.Errors {
		if ready == closed {
			p.t.Fatalf("the EventSource %s has given up", name)
		}
	}
	return s
}

func (p *page) subscribe(name, address string) {
	p.t.Helper()
	p.run("subscribe(%q, %q);", name, address)
}

func (p *page) waitOpen(name string, times int) {
	p.t.Helper()
	child.Eventually(p.t, patience, func() error {
		if s := p.stream(name); s.Opened < times {
			return fmt.Errorf("the stream %s has opened %d times, want %d; it is %+v", name, s.Opened, times, s)
		}
		return nil
	})
}

func at(h *child.Hub, topic string, more ...string) string {
	return h.URL + "?topic=" + url.QueryEscape(topic) + strings.Join(more, "")
}

// The story of the README: a page listens, the hub is killed and comes back, the page has everything.
// Covers: SUB-01, SUB-28, REC-01, REC-06, SSE-W6, SSE-W11.
func TestBrowserEventSourceResumes(t *testing.T) {
	p := openPage(t)
	h := child.New(t, "--anonymous", "--cors-origin", p.origin, "--retry", "200ms")
	h.Start()
	const topic = "https://example.com/page"
	p.subscribe("main", at(h, topic))
	p.waitOpen("main", 1)
	story(t, h, topic, func() []string { return p.stream("main").Got })
	s := p.stream("main")
	for i, id := range s.IDs {
		if id == "" {
			t.Errorf("event %d has no id", i)
		}
	}
	if s.Opened < 2 {
		t.Errorf("the stream opened %d times: the hub was never away", s.Opened)
	}
}

// A script compares the cursor that is confirmed with the one it asked for, from another origin.
// Covers: REC-09, REC-12, REC-20, CORS-03, CORS-04, CORS-05.
func TestBrowserFetchReadsTheCursor(t *testing.T) {
	p := openPage(t)
	h := child.New(t, "--cors-origin", p.origin)
	h.Start()
	const topic = "https://example.com/fetch"
	id := h.Must(topic, "x")
	const script = `
		const leave = new AbortController();
		const r = await fetch(%q, { headers: { Authorization: "Bearer " + %q, "Last-Event-ID": %q, "Cache-Control": "no-cache" }, signal: leave.signal });
		const heads = [r.status, r.headers.get("Last-Event-ID"), r.headers.get("Mercure-Last-Event-ID"), r.headers.get("WWW-Authenticate")].join(" ");
		leave.abort();
		return heads;`
	for cursor, want := range map[string]string{id: id, "urn:uuid:unknown": "earliest", "earliest": "earliest"} {
		got := eval[string](p, script, at(h, topic), child.Token(t), cursor)
		if want = "200 " + want + " " + want + " "; got != want {
			t.Errorf("asked for %s, the script reads %q, want %q", cursor, got, want)
		}
	}
	got := eval[string](p, script, at(h, topic), "no.such.token", id)
	if !strings.HasPrefix(got, "401") || !strings.Contains(got, "invalid_token") {
		t.Errorf("with a bad token the script reads %q, want 401 and the challenge", got)
	}
}

// An EventSource that cannot be served for now comes back by itself. Covers: SUB-41, LIM-10, SSE-W11.
func TestBrowserEventSourceSurvivesARefusal(t *testing.T) {
	p := openPage(t)
	h := child.New(t, "--anonymous", "--cors-origin", p.origin, "--retry", "100ms", "--max-connections", "1")
	h.Start()
	const topic = "https://example.com/crowd"
	p.subscribe("first", at(h, topic))
	p.waitOpen("first", 1)
	p.subscribe("second", at(h, topic))
	child.Eventually(t, patience, func() error {
		if s := p.stream("second"); len(s.Errors) < 2 {
			return fmt.Errorf("the second stream was refused %d times, want 2", len(s.Errors))
		}
		return nil
	})
	p.run("streams.first.source.close();")
	// An open event also precedes a refusal's empty stream: what counts is an update.
	child.Eventually(t, patience, func() error {
		h.Must(topic, "room at last")
		if s := p.stream("second"); len(s.Got) == 0 {
			return errors.New("the second stream gets nothing")
		}
		return nil
	})
}

// While a hub leaves, and while it is away, no EventSource gives up. Covers: SUB-37, SUB-38, SUB-41.
func TestBrowserEventSourceSurvivesADrain(t *testing.T) {
	p := openPage(t)
	h := child.New(t, "--anonymous", "--cors-origin", p.origin, "--retry", "100ms", "--write-timeout", "3s")
	h.Start()
	const topic, newcomers = "https://example.com/drain", 40
	p.subscribe("old", at(h, topic))
	p.waitOpen("old", 1)
	h.Must(topic, "before")
	h.Stall("https://example.com/stalled") // somebody who takes nothing keeps the drain going for a write timeout
	h.Signal()
	for i := range newcomers { // before, during and after the drain; few at a time, as a browser has six connections
		name := fmt.Sprint("new", i%3)
		p.run("streams[%q]?.source.close(); subscribe(%q, %q); await new Promise((r) => setTimeout(r, 40));", name, name, at(h, topic))
		p.stream(name)
	}
	if code := h.Wait(patience); code != 0 {
		t.Errorf("exit code %d", code)
	}
	h.Start()
	p.waitOpen("old", 2)
	h.Must(topic, "after")
	child.Eventually(t, patience, func() error {
		if got := strings.Join(p.stream("old").Got, " "); got != "before after" {
			return fmt.Errorf("the page has got %q", got)
		}
		for i := range 3 {
			if s := p.stream(fmt.Sprint("new", i)); s.Ready == closed {
				return fmt.Errorf("newcomer %d has given up", i)
			}
		}
		return nil
	})
}

// The cookie that an application sets lets a page receive private updates, and publish from a listed origin.
// Covers: CLA-08, CORS-01, CORS-06, CORS-07, CORS-08.
func TestBrowserCookie(t *testing.T) {
	p := openPage(t)
	for _, listed := range []bool{true, false} {
		args := []string{"--cors-origin", p.origin, "--retry", "100ms"}
		if listed {
			args = append(args, "--publish-origin", p.origin)
		}
		h := child.New(t, args...)
		h.Start()
		const topic = "https://example.com/cookie"
		p.run(`document.cookie = "mercureAuthorization=" + %q + "; path=/";
			streams.main?.source.close(); subscribe("main", %q, true);`, child.Token(t), at(h, topic))
		p.waitOpen("main", 1)
		status := eval[int](p, `const body = new URLSearchParams({ topic: %q, data: "mine", private: "on" });
			return (await fetch(%q, { method: "POST", body, credentials: "include" })).status;`, topic, h.URL)
		if want := map[bool]int{true: http.StatusOK, false: http.StatusBadRequest}[listed]; status != want {
			t.Errorf("publish by cookie, origin listed %v: status %d, want %d", listed, status, want)
		}
		_, err := h.Publish(t.Context(), child.Token(t), url.Values{"topic": {topic}, "data": {"end"}, "private": {""}})
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{true: "mine end", false: "end"}[listed]
		child.Eventually(t, 10*time.Second, func() error {
			if got := strings.Join(p.stream("main").Got, " "); got != want {
				return fmt.Errorf("the page has got %q, want %q", got, want)
			}
			return nil
		})
	}
}
