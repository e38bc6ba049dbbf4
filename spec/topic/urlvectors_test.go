package topic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dunglas/go-urlpattern"
)

const testHub = "https://hub.example.com/.well-known/mercure"

func parseBase(tb testing.TB, text string) *url.URL {
	tb.Helper()
	u, err := url.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

type urlVectors struct {
	Cases []struct {
		ID, Pattern, Topic, Reason string
		Hub                        string `json:"hub_url"`
		Valid                      bool   `json:"pattern_valid"`
		Matches                    bool
	}
	LimitCases []struct{ ID string } `json:"limit_cases"`
}

// Covers: MAT-08, MAT-09, MAT-10, MAT-11, MAT-12, MAT-14, MAT-15, MAT-16, X-02, X-04.
func TestURLPatternVectors(t *testing.T) {
	var v urlVectors
	readVectors(t, "../vectors/urlpattern-matching.json", &v)
	if len(v.Cases) != 88 || len(v.LimitCases) != 4 {
		t.Fatalf("%d cases and %d limit cases, want 88 and 4", len(v.Cases), len(v.LimitCases))
	}
	for _, c := range v.Cases {
		t.Run(c.ID, func(t *testing.T) {
			m, err := Compile(Selector{Kind: URLPattern, Pattern: c.Pattern}, parseBase(t, c.Hub), Limits{})
			if (err == nil) != c.Valid || err != nil && !errors.Is(err, ErrInvalid) {
				t.Fatalf("compile %q: %v, want valid: %v (%s)", c.Pattern, err, c.Valid, c.Reason)
			}
			if err == nil && m.Match(c.Topic) != c.Matches {
				t.Errorf("%q matches %q: %v, want %v (%s)", c.Pattern, c.Topic, !c.Matches, c.Matches, c.Reason)
			}
		})
	}
}

// The limit cases of the vectors, whose texts say what they are. A refusal cannot be slow: nothing is built.
//
// Covers: MAT-13, LIM-07, SUB-17, X-03.
func TestURLPatternLimitVectors(t *testing.T) {
	for id, c := range map[string]struct {
		pattern string
		want    error
	}{
		"UM-L01":                      {"https://example.com/" + strings.Repeat("*a", 2000), ErrLimit},
		"UM-L02":                      {"https://example.com/" + strings.Repeat("*a", 500), ErrLimit},
		"UM-L03":                      {"/:a((?:a{1000}){1000})", ErrInvalid},
		"UM-L04, a broken expression": {"/:a([z-a])", ErrInvalid},
		"UM-L04, a broken token":      {"/a/:", ErrInvalid},
		"UM-L04, a broken brace":      {"/{a", ErrInvalid},
		"X-03":                        {"https://example.com/" + strings.Repeat("*a", 700), ErrLimit},
	} {
		_, err := Compile(Selector{Kind: URLPattern, Pattern: c.pattern}, parseBase(t, testHub), Limits{})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", id, err, c.want)
			continue
		}
		for _, foreign := range []string{"0x", "type error", "tokenizer", "token", "regexp:", "error parsing", "urlpattern."} {
			if strings.Contains(err.Error(), foreign) {
				t.Errorf("%s: %q has the compiler's words", id, err)
			}
		}
	}
}

// publicURLCase is an entry of the public suite; what is a string or an object is told apart when it is run.
type publicURLCase struct {
	Pattern  []json.RawMessage
	Inputs   []json.RawMessage
	WantObj  json.RawMessage `json:"expected_obj"`
	WantTest json.RawMessage `json:"expected_match"`
}

// Entries of the public suite that a hub answers otherwise, each with the reason (docs/adr/0108).
var publicURLExceptions = map[int]string{
	302: controlCharacter, 303: controlCharacter, 304: controlCharacter,
	341: ignoreCase, 343: ignoreCase, 344: ignoreCase,
	349: setOperation, 350: setOperation, 351: setOperation, 352: setOperation,
}

const (
	controlCharacter = "a selector has no control characters: they are refused before any pattern is read"
	ignoreCase       = "the option ignoreCase is never used: there is no way to ask for it (MAT-08)"
	setOperation     = "operations on sets are refused: RE2 reads them otherwise (MAT-15)"
)

// TestPublicURLPatternSuite runs the public suite, which is not part of this repository, from the folder that
// CINNABAR_PUBLIC_VECTORS names. Its patterns and inputs are mostly objects, which no client can send to a hub: these
// are made by the library, and then compared by our code. What groups have matched is not known to a hub.
func TestPublicURLPatternSuite(t *testing.T) {
	dir := os.Getenv("CINNABAR_PUBLIC_VECTORS")
	if dir == "" {
		t.Skip("CINNABAR_PUBLIC_VECTORS is not set: it names the folder that holds urlpattern.json")
	}
	var suite struct{ Entries []publicURLCase }
	readVectors(t, filepath.Join(dir, "urlpattern.json"), &suite)
	if len(suite.Entries) != 366 {
		t.Fatalf("%d entries, want 366", len(suite.Entries))
	}
	for i, c := range suite.Entries {
		err := c.run()
		switch reason, excepted := publicURLExceptions[i]; {
		case err != nil && !excepted:
			t.Errorf("entry %d, %s on %s: %v", i, c.Pattern, c.Inputs, err)
		case err == nil && excepted:
			t.Errorf("entry %d passes, although: %s", i, reason)
		}
	}
}

func isString(raw json.RawMessage, s string) bool { return string(raw) == `"`+s+`"` }

func (c *publicURLCase) run() error {
	m, err := c.compile()
	if isString(c.WantObj, "error") {
		if err == nil {
			return errors.New("compiles")
		}
		return nil
	}
	if err != nil {
		return err
	}
	u, err := c.input()
	if isString(c.WantTest, "error") {
		if err == nil {
			return errors.New("the input is accepted")
		}
		return nil
	}
	if err != nil {
		return err
	}
	want := len(c.WantTest) > 0 && string(c.WantTest) != "null"
	if got := m.MatchURL(u); got != want {
		return fmt.Errorf("matches: %v", got)
	}
	if !want {
		return nil
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(c.WantTest, &parts); err != nil {
		return err
	}
	for name, i := range publicURLNames {
		var part struct{ Input string }
		if raw, ok := parts[name]; ok {
			if err := json.Unmarshal(raw, &part); err != nil {
				return err
			}
			if u.parts[i] != part.Input {
				return fmt.Errorf("%s is %q, want %q", name, u.parts[i], part.Input)
			}
		}
	}
	return nil
}

var publicURLNames = map[string]int{
	"protocol": urlScheme, "username": urlUsername, "password": urlPassword, "hostname": urlHostname,
	"port": urlPort, "pathname": urlPath, "search": urlQuery, "hash": urlFragment,
}

var errArguments = errors.New("arguments that no client can send")

// compile makes a matcher of a pattern that is a string, with or without base, or an object.
func (c *publicURLCase) compile() (*urlPattern, error) {
	if len(c.Pattern) > 0 && c.Pattern[0][0] == '"' {
		var text, base string
		if err := json.Unmarshal(c.Pattern[0], &text); err != nil {
			return nil, err
		}
		rest := c.Pattern[1:]
		if len(rest) > 0 && rest[0][0] == '"' {
			if err := json.Unmarshal(rest[0], &base); err != nil {
				return nil, err
			}
			rest = rest[1:]
		}
		if len(rest) > 0 && string(rest[0]) != "{}" {
			return nil, errArguments
		}
		return compilePublic(text, base)
	}
	var init urlpattern.URLPatternInit
	switch {
	case len(c.Pattern) > 1:
		return nil, errArguments
	case len(c.Pattern) == 1:
		if err := json.Unmarshal(c.Pattern[0], &init); err != nil {
			return nil, err
		}
	}
	for _, text := range []*string{init.Protocol, init.Username, init.Password, init.Hostname, init.Port, init.Pathname, init.Search, init.Hash} {
		if text == nil {
			continue
		}
		guarded, err := guardURLPattern(*text, DefaultVariables)
		if err != nil {
			return nil, err
		}
		*text = guarded
	}
	p, err := func() (p *urlpattern.URLPattern, err error) {
		defer recoverTo(&err)
		return init.New(nil)
	}()
	if err != nil {
		return nil, err
	}
	return newURLPattern(p, newResolver(nil))
}

// compilePublic is Compile, but a pattern that needs a base and has none is an error, as in the suite.
func compilePublic(pattern, base string) (*urlPattern, error) {
	var b *url.URL
	if base != "" {
		var err error
		if b, err = url.Parse(base); err != nil {
			return nil, err
		}
	}
	m, err := compileURLPattern(pattern, newResolver(b), Limits{Variables: DefaultVariables})
	if err != nil {
		return nil, err
	}
	p, ok := m.(*urlPattern)
	if !ok {
		return nil, fmt.Errorf("%T", m)
	}
	return p, nil
}

// input resolves the input against a base of its own.
func (c *publicURLCase) input() (*URL, error) {
	texts := make([]string, 2)
	for i, raw := range c.Inputs {
		if raw[0] != '"' {
			continue
		}
		if err := json.Unmarshal(raw, &texts[i]); err != nil {
			return nil, err
		}
	}
	if len(c.Inputs) > 0 && c.Inputs[0][0] == '"' {
		var base *url.URL
		if texts[1] != "" {
			var err error
			if base, err = url.Parse(texts[1]); err != nil {
				return nil, err
			}
		}
		return newResolver(base).resolve(texts[0]), nil
	}
	if len(c.Inputs) > 1 {
		return nil, errArguments
	}
	var init urlpattern.URLPatternInit
	if len(c.Inputs) == 1 {
		if err := json.Unmarshal(c.Inputs[0], &init); err != nil {
			return nil, err
		}
	}
	everything, err := (&urlpattern.URLPatternInit{}).New(nil)
	if err != nil {
		return nil, err
	}
	r := everything.ExecInit(&init)
	if r == nil {
		return nil, nil
	}
	return newURL([urlComponents]string{
		urlScheme: r.Protocol.Input, urlUsername: r.Username.Input, urlPassword: r.Password.Input,
		urlHostname: r.Hostname.Input, urlPort: r.Port.Input, urlPath: r.Pathname.Input,
		urlQuery: r.Search.Input, urlFragment: r.Hash.Input,
	}), nil
}
