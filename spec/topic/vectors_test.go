package topic

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func compileTest(tb testing.TB, pattern string) Matcher {
	tb.Helper()
	m, err := Compile(Selector{Kind: Classic, Pattern: pattern}, nil, Limits{})
	if err != nil {
		tb.Fatalf("compile %q: %v", pattern, err)
	}
	return m
}

func readVectors(tb testing.TB, path string, v any) {
	tb.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
}

func TestTemplateMatchingVectors(t *testing.T) {
	var v struct {
		Cases []struct {
			ID, Template, Topic, Reason string
			Matches                     bool
			Observed                    struct {
				Valid bool `json:"selector_is_valid_template"`
			}
		}
		LimitCases []struct {
			ID    string
			Build struct {
				Prefix, Repeat, Join, Suffix string
				Count                        int
			}
		} `json:"limit_cases"`
	}
	readVectors(t, "../vectors/template-matching.json", &v)
	if len(v.Cases) != 120 || len(v.LimitCases) != 3 {
		t.Fatalf("%d cases and %d limit cases, want 120 and 3", len(v.Cases), len(v.LimitCases))
	}
	for _, c := range v.Cases {
		t.Run(c.ID, func(t *testing.T) {
			if got := compileTest(t, c.Template).Match(c.Topic); got != c.Matches {
				t.Errorf("%q matches %q: %v, want %v (%s)", c.Template, c.Topic, got, c.Matches, c.Reason)
			}
			if _, ok := parseTemplate(c.Template); ok != c.Observed.Valid {
				t.Errorf("%q is a valid template: %v, want %v", c.Template, ok, c.Observed.Valid)
			}
		})
	}
	for _, c := range v.LimitCases {
		t.Run(c.ID, func(t *testing.T) {
			items := make([]string, c.Build.Count)
			for i := range items {
				if items[i] = c.Build.Repeat; strings.Contains(c.Build.Repeat, "%d") {
					items[i] = fmt.Sprintf(c.Build.Repeat, i)
				}
			}
			pattern := c.Build.Prefix + strings.Join(items, c.Build.Join) + c.Build.Suffix
			if _, err := Compile(Selector{Classic, pattern}, nil, Limits{}); !errors.Is(err, ErrLimit) {
				t.Errorf("compile: %v, want ErrLimit", err)
			}
			// The cap on variables must hold by itself, whatever the cap on length.
			if _, err := Compile(Selector{Classic, pattern}, nil, Limits{PatternBytes: 1 << 20}); !errors.Is(err, ErrLimit) && c.ID != "TM-L03" {
				t.Errorf("compile without a cap on length: %v, want ErrLimit", err)
			}
		})
	}
}

// composite lists templates of the suite's failure tests that are valid: they fail there only because
// the variable is a list or an associative array. A hub asks whether any value expands to the topic.
var composite = map[string]bool{"{keys:1}": true, "{+keys:1}": true}

// TestPublicExpansionSuite runs the public RFC 6570 suite, which is not part of this repository, from
// the folder that CINNABAR_PUBLIC_VECTORS names.
func TestPublicExpansionSuite(t *testing.T) {
	dir := os.Getenv("CINNABAR_PUBLIC_VECTORS")
	if dir == "" {
		t.Skip("CINNABAR_PUBLIC_VECTORS is not set: it names the folder that holds uri-templates.json")
	}
	var suite struct {
		Files map[string]map[string]struct {
			Testcases [][2]json.RawMessage
		}
	}
	readVectors(t, filepath.Join(dir, "uri-templates.json"), &suite)
	expansions, failures := 0, 0
	for file, groups := range suite.Files {
		for group, g := range groups {
			for _, c := range g.Testcases {
				var template string
				if err := json.Unmarshal(c[0], &template); err != nil {
					t.Fatalf("%s, %s: %v", file, group, err)
				}
				wants, valid := expansionsOf(t, c[1])
				if !valid {
					failures++
					if _, ok := parseTemplate(template); ok != composite[template] {
						t.Errorf("%s: %q is a valid template: %v", group, template, ok)
					}
					continue
				}
				m := compileTest(t, template)
				for _, want := range wants {
					expansions++
					if !m.Match(want) {
						t.Errorf("%s: %q does not match its expansion %q", group, template, want)
					}
				}
			}
		}
	}
	if expansions != 389 || failures != 36 {
		t.Errorf("%d expansions and %d failure tests run, want 389 and 36", expansions, failures)
	}
}

// expansionsOf reads a string, a list of alternatives, or false.
func expansionsOf(tb testing.TB, raw json.RawMessage) (wants []string, valid bool) {
	tb.Helper()
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, true
	}
	if json.Unmarshal(raw, &wants) == nil {
		return wants, true
	}
	if string(raw) != "false" {
		tb.Fatalf("unknown expectation %s", raw)
	}
	return nil, false
}
