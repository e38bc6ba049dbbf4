package admin_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinnabar-hub/cinnabar/hub/admin"
)

func TestHandlerAnswers(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "apples_total", Help: "Apples."})
	reg.MustRegister(c)
	c.Add(3)
	down := func(context.Context) error { return errors.New("the disk is full") }
	up := func(context.Context) error { return nil }

	for name, tt := range map[string]struct {
		options admin.Options
		method  string
		path    string
		status  int
		body    string
	}{
		"livez":                         {admin.Options{Ready: down}, "GET", "/livez", 200, "ok\n"},
		"healthz says that it is alive": {admin.Options{Ready: down}, "GET", "/healthz", 200, "ok\n"},
		"a HEAD probe":                  {admin.Options{}, "HEAD", "/healthz", 200, ""},
		"ready":                         {admin.Options{Ready: up}, "GET", "/readyz", 200, "ready\n"},
		"ready without a check":         {admin.Options{}, "GET", "/readyz", 200, "ready\n"},
		"not ready and why":             {admin.Options{Ready: down}, "GET", "/readyz", 503, "not ready: the disk is full\n"},
		"metrics":                       {admin.Options{Gatherer: reg}, "GET", "/metrics", 200, "\napples_total 3\n"},
		"no metrics":                    {admin.Options{}, "GET", "/metrics", 404, ""},
		"profiles":                      {admin.Options{}, "GET", "/debug/pprof/goroutine?debug=1", 200, "goroutine profile: total"},
		"the command line stays secret": {admin.Options{}, "GET", "/debug/pprof/cmdline", 404, "404"},
		"nothing else":                  {admin.Options{}, "GET", "/", 404, ""},
		"wrong method":                  {admin.Options{}, "POST", "/livez", 405, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, http.NoBody)
			admin.Handler(tt.options).ServeHTTP(w, r)
			if w.Code != tt.status {
				t.Errorf("status %d, want %d", w.Code, tt.status)
			}
			if tt.body != "" && !strings.Contains(w.Body.String(), tt.body) {
				t.Errorf("body %q does not contain %q", w.Body, tt.body)
			}
		})
	}
}

func TestReadinessCheckIsBounded(t *testing.T) {
	var bounded bool
	h := admin.Handler(admin.Options{Ready: func(ctx context.Context) error {
		_, bounded = ctx.Deadline()
		return nil
	}})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", http.NoBody))
	if !bounded {
		t.Error("the check was given no deadline, a probe could hang")
	}
}
