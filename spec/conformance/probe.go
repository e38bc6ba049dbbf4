package conformance

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// Probe is what a case talks to the hub with and reports to. It belongs to one case and its goroutine;
// only Errorf may be called from others.
type Probe struct {
	Target
	gen     *generation // whose parameters and tokens the case uses
	nonce   string
	skipped string
	closers []func()

	mu   sync.Mutex
	errs []error // guarded by mu
}

func newProbe(t Target, g *generation) *Probe {
	return &Probe{Target: t, gen: g, nonce: strings.ToLower(rand.Text()[:12])}
}

func (p *Probe) close() {
	for _, c := range slices.Backward(p.closers) {
		c()
	}
}

// Errorf records a finding and goes on.
func (p *Probe) Errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

// Fatalf records a finding and ends the case.
func (p *Probe) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf ends the case without a verdict.
func (p *Probe) Skipf(format string, args ...any) {
	p.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// topic returns a topic that no other case and no other run uses.
func (p *Probe) topic(suffix string) string {
	return "https://conformance.example/" + p.nonce + "/" + suffix
}

// bearer is the header field that carries a token.
func bearer(token string) http.Header { return head("Authorization", "Bearer "+token) }

// head makes header fields of names and values, in their canonical spelling.
func head(kv ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(kv); i += 2 {
		h.Add(kv[i], kv[i+1])
	}
	return h
}

// form encodes names and values, in order.
func form(kv ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(kv); i += 2 {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(kv[i]) + "=" + url.QueryEscape(kv[i+1]))
	}
	return b.String()
}

// answer is a whole response. It is the zero value if there was none.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request with a body and reads the whole answer. target is a hub-relative query ("?…"),
// empty for the hub URL itself, or an absolute URL.
func (p *Probe) do(ctx context.Context, method, target string, h http.Header, body string) answer {
	a, err := p.try(ctx, method, target, h, strings.NewReader(body))
	if err != nil {
		p.Fatalf("%s %.80s: %v", method, target, err)
	}
	return a
}

func (p *Probe) try(ctx context.Context, method, target string, h http.Header, body io.Reader) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Wait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.absolute(target), body)
	if err != nil {
		return answer{}, err
	}
	maps.Copy(req.Header, h)
	res, err := p.HTTP.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 8<<20))
	if err != nil {
		return answer{}, fmt.Errorf("status %d, then: %w", res.StatusCode, err)
	}
	return answer{status: res.StatusCode, header: res.Header, body: string(b)}, nil
}

func (p *Probe) absolute(target string) string {
	if target == "" || target[0] == '?' {
		return p.URL + target
	}
	return target
}

// get asks for a stream whose answer is expected to be whole, a refusal; a stream that opens instead is
// an answer with its status and an empty body.
func (p *Probe) get(ctx context.Context, query string, h http.Header) answer {
	s := p.open(ctx, query, h)
	if s.status == http.StatusOK {
		s.Close()
		return answer{status: s.status, header: s.header}
	}
	return answer{status: s.status, header: s.header, body: s.rest(p.Wait)}
}

// post publishes names and values with the given extra header fields.
func (p *Probe) post(ctx context.Context, h http.Header, kv ...string) answer {
	return p.postRaw(ctx, h, form(kv...))
}

// postRaw publishes a form that is already encoded.
func (p *Probe) postRaw(ctx context.Context, h http.Header, body string) answer {
	all := head("Content-Type", spec.MediaTypeForm)
	maps.Copy(all, h)
	return p.do(ctx, http.MethodPost, "", all, body)
}

// publish publishes with a token for every topic, requires 200, and returns the id.
func (p *Probe) publish(ctx context.Context, kv ...string) string {
	a := p.post(ctx, bearer(p.publisher("*")), kv...)
	if a.status != http.StatusOK {
		p.Fatalf("publish %.100q: status %d (%.200q), want 200", kv, a.status, a.body)
	}
	return a.body
}

// wantStatus records a status other than the wanted one.
func (p *Probe) wantStatus(a answer, want int, what string, args ...any) bool {
	if a.status == want {
		return true
	}
	p.Errorf("%s: status %d (%.200q), want %d", fmt.Sprintf(what, args...), a.status, a.body, want)
	return false
}

// within is a time-out of Wait, for reading.
func (p *Probe) within() time.Time { return time.Now().Add(p.Wait) }
