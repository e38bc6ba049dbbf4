package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// Publisher publishes updates at one hub. URL is required. Its methods are safe for concurrent use; its
// fields must not be changed once they have been called.
type Publisher struct {
	URL   string       // of the hub
	Token string       // empty = none is sent
	HTTP  *http.Client // nil = one of its own

	once sync.Once
	own  *http.Client
}

// Publish sends u and returns the id that the hub gave it. The error is an *Error if the hub refused. A
// redirection that turns the publication into a GET (301, 302, 303) is an error too.
// Nothing is sent twice: whether a publication whose answer was lost should be repeated is the caller's decision.
// Source: classic and draft-08 §Publication.
func (p *Publisher) Publish(ctx context.Context, u *spec.Update) (id string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, strings.NewReader(form(u).Encode()))
	if err != nil {
		return "", fmt.Errorf("publish: %w", err)
	}
	req.Header.Set("Content-Type", spec.MediaTypeForm)
	if p.Token != "" {
		req.Header.Set("Authorization", "Bearer "+p.Token)
	}
	resp, err := p.client().Do(req)
	if err != nil {
		return "", fmt.Errorf("publish: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if sent := resp.Request; sent != nil && sent.Method != http.MethodPost {
		return "", fmt.Errorf("publish: nothing was stored: the hub's URL redirects to %s; publish there", bareURL(sent.URL))
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("publish: %w", readError(resp))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("publish: stored, but its id was lost on the way: %w", err)
	}
	return string(body), nil
}

func (p *Publisher) client() *http.Client {
	if p.HTTP != nil {
		return p.HTTP
	}
	p.once.Do(func() { p.own = defaultHTTP() })
	return p.own
}

// bareURL is u without what may be secret.
func bareURL(u *url.URL) string {
	c := *u
	c.RawQuery, c.Fragment, c.RawFragment = "", "", ""
	return c.Redacted()
}

func form(u *spec.Update) url.Values {
	f := url.Values{spec.FieldTopic: u.Topics}
	set := func(name, value string) {
		if value != "" {
			f.Set(name, value)
		}
	}
	set(spec.FieldData, u.Data)
	set(spec.FieldID, u.ID)
	set(spec.FieldType, u.Type)
	if u.Retry > 0 {
		set(spec.FieldRetry, strconv.FormatUint(u.Retry, 10))
	}
	if u.Private {
		set(spec.FieldPrivate, "on")
	}
	return f
}
