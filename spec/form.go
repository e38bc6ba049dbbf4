package spec

import "strings"

// Field is one name-value pair of a form.
type Field struct{ Name, Value string }

// Form is a parsed application/x-www-form-urlencoded string, in the order in which it was sent.
type Form []Field

// First returns the value of the first field called name, and whether there is one (PUB-21).
func (f Form) First(name string) (string, bool) {
	for i := range f {
		if f[i].Name == name {
			return f[i].Value, true
		}
	}
	return "", false
}

// All returns the values of every field called name, in order; nil if there is none.
func (f Form) All(name string) []string {
	var values []string
	for i := range f {
		if f[i].Name == name {
			values = append(values, f[i].Value)
		}
	}
	return values
}

// ParseForm parses a query (without its `?`) or a form body as a browser's URL object does: `;` is
// ordinary, a percent sign that starts no triplet is kept, `+` is a space, a name without `=` has an
// empty value, empty pairs are skipped. It never fails. Percent-decoded bytes are not checked to be
// UTF-8: what a field means decides what is refused. Values may share memory with raw.
// Source: WHATWG URL §5.1; SUB-13, SUB-14, PUB-03.
func ParseForm(raw string) Form {
	f, _ := parseForm(raw, -1)
	return f
}

// ParseFormLimit is ParseForm for input that is not trusted: more than maxFields fields are a *Problem
// (413). The work done is bounded by the limit and the length of raw.
func ParseFormLimit(raw string, maxFields int) (Form, error) {
	f, ok := parseForm(raw, maxFields)
	if !ok {
		return nil, TooLarge("too_many_fields", "the form has more than %d fields", maxFields)
	}
	return f, nil
}

// FormFields is how many fields a form may have under these limits: room for every topic or selector,
// and for the parameters of applications, which are ignored (PUB-20).
func (l Limits) FormFields() int {
	l = l.WithDefaults()
	return 2*max(l.Topics, l.Selectors) + 1000
}

func parseForm(raw string, limit int) (form Form, ok bool) {
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		if limit >= 0 && len(form) >= limit {
			return nil, false
		}
		name, value, _ := strings.Cut(pair, "=")
		form = append(form, Field{Name: formDecode(name), Value: formDecode(value)})
	}
	return form, true
}

func formDecode(s string) string {
	i := 0
	for i < len(s) && s[i] != '%' && s[i] != '+' {
		i++
	}
	if i == len(s) {
		return s
	}
	b := make([]byte, i, len(s))
	copy(b, s)
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c == '+':
			b = append(b, ' ')
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b = append(b, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// unhex returns the value of a hexadecimal digit.
func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	default:
		return c - '0'
	}
}
