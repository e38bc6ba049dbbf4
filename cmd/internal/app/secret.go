package app

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
)

// redacted stands wherever a secret would.
const redacted = "[redacted]"

// Secret is a value that is never printed. It is given as itself or as @/path/to/file; @@ at the
// beginning stands for one @. The zero Secret is none.
type Secret struct{ raw string }

// NewSecret makes a Secret of its written form.
func NewSecret(raw string) Secret { return Secret{raw} }

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.raw == "" }

// File returns the path of the file that holds the secret, and whether it is in one.
func (s Secret) File() (string, bool) {
	if strings.HasPrefix(s.raw, "@") && !strings.HasPrefix(s.raw, "@@") {
		return s.raw[1:], true
	}
	return "", false
}

// rereadable reports whether Read can give something new: there is a file, and it is none that is used up by
// reading, such as a pipe. A file that is missing counts, so that Read says so.
func (s Secret) rereadable() bool {
	path, ok := s.File()
	if !ok {
		return false
	}
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// Read returns the secret, reading its file anew each time so that a rotated key is seen. One line
// break at the end of a file is not part of the secret: editors and echo add it.
func (s Secret) Read() (string, error) {
	path, ok := s.File()
	if !ok {
		if strings.HasPrefix(s.raw, "@@") {
			return s.raw[1:], nil
		}
		return s.raw, nil
	}
	b, err := os.ReadFile(path) //nolint:gosec // naming a file is what the operator asks for
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if text == "" {
		return "", fmt.Errorf("read secret: %s is empty", path)
	}
	return text, nil
}

// String returns the file's name or a placeholder, never the secret.
func (s Secret) String() string {
	if path, ok := s.File(); ok {
		return "@" + path
	}
	if s.IsZero() {
		return ""
	}
	return redacted
}

// GoString keeps %#v from printing the secret.
func (s Secret) GoString() string { return s.String() }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
