package spec_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/conformance"
)

var update = flag.Bool("update", false, "write REQUIREMENTS.md anew")

// row is one requirement of rows.json. A row is shown by a conformance case that names it, by a test
// whose comment says "Covers: ROW", or by a test named in By; a row that no test can show says why in
// Doc or Note.
type row struct {
	Section string
	ID      string
	Gen     string // C classic, D draft-08, B both
	What    string
	By      []string // package folder, a dot, and a test's name
	Doc     string   // the document that tells it
	Note    string   // why there is nothing to test
}

const coverageHead = `# What shows each requirement

Generated from ` + "`spec/rows.json`" + `, the conformance cases and the comments of the tests by ` + "`go test ./spec -update`" + `;
` + "`go test ./spec`" + ` fails when it is stale, when a requirement has nothing to show it, and when something names a
requirement or a test that does not exist. ` + "`conformance: area/name`" + ` is a black-box
case of ` + "`spec/conformance`" + `, which runs against the whole hub in ` + "`cmd/internal/app`" + ` and against any hub with
` + "`cinnabar conformance URL`" + `; everything else is a Go test. C is the classic generation, D draft-08, B both.
`

// TestEveryRequirementIsShown keeps REQUIREMENTS.md true.
func TestEveryRequirementIsShown(t *testing.T) {
	rows := readRows(t)
	tests, covers := readTests(t)
	shown := map[string][]string{}
	for _, c := range conformance.Cases() {
		for _, id := range c.Rows {
			shown[id] = append(shown[id], "conformance: "+c.Name)
		}
	}
	for name, ids := range covers {
		for _, id := range ids {
			shown[id] = append(shown[id], name)
		}
	}

	known := map[string]bool{}
	var page strings.Builder
	page.WriteString(coverageHead)
	section := ""
	for _, r := range rows {
		if known[r.ID] {
			t.Errorf("%s is in rows.json twice", r.ID)
		}
		known[r.ID] = true
		for _, name := range r.By {
			if !tests[name] {
				t.Errorf("%s names the test %s, which does not exist", r.ID, name)
			}
		}
		by := slices.Compact(slices.Sorted(slices.Values(append(shown[r.ID], r.By...))))
		if r.Doc != "" {
			if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(r.Doc))); err != nil {
				t.Errorf("%s names the document %s: %v", r.ID, r.Doc, err)
			}
			by = append(by, "["+r.Doc+"](../"+r.Doc+")")
		}
		if r.Note != "" {
			by = append(by, r.Note)
		}
		if len(by) == 0 {
			t.Errorf("nothing shows %s (%s)", r.ID, r.What)
		}
		if r.Section != section {
			section = r.Section
			fmt.Fprintf(&page, "\n## %s\n\n| Row | Gen | Requirement | Shown by |\n|---|---|---|---|\n", section)
		}
		fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", r.ID, r.Gen, strings.ReplaceAll(r.What, "|", `\|`), strings.Join(by, "<br>"))
	}
	for _, id := range slices.Sorted(maps.Keys(shown)) {
		if !known[id] {
			t.Errorf("%q cover %s, which rows.json does not have", shown[id], id)
		}
	}
	compare(t, page.String())
}

func compare(t *testing.T, page string) {
	t.Helper()
	const file = "REQUIREMENTS.md"
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ReplaceAll(string(have), "\r\n", "\n") != page {
		t.Errorf("%s is stale: go test ./spec -run %s -update", file, t.Name())
	}
}

func readRows(t *testing.T) []row {
	t.Helper()
	raw, err := os.ReadFile("rows.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	if err := json.Unmarshal(raw, &rows); err != nil {
		t.Fatalf("rows.json: %v", err)
	}
	return rows
}

// coversLine finds the requirements in a test's comment: "Covers: SUB-01, REC-06." The ids of wire
// vectors (SSE-C09) are not requirements.
var (
	coversLine = regexp.MustCompile(`Covers: ([^.]*)`)
	rowID      = regexp.MustCompile(`^(?:[A-Z]+-W?[0-9]+|D08-[0-9]+|S15)$`)
	testName   = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark)`)
)

// readTests returns every test function of the module, as "folder.Name", and what each covers.
func readTests(t *testing.T) (tests map[string]bool, covers map[string][]string) {
	t.Helper()
	tests, covers = map[string]bool{}, map[string][]string{}
	root := ".."
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && file != root) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		folder := path.Dir(filepath.ToSlash(rel))
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !testName.MatchString(f.Name.Name) {
				continue
			}
			name := folder + "." + f.Name.Name
			tests[name] = true
			for _, m := range coversLine.FindAllStringSubmatch(f.Doc.Text(), -1) {
				for id := range strings.FieldsSeq(strings.ReplaceAll(m[1], ",", " ")) {
					if strings.HasPrefix(id, "SSE-C") {
						continue
					}
					if !rowID.MatchString(id) {
						t.Errorf("%s covers %q, which is no requirement's id", name, id)
						continue
					}
					covers[name] = append(covers[name], id)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests, covers
}
