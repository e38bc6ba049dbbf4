package auth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

// visible writes control and formatting characters in s as JSON escapes, because a token's claims are anybody's
// words until it is verified. JSON stays the same JSON.
func visible(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	hidden := func(r rune) bool { return !strconv.IsPrint(r) }
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !hidden(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// oneLine returns raw, which is JSON, without the blanks between its tokens.
func oneLine(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}
