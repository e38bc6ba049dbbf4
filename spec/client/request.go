package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// Query parameters for a cursor that does not fit the header (classic §State Reconciliation; draft-08 §Reconciliation).
const (
	paramLastEventID      = "lastEventID"
	paramDraftLastEventID = "last_event_id"
)

// maxQuery is how many bytes of selectors go into a URL. Many servers and proxies take 8 KiB of request line.
const maxQuery = 6 << 10

// request asks for the stream from the cursor on. Hubs of the classic generation know no QUERY, so that topics are
// always in the URL. Source: SUB-02, SUB-07, SUB-08, REC-01 … REC-03.
func (r *run) request(ctx context.Context) (*http.Request, error) {
	u, err := url.Parse(r.s.URL)
	if err != nil {
		return nil, err
	}
	asHeader := fitsHeader(r.cursor)
	form := r.selectors(asHeader)
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if r.draft08() && len(form) > maxQuery {
		method, body = spec.MethodQuery, strings.NewReader(form)
	} else {
		if u.RawQuery != "" && form != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += form
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if method == spec.MethodQuery {
		req.Header.Set("Content-Type", spec.MediaTypeForm)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Cache-Control", "no-store")
	if r.s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.s.Token)
	}
	if r.cursor != "" && asHeader {
		req.Header.Set(spec.HeaderLastEventID, r.cursor)
	}
	return req, nil
}

// draft08 reports whether nothing of the classic generation is asked for.
func (r *run) draft08() bool {
	return len(r.s.Topics) == 0 && len(r.s.Match)+len(r.s.URLPatterns) > 0
}

// selectors encodes what is subscribed to and, unless a header has it, the cursor.
func (r *run) selectors(asHeader bool) string {
	var form strings.Builder
	add := func(name, value string) {
		if form.Len() > 0 {
			form.WriteByte('&')
		}
		form.WriteString(name + "=" + url.QueryEscape(value))
	}
	for _, kind := range []struct {
		param  string
		values []string
	}{{spec.FieldTopic, r.s.Topics}, {spec.ParamMatch, r.s.Match}, {spec.ParamMatchURLPattern, r.s.URLPatterns}} {
		for _, v := range kind.values {
			add(kind.param, v)
		}
	}
	switch {
	case asHeader:
	case r.draft08():
		add(paramDraftLastEventID, r.cursor)
	default:
		add(paramLastEventID, r.cursor)
	}
	return form.String()
}

// fitsHeader reports whether s comes through unchanged as the value of a header field. A foreign hub's id may
// hold control characters, which net/http does not send, or blanks around it, which are dropped.
func fitsHeader(s string) bool {
	control := func(r rune) bool { return r < ' ' || r == 0x7F }
	return !strings.ContainsFunc(s, control) && strings.Trim(s, " ") == s
}
