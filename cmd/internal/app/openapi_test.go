package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// contract is spec/openapi.yaml, read so that exchanges can be held against it. Objects whose schema lists their members
// may have no others here, although clients should take more.
type contract struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by JSON pointer
	ops      []operation
}

// operation is one path and method. Pointer leads to it in the document.
type operation struct {
	path, method string
	pointer      string
}

// methods are the members of a path item that are operations, and the HTTP methods that they are for. OpenAPI 3.1 has
// no QUERY: x-query is 3.2's query.
var methods = map[string]string{
	"get": http.MethodGet, "head": http.MethodHead, "post": http.MethodPost, "options": http.MethodOptions, "x-query": spec.MethodQuery,
}

const contractURL = "mem:///openapi.yaml"

func readContract(t *testing.T) *contract {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "spec", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := yaml.Unmarshal(raw, &decoded); err != nil {
		t.Fatalf("openapi.yaml: %v", err)
	}
	asJSON, err := json.Marshal(decoded)
	if err != nil {
		t.Fatalf("openapi.yaml has keys that JSON does not: %v", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	closeObjects(doc)
	c := &contract{doc: doc.(map[string]any), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(contractURL, doc); err != nil {
		t.Fatal(err)
	}
	if v := c.doc["openapi"]; !strings.HasPrefix(fmt.Sprint(v), "3.1.") {
		t.Errorf("openapi: %v", v)
	}
	c.checkReferences(t, c.doc, "#")
	paths := c.doc["paths"].(map[string]any)
	for path, item := range paths {
		for member := range item.(map[string]any) {
			if m, ok := methods[member]; ok {
				c.ops = append(c.ops, operation{path, m, pointer("paths", path, member)})
			} else if !slices.Contains([]string{"parameters", "x-other-methods"}, member) {
				t.Errorf("%s has the member %s", path, member)
			}
		}
	}
	return c
}

// closeObjects forbids members that a schema does not list.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, more := v["additionalProperties"]; !more && v["type"] == "object" && v["properties"] != nil {
			v["additionalProperties"] = false
		}
		for _, e := range v {
			closeObjects(e)
		}
	case []any:
		for _, e := range v {
			closeObjects(e)
		}
	}
}

// checkReferences requires that every $ref leads somewhere, and that every component is used.
func (c *contract) checkReferences(t *testing.T, v any, at string) {
	t.Helper()
	used := map[string]bool{}
	var walk func(v any, at string)
	walk = func(v any, at string) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				used[ref] = true
				if c.at(ref) == nil {
					t.Errorf("%s: %s leads nowhere", at, ref)
				}
			}
			for k, e := range v {
				walk(e, at+"/"+k)
			}
		case []any:
			for i, e := range v {
				walk(e, fmt.Sprint(at, "/", i))
			}
		}
	}
	walk(v, at)
	for kind, all := range c.doc["components"].(map[string]any) {
		if kind == "securitySchemes" { // named, not referred to
			continue
		}
		for name := range all.(map[string]any) {
			if ref := "#" + pointer("components", kind, name); !used[ref] {
				t.Errorf("nothing refers to %s", ref)
			}
		}
	}
}

func pointer(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(s))
	}
	return b.String()
}

// at returns what a local reference leads to, nil for nothing.
func (c *contract) at(ref string) any {
	var v any = c.doc
	for s := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(s)]
	}
	return v
}

// resolve follows references until there is a map that is none, and returns where it is.
func (c *contract) resolve(ref string) (map[string]any, string) {
	for {
		m, _ := c.at(ref).(map[string]any)
		next, ok := m["$ref"].(string)
		if !ok {
			return m, ref
		}
		ref = next
	}
}

// holds validates v against the schema at ref.
func (c *contract) holds(ref string, v any) error {
	s, ok := c.schemas[ref]
	if !ok {
		var err error
		if s, err = c.compiler.Compile(contractURL + (&url.URL{Fragment: strings.TrimPrefix(ref, "#")}).String()); err != nil {
			return fmt.Errorf("the schema %s: %w", ref, err)
		}
		c.schemas[ref] = s
	}
	if err := s.Validate(v); err != nil {
		return fmt.Errorf("%.300q: %w", fmt.Sprint(v), err)
	}
	return nil
}

// find returns the documented path that a path is of, empty for none. One without variables comes first, then the one
// whose first variable comes last.
func (c *contract) find(path string) (template string) {
	given := strings.Split(path, "/")
	for candidate := range c.doc["paths"].(map[string]any) {
		want := strings.Split(candidate, "/")
		if len(want) != len(given) || !slices.EqualFunc(want, given, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") }) {
			continue
		}
		if i := slices.Index(want, "{match_type}"); i > 0 && c.holds("#/components/parameters/matchTypeSegment/schema", given[i]) != nil {
			continue
		}
		if template == "" || firstVariable(candidate) > firstVariable(template) {
			template = candidate
		}
	}
	return template
}

func firstVariable(template string) int {
	if i := strings.IndexByte(template, '{'); i >= 0 {
		return i
	}
	return len(template)
}

// judge says what is wrong with an exchange, and which documented answer it is: "METHOD path status".
func (c *contract) judge(e *exchange) (answer string, wrong []string) {
	template := c.find(e.path)
	at, status := "#"+pointer("components", "responses", "NotFound"), http.StatusNotFound
	if template != "" {
		at, status = c.documented(e, template)
	}
	if at == "" {
		return "", []string{"the status is not documented"}
	}
	if e.status != status {
		return "", []string{fmt.Sprintf("want status %d", status)}
	}
	response, at := c.resolve(at)
	wrong = append(c.judgeHeader(e, response, at), c.judgeBody(e, response, at)...)
	return fmt.Sprintf("%s %s %d", e.method, template, e.status), wrong
}

// documented returns where the answer's response is, empty if it has none, and its status.
func (c *contract) documented(e *exchange, template string) (at string, status int) {
	for _, op := range c.ops {
		if op.path != template || op.method != e.method {
			continue
		}
		at := "#" + op.pointer + pointer("responses", fmt.Sprint(e.status))
		if c.at(at) == nil {
			return "", 0
		}
		return at, e.status
	}
	return "#" + pointer("paths", template, "x-other-methods"), http.StatusMethodNotAllowed
}

// transportHeaders are HTTP's own.
var transportHeaders = []string{"Date", "Content-Type", "Content-Length", "Connection", "Transfer-Encoding"}

func (c *contract) judgeHeader(e *exchange, response map[string]any, at string) (wrong []string) {
	documented, _ := response["headers"].(map[string]any)
	for name, values := range e.header {
		if slices.Contains(transportHeaders, name) {
			continue
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(documented)), func(d string) bool { return strings.EqualFold(d, name) }) {
			wrong = append(wrong, fmt.Sprintf("the header %s: %q is not documented", name, values))
		}
	}
	for name := range documented {
		values := e.header.Values(name)
		header, where := c.resolve(at + pointer("headers", name))
		switch {
		case len(values) > 0 && name != "Vary" && len(values) > 1:
			wrong = append(wrong, fmt.Sprintf("the header %s comes %d times", name, len(values)))
		case len(values) > 0:
			if err := c.holds(where+"/schema", values[0]); err != nil {
				wrong = append(wrong, fmt.Sprintf("the header %s: %v", name, err))
			}
		case header["required"] == true:
			wrong = append(wrong, fmt.Sprintf("the header %s is missing", name))
		}
	}
	return wrong
}

func (c *contract) judgeBody(e *exchange, response map[string]any, at string) []string {
	content, _ := response["content"].(map[string]any)
	if content == nil {
		if len(e.body) > 0 {
			return []string{fmt.Sprintf("the body %.80q is not documented", e.body)}
		}
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(e.header.Get("Content-Type"))
	if err != nil || content[mediaType] == nil {
		return []string{fmt.Sprintf("the media type %q is not documented", e.header.Get("Content-Type"))}
	}
	if e.stream || e.method == http.MethodHead {
		if len(e.body) > 0 {
			return []string{"HEAD has a body"}
		}
		return nil
	}
	var v any = string(e.body)
	if strings.HasSuffix(mediaType, "json") {
		if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(e.body)); err != nil {
			return []string{err.Error()}
		}
	}
	if err := c.holds(at+pointer("content", mediaType)+"/schema", v); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// A judge that finds nothing wrong with anything shows nothing.
func TestTheContractNoticesWhatIsNotInTheDocument(t *testing.T) {
	c := readContract(t)
	good := func() exchange {
		return exchange{
			method: http.MethodPost, path: spec.DefaultHubPath, status: http.StatusUnsupportedMediaType,
			header: http.Header{
				"Content-Type": {"application/problem+json"}, "X-Request-Id": {"9f0c4c7e-6f5c-4d26-9a58-0a1b2c3d4e5f"}, "Cache-Control": {"no-store"},
				"X-Content-Type-Options": {"nosniff"}, "X-Frame-Options": {"DENY"}, "Content-Security-Policy": {"default-src 'self'"},
			},
			body: []byte(`{"type":"about:blank","title":"Unsupported Media Type","status":415,"detail":"x","reason":"media_type","request_id":"9f0c4c7e-6f5c-4d26-9a58-0a1b2c3d4e5f"}`),
		}
	}
	for name, change := range map[string]func(*exchange){
		"":                      func(*exchange) {},
		"another status":        func(e *exchange) { e.status = http.StatusTeapot },
		"an unknown header":     func(e *exchange) { e.header.Set("X-New", "1") },
		"a missing header":      func(e *exchange) { e.header.Del("Cache-Control") },
		"another value":         func(e *exchange) { e.header.Set("Cache-Control", "public") },
		"a header twice":        func(e *exchange) { e.header.Add("Cache-Control", "no-store") },
		"another media type":    func(e *exchange) { e.header.Set("Content-Type", "text/html") },
		"another text":          func(e *exchange) { e.header.Set("Content-Type", "text/plain") },
		"no JSON":               func(e *exchange) { e.body = e.body[1:] },
		"a member more":         func(e *exchange) { e.body = append([]byte(`{"more":1,`), e.body[1:]...) },
		"a member less":         func(e *exchange) { e.body = bytes.Replace(e.body, []byte(`"detail":"x",`), nil, 1) },
		"another path":          func(e *exchange) { e.path = "/elsewhere" },
		"another method":        func(e *exchange) { e.method = http.MethodDelete },
		"a method of a list":    func(e *exchange) { e.path += "/subscriptions" },
		"an unknown match type": func(e *exchange) { e.path += "/subscriptions/Exact/a/b" },
		"a HEAD with a body":    func(e *exchange) { e.method, e.status = http.MethodHead, http.StatusBadRequest },
	} {
		e := good()
		change(&e)
		if _, wrong := c.judge(&e); (name == "") != (len(wrong) == 0) {
			t.Errorf("%q: %q", name, wrong)
		}
	}
}
