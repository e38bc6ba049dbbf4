package app_test

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const module = "github.com/cinnabar-hub/cinnabar"

// root is the module's root, seen from this package.
var root = filepath.Join("..", "..", "..")

// importRule is one depguard rule of .golangci.yml, read as depguard reads it: a file that matches one
// of Files and none of the negated ones may not import what Deny names, unless Allow names it more
// closely; in strict mode it may import nothing but what Allow names.
type importRule struct {
	Mode  string   `yaml:"list-mode"`
	Files []string `yaml:"files"`
	Allow []string `yaml:"allow"`
	Deny  []struct {
		Pkg  string `yaml:"pkg"`
		Desc string `yaml:"desc"`
	} `yaml:"deny"`
}

// TestEveryImportFollowsTheArrowsOfTheHouse holds the whole module to the import rules without needing
// the linter, so that a forbidden edge fails `go test ./...` on a laptop that has only Go.
func TestEveryImportFollowsTheArrowsOfTheHouse(t *testing.T) {
	rules := readImportRules(t)
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "node_modules" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		files++
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return fmt.Errorf("parse %s: %w", rel, err)
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			for name, rule := range rules {
				if why, ok := rule.forbids(filepath.ToSlash(rel), imported); ok {
					t.Errorf("%s imports %s: %s (%s)", rel, imported, why, name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d Go files seen: the walk does not start at the module's root", files)
	}
}

// TestEveryImportRuleFires shows that each rule can fail: a file in each place that it names, importing
// each package that it denies, is refused.
func TestEveryImportRuleFires(t *testing.T) {
	for name, rule := range readImportRules(t) {
		t.Run(name, func(t *testing.T) {
			for _, v := range rule.violations() {
				if _, ok := rule.forbids(v.file, v.imported); !ok {
					t.Errorf("%s may import %s", v.file, v.imported)
				}
			}
		})
	}
}

// TestEveryImportRuleFiresInTheLinter runs the real linter over a small module that breaks every rule,
// and expects it to say so. CINNABAR_LINTER is the path of golangci-lint; `make lint` sets it.
func TestEveryImportRuleFiresInTheLinter(t *testing.T) {
	linter := os.Getenv("CINNABAR_LINTER")
	if linter == "" {
		t.Skip("CINNABAR_LINTER is not set; make lint sets it")
	}
	rules := readImportRules(t)
	dir := t.TempDir()
	config, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, ".golangci.yml", string(config))
	requires, wanted := writeViolations(t, dir, rules)
	write(t, dir, "go.mod", "module "+module+"\n\ngo 1.26.0\n"+requires)

	cmd := exec.CommandContext(t.Context(), linter, "run", "--enable-only", "depguard,forbidigo", "./...")
	cmd.Dir = dir
	// A user's own flags, a vendored build say, must not reach the little module.
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("the linter did not report issues: %v\n%s", err, out)
	}
	for _, w := range wanted {
		if !w.MatchString(string(out)) {
			t.Errorf("the linter says nothing like %s", w)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// writeViolations lays out one file per rule and place, each importing what the rule denies there, and
// an empty package for everything imported, so that no real dependency is needed and no import cycle
// stops the linter before it looks. It returns go.mod's lines and what the linter must say.
func writeViolations(t *testing.T, dir string, rules map[string]importRule) (requires string, wanted []*regexp.Regexp) {
	t.Helper()
	foreign := map[string]bool{}
	for name, rule := range rules {
		for i, v := range rule.violations() {
			// The importing file sits in a package of its own below a copy of the place it stands for,
			// "a/spec/x.go" for "spec/x.go": rules are matched against the end of a path.
			file := fmt.Sprintf("case/%s/c%d/%s", name, i, v.file)
			write(t, dir, file, fmt.Sprintf("package x\n\nimport _ %q\n", v.imported))
			wanted = append(wanted, regexp.MustCompile(
				regexp.QuoteMeta(file)+`:.*import '`+regexp.QuoteMeta(v.imported)+`' is not allowed from list '`+name+`'`))
			switch local, inModule := strings.CutPrefix(v.imported, module+"/"); {
			case inModule:
				write(t, dir, filepath.Join(local, "stub.go"), "package x\n")
			case strings.Contains(strings.Split(v.imported, "/")[0], "."):
				foreign[v.imported] = true
			}
		}
	}
	for path := range foreign {
		stub := "stubs/" + path
		write(t, dir, stub+"/stub.go", "package x\n")
		write(t, dir, stub+"/go.mod", "module "+path+"\n\ngo 1.26.0\n")
		requires += fmt.Sprintf("require %s v0.0.0\nreplace %s => ./%s\n", path, path, stub)
	}
	write(t, dir, "hub/env.go", "package x\n\nimport (\n\t\"context\"\n\t\"fmt\"\n\t\"os\"\n)\n\n"+
		"func f() {\n\tfmt.Println()\n\t_ = os.Getenv(\"X\")\n\t_ = context.Background()\n}\n")
	write(t, dir, "cmd/cinnabar/env.go", "package x\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc f() { fmt.Println(os.Getenv(\"X\")) }\n")
	for _, call := range []string{`fmt\.Println`, `os\.Getenv`, `context\.Background`} {
		wanted = append(wanted, regexp.MustCompile(`(?m)^hub/env\.go:.*`+call))
	}
	return requires, wanted
}

func readImportRules(t *testing.T) map[string]importRule {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]importRule `yaml:"rules"`
				} `yaml:"depguard"`
			} `yaml:"settings"`
		} `yaml:"linters"`
	}
	if err := yaml.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	rules := config.Linters.Settings.Depguard.Rules
	if len(rules) == 0 {
		t.Fatal(".golangci.yml has no depguard rules")
	}
	for name, rule := range rules {
		for _, d := range rule.Deny {
			if len(d.Desc) < 10 {
				t.Errorf("rule %s denies %s without a reason", name, d.Pkg)
			}
		}
	}
	return rules
}

// forbids reports whether the rule applies to file and refuses imported, and the rule's reason.
func (r importRule) forbids(file, imported string) (reason string, refused bool) {
	if !r.covers(file) {
		return "", false
	}
	allowed, denied := 0, 0
	for _, a := range r.Allow {
		if matchesPackage(a, imported) {
			allowed = max(allowed, len(a))
		}
	}
	for _, d := range r.Deny {
		if matchesPackage(d.Pkg, imported) && len(d.Pkg) > denied {
			denied, reason = len(d.Pkg), d.Desc
		}
	}
	if r.Mode == "strict" && allowed == 0 {
		return reason, true
	}
	return reason, denied > 0 && denied >= allowed
}

func (r importRule) covers(file string) bool {
	in := func(pattern string) bool { return matchesFile(pattern, file) }
	negated := func(pattern string) bool {
		p, not := strings.CutPrefix(pattern, "!")
		return not && matchesFile(p, file)
	}
	return slices.ContainsFunc(r.Files, in) && !slices.ContainsFunc(r.Files, negated)
}

func matchesFile(pattern, file string) bool {
	switch pattern {
	case "$all":
		return true
	case "$test":
		return strings.HasSuffix(file, "_test.go")
	}
	expr := regexp.QuoteMeta(pattern)
	expr = strings.ReplaceAll(expr, `\*\*/`, `(.*/)?`)
	expr = strings.ReplaceAll(expr, `\*`, `[^/]*`)
	return regexp.MustCompile("^" + expr + "$").MatchString(file)
}

func matchesPackage(pattern, imported string) bool {
	if pattern == "$gostd" {
		return !strings.Contains(strings.Split(imported, "/")[0], ".")
	}
	if exact, ok := strings.CutSuffix(pattern, "$"); ok {
		return imported == exact
	}
	return strings.HasPrefix(imported, pattern)
}

type violation struct{ file, imported string }

// violations returns an import that the rule must refuse for each place and each package it names.
func (r importRule) violations() []violation {
	var all []violation
	for _, pattern := range r.Files {
		if strings.HasPrefix(pattern, "!") {
			continue
		}
		file := strings.NewReplacer("**/*.go", "sub/x.go", "$all", "elsewhere/x.go").Replace(pattern)
		file = strings.NewReplacer("**/", "", "*.go", "x.go").Replace(file)
		for _, d := range r.Deny {
			imported, exact := strings.CutSuffix(d.Pkg, "$")
			switch {
			case strings.HasSuffix(imported, "/"):
				imported += "memory"
			case imported == module:
				imported += "/hub"
			case strings.Count(imported, "/") == 1 && strings.Contains(imported, ".") && !exact:
				imported += "/x"
			}
			all = append(all, violation{file, imported})
		}
		if r.Mode == "strict" {
			all = append(all, violation{file, "example.com/x"})
		}
	}
	return all
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
