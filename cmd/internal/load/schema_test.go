package load_test

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/load"
)

// TestEveryFieldIsDocumented looks for the names of the JSON fields in the document, each in the row of its object.
func TestEveryFieldIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			rows[strings.TrimSpace(cells[1])] = cells[2]
		}
	}
	var walk func(row string, of reflect.Type)
	walk = func(row string, of reflect.Type) {
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			field := f.Type
			if field.Kind() == reflect.Pointer {
				field = field.Elem()
			}
			nested := field.Kind() == reflect.Struct && field != reflect.TypeFor[time.Time]()
			switch {
			case field == reflect.TypeFor[load.Latency]():
				walk("any `latency`", field)
			case nested:
				walk("`"+name+"`", field)
				continue // it has a row instead
			}
			if !strings.Contains(rows[row], "`"+name+"`") {
				t.Errorf("docs/performance.md does not tell of %s in the row %s", name, row)
			}
		}
	}
	walk("the object", reflect.TypeFor[load.Result]())
}
