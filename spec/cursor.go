package spec

import "unicode/utf8"

// ResumeKeys returns the parameters that may carry a cursor, in order of precedence: draft-08's, with classic also the
// classic one, and with legacy also that one's older spellings. Source: REC-02 … REC-05, G-08, G-22.
func ResumeKeys(classic, legacy bool) []string {
	switch {
	case !classic:
		return Draft08.ResumeKeys
	case !legacy:
		return Classic.ResumeKeys[:2]
	default:
		return Classic.ResumeKeys
	}
}

// Cursor returns the event id from which a subscription request wants to go on, and whether it carried a
// cursor at all. The header wins, an empty one counts as none; then the first form that has a value for one of keys,
// and in it the first of keys that has one. present is also true, with an empty value, when a parameter was there but
// none had a value. Source: REC-01 … REC-05, SUB-04.
func Cursor(header string, keys []string, forms ...Form) (value string, present bool) {
	if header != "" {
		return header, true
	}
	for _, f := range forms {
		for _, k := range keys {
			v, ok := f.First(k)
			if ok && v != "" {
				return v, true
			}
			present = present || ok
		}
	}
	return "", present
}

// ValidCursor reports whether value can be an event id at all. What fails is treated as unknown and
// must not be copied into a header (REC-19).
func ValidCursor(value string, l Limits) bool {
	return value != "" && len(value) <= l.WithDefaults().IDBytes && ValidText(value)
}

// CursorForms returns the event ids that a received cursor may stand for, the likeliest first. Scripts
// read a header's bytes as Latin-1, so the id "é" of a reconciliation header comes back as "Ã©" in a
// parameter, or as a single byte in a header (PUB-12). The result is never empty.
func CursorForms(value string) []string {
	if !utf8.ValidString(value) {
		runes := make([]rune, len(value))
		for i := range len(value) {
			runes[i] = rune(value[i])
		}
		return []string{value, string(runes)}
	}
	b := make([]byte, 0, len(value))
	for _, r := range value {
		if r > 0xFF {
			return []string{value}
		}
		b = append(b, byte(r)) //nolint:gosec // at most 0xFF
	}
	if other := string(b); other != value && utf8.Valid(b) {
		return []string{value, other}
	}
	return []string{value}
}
