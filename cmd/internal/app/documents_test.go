package app_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/hub/metrics"
	"github.com/cinnabar-hub/cinnabar/transport"
)

var update = flag.Bool("update", false, "rewrite docs/dependencies.txt")

// TestEverySeriesIsDocumented compares the tables of docs/observe.md with what the hub registers, name by
// name and label by label.
func TestEverySeriesIsDocumented(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics.New(registry)
	stats := func() transport.Stats { return transport.Stats{} }
	metrics.RegisterTransport(registry, stats)
	metrics.RegisterNode(registry, metrics.Node{}, stats, func() int { return 0 })
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	// A description has no accessors; its text is the one way to its name and labels.
	described := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	registered := map[string]string{}
	for d := range descriptions {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("cannot read %s", d)
		}
		registered[m[1]] = m[2]
	}

	documented := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(cinnabar_[a-z_]+)` \\|([^|]*)\\|")
	for _, m := range row.FindAllStringSubmatch(readDocument(t, "docs/observe.md"), -1) {
		documented[m[1]] = strings.NewReplacer("`", "", " ", "").Replace(m[2])
	}
	for name, labels := range registered {
		if got, ok := documented[name]; !ok {
			t.Errorf("docs/observe.md has no row for %s", name)
		} else if got != labels {
			t.Errorf("docs/observe.md: %s has the labels %q, the hub registers %q", name, got, labels)
		}
	}
	for name := range documented {
		if _, ok := registered[name]; !ok {
			t.Errorf("docs/observe.md has a row for %s, which the hub does not register", name)
		}
	}
	// Series named in running text, in queries and alerts too.
	mention := regexp.MustCompile(`cinnabar_[a-z_]+[a-z]`)
	for _, file := range documents(t) {
		for _, name := range mention.FindAllString(readDocument(t, file), -1) {
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if _, ok := registered[name]; !ok {
				if _, ok := registered[base]; !ok {
					t.Errorf("%s names %s, which the hub does not register", file, name)
				}
			}
		}
	}
}

// TestEveryReasonIsDocumented reads the reasons of refusals out of the code, and compares them with the table
// in docs/observe.md. They are a closed set, each written once as a literal where the refusal is made.
func TestEveryReasonIsDocumented(t *testing.T) {
	made := map[string]bool{}
	literal := regexp.MustCompile(`(?:\bReason[A-Za-z]*:?\s*=?\s*|\b(?:unavailable|BadRequest|TooLarge|invalidToken)\(|\bover\([^"\n]*, )"([a-z_]+)"`)
	for _, dir := range []string{"auth", "hub", "spec"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range literal.FindAllStringSubmatch(string(source), -1) {
				made[m[1]] = true
			}
		}
	}
	if len(made) < 30 {
		t.Fatalf("only %d reasons found in the code", len(made))
	}
	_, section, _ := strings.Cut(readDocument(t, "docs/observe.md"), "**`cinnabar_refused_total`**")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(section, -1) {
		documented[m[1]] = m[1] != "reason"
	}
	for reason := range made {
		if !documented[reason] {
			t.Errorf("docs/observe.md does not name the reason %s", reason)
		}
	}
	for reason, named := range documented {
		if named && !made[reason] {
			t.Errorf("docs/observe.md names the reason %s, which no refusal has", reason)
		}
	}
}

// clientFlags are flags of the commands other than serve. Source: the command contract.
var clientFlags = []string{
	"admin", "after", "alg", "audience", "client-id", "count", "data", "for", "generation", "hub", "id", "input", "json", "key", "kid", "last-event-id", "limit", "match", "match-urlpattern", "output", "payload", "private", "progress", "publish", "publish-urlpattern",
	"publisher-key", "subject", "subscribe", "subscribe-urlpattern", "subscriber", "subscriber-key", "token", "topic", "ttl", "type",
	// of bench
	"anonymous", "audience", "connect", "duration", "generation", "history", "hold", "metrics", "missed", "patience", "pid", "publish-hub", "publishers", "quiet", "rate", "selector-template",
	"size", "source", "subscriber-token", "subscribers", "topic-prefix", "topics", "warmup", "window",
}

// TestDocumentsNameOnlyFlagsThatExist finds flags that were renamed or never came.
func TestDocumentsNameOnlyFlagsThatExist(t *testing.T) {
	serve := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	app.NewSettings(serve)
	code := regexp.MustCompile("`[^`\n]*`|(?m)^.*cinnabar (?:serve|publish|subscribe|token|conformance|bench|cluster|backup|restore|export|config).*$")
	long := regexp.MustCompile(`(?:^|[\s` + "`" + `])--([a-z][a-z-]+)`)
	variable := regexp.MustCompile(`CINNABAR_[A-Z_]+[A-Z]`)
	seen := 0
	for _, file := range documents(t) {
		text := readDocument(t, file)
		for _, fragment := range code.FindAllString(text, -1) {
			for _, m := range long.FindAllStringSubmatch(fragment, -1) {
				seen++
				if serve.Lookup(m[1]) == nil && !slices.Contains(clientFlags, m[1]) {
					t.Errorf("%s names --%s, which does not exist: %s", file, m[1], fragment)
				}
			}
		}
		for _, name := range variable.FindAllString(text, -1) {
			seen++
			setting := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "CINNABAR_"), "_", "-"))
			other := []string{"admin", "hub", "token", "key", "public-vectors", "bench", "cluster", "subscriber-token", "subscriber-key", "test-logs"} // the last ones of tests
			if serve.Lookup(setting) == nil && !slices.Contains(other, setting) {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d flags and variables found in the documents: they are not being read", seen)
	}
}

// TestLinksBetweenDocumentsResolve follows relative links, and their anchors, in every Markdown file.
func TestLinksBetweenDocumentsResolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, file := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(readDocument(t, file), -1) {
			target := m[1]
			if strings.Contains(target, "://") {
				continue
			}
			path, anchor, _ := strings.Cut(target, "#")
			resolved := file
			if path != "" {
				resolved = filepath.ToSlash(filepath.Join(filepath.Dir(file), path))
			}
			if _, err := os.Stat(filepath.Join(root, resolved)); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, target)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(readDocument(t, resolved)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", file, target)
			}
		}
	}
}

// anchors are the names that headings get where the documents are shown.
func anchors(markdown string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(markdown, -1) {
		name := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		names = append(names, regexp.MustCompile(`[^\p{L}\p{N}_-]`).ReplaceAllString(name, ""))
	}
	return names
}

// TestDependencyListIsCurrent keeps docs/dependencies.txt equal to the modules that end up in the binary,
// so that growth is seen in review. `make deps` rewrites it.
func TestDependencyListIsCurrent(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/cinnabar")
	cmd.Dir = root
	// What is linked differs between systems; the list is the one of the released Linux binary.
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	modules := slices.Compact(slices.Sorted(strings.FieldsSeq(string(out))))
	modules = slices.DeleteFunc(modules, func(m string) bool { return m == module })
	current := strings.Join(modules, "\n") + "\n"
	path := filepath.Join(root, "docs", "dependencies.txt")
	if *update {
		if err := os.WriteFile(path, []byte(current), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(committed) != current {
		t.Errorf("the binary links other modules than docs/dependencies.txt says; if that is meant, run `make deps`.\nit links:\n%s", current)
	}
}

func readDocument(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// documents are the paths, from the module's root, of every document written for people.
func documents(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		matches, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range matches {
			rel, err := filepath.Rel(root, m)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, filepath.ToSlash(rel))
		}
	}
	if len(files) < 10 {
		t.Fatalf("only %d documents found", len(files))
	}
	return files
}
