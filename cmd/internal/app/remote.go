package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/client"
	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/jetstream"
)

// remote is the log of a running hub, reached through its admin listener.
type remote struct {
	base string
	http http.Client
}

const (
	dialPatience = 10 * time.Second
	maxRefusal   = 4 << 10 // bytes of an error that are shown
)

// checkAdmin looks at the form of --admin.
func checkAdmin(address string) error {
	if strings.HasPrefix(address, "unix:") {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("--admin: %q: must be like http://127.0.0.1:3001 or unix:PATH", redactURL(address))
	}
	return nil
}

func newRemote(address string) *remote {
	r := &remote{}
	r.base, r.http.Transport = reachAdmin(address)
	return r
}

// AdminClient returns what requests to the admin listener at address, a URL or unix:PATH, begin with and are sent
// through. Errors wrap ErrUsage.
func AdminClient(address string) (base string, c *http.Client, err error) {
	if err := checkAdmin(address); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	base, t := reachAdmin(address)
	return base, &http.Client{Transport: t}, nil
}

func reachAdmin(address string) (base string, t *http.Transport) {
	t = &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialPatience}).DialContext,
		DisableKeepAlives:     true,
		ExpectContinueTimeout: dialPatience, // a hub that refuses a backup says so before it is sent
	}
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return strings.TrimRight(address, "/"), t
	}
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialPatience}).DialContext(ctx, "unix", path)
	}
	return "http://localhost", t
}

// do sends a request and returns the answer to it, which is a 200.
func (r *remote) do(req *http.Request) (*http.Response, error) {
	resp, err := r.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	detail, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return nil, err
	}
	text := strings.ToValidUTF8(strings.Join(strings.Fields(string(detail)), " "), "?")
	return nil, &client.Error{Status: resp.StatusCode, Detail: text}
}

func (r *remote) get(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := r.do(req)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Backup checks what the hub sends while it writes it.
func (r *remote) Backup(ctx context.Context, w io.Writer, progress func(Progress)) (Manifest, error) {
	body, err := r.get(ctx, "/backup")
	if err != nil {
		return Manifest{}, err
	}
	defer body.Close()
	saving := func(p Progress) {
		if p.Step = "saving"; progress != nil {
			progress(p)
		}
	}
	received := io.TeeReader(body, w)
	m, err := jetstream.VerifyBackup(received, saving)
	if err == nil {
		_, err = io.Copy(io.Discard, received) // the archive's end, and that of the answer
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, transport.ErrBackup) {
		err = fmt.Errorf("the hub has broken off: its log says why: %w", err)
	}
	return m, err
}

// Restore sends r, which should have been checked, and waits until the hub has it.
func (r *remote) Restore(ctx context.Context, backup io.Reader, progress func(Progress)) (m Manifest, err error) {
	sent := &counted{r: backup, report: func(n int64, done bool) {
		if progress != nil {
			progress(Progress{Step: "sending", Part: transport.Part{Name: "the backup"}, Bytes: n, Done: done})
		}
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+"/restore", sent)
	if err != nil {
		return m, err
	}
	req.Header.Set("Content-Type", "application/x-tar")
	req.Header.Set("Expect", "100-continue")
	resp, err := r.do(req)
	if err != nil {
		return m, err
	}
	defer resp.Body.Close()
	sent.report(sent.n.Load(), true)
	if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
		return m, fmt.Errorf("the hub's answer cannot be read: %w", err)
	}
	return m, nil
}

// Export copies the lines.
func (r *remote) Export(ctx context.Context, w io.Writer, o transport.ExportOptions) (uint64, error) {
	q := url.Values{}
	if o.After != "" {
		q.Set("after", o.After)
	}
	for _, s := range o.Topics {
		q.Add("topic", s.Pattern)
	}
	body, err := r.get(ctx, "/export?"+q.Encode())
	if err != nil {
		return 0, err
	}
	defer body.Close()
	lines := &lineCounter{w: w}
	_, err = io.Copy(lines, body)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the hub has broken off: its log says why: %w", err)
	}
	return lines.n, err
}

// counted tells, a few times a second, how much of r was read.
type counted struct {
	r      io.Reader
	report func(n int64, done bool)
	n      atomic.Int64 // read from, too, by who waits for the answer
	said   time.Time    // of the reader
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if all := c.n.Add(int64(n)); time.Since(c.said) > 200*time.Millisecond {
		c.said = time.Now()
		c.report(all, false)
	}
	return n, err
}

// lineCounter counts the lines that are written to w.
type lineCounter struct {
	w io.Writer
	n uint64
}

func (l *lineCounter) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	l.n += uint64(bytes.Count(p[:n], []byte("\n"))) //nolint:gosec // not negative
	return n, err
}
