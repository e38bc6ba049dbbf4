package transport

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// Archive is a log that can be saved, restored and read as a whole. Logs that outlive their process implement it.
// Its methods are safe for concurrent use.
type Archive interface {
	// Backup writes the log as it is now to w, while it goes on. The backup holds private updates and the key of the
	// event ids. progress may be nil; it is called a few times a second. Errors: ErrUnavailable, ErrClosed,
	// ErrRestoring, the context's or those of w.
	Backup(ctx context.Context, w io.Writer, progress func(Progress)) (Manifest, error)
	// Restore reads a backup into a log without updates: with the positions and ids that it had, so that every
	// client's cursor stays valid. Any error says whether the log is as it was or empty. progress may be nil.
	// Errors: ErrBackup, ErrNotEmpty, ErrRestoring, ErrUnavailable, ErrClosed, the context's or those of r.
	Restore(ctx context.Context, r io.Reader, progress func(Progress)) (Manifest, error)
	// Export writes the updates up to the one that is the newest now to w, in order, one JSON object a line: position,
	// id, time (RFC 3339, when it was stored), topics, type, retry (milliseconds), private and data, or data_base64 if
	// the data is not UTF-8. It returns how many it wrote. Errors: ErrUnknown and ErrTrimmed say that o.After is not
	// in the log; ErrUnavailable, ErrClosed, ErrRestoring, the context's or those of w.
	Export(ctx context.Context, w io.Writer, o ExportOptions) (n uint64, err error)
}

// Errors of an Archive. They are wrapped with what was attempted.
var (
	ErrBackup    = errors.New("not a backup that can be restored") // something else, damaged, cut, of another version or another prefix
	ErrNotEmpty  = errors.New("the target holds updates already")  // a restore overwrites nothing
	ErrRestoring = errors.New("a restore of a backup is under way here or was interrupted; if it was, restore again")
)

// ExportOptions says what of the log is exported. The zero value is everything.
type ExportOptions struct {
	After  string           // begin after this event id; empty = at the first update
	Topics []topic.Selector // only what one of these selects; empty = everything
}

// Manifest says what a backup holds.
type Manifest struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Created time.Time `json:"created"`
	Prefix  string    `json:"prefix"`          // of the streams; the same where the backup is restored
	Parts   []Part    `json:"parts,omitempty"` // ids, if they are indexed, and updates, in this order
}

// Updates returns the part that is the log itself.
func (m Manifest) Updates() Part {
	for _, p := range m.Parts {
		if p.Name == PartUpdates {
			return p
		}
	}
	return Part{}
}

// Names of the parts of a backup.
const (
	PartIDs     = "ids"     // where publishers' event ids are found
	PartUpdates = "updates" // the log itself
)

// Part is one stream in a backup.
type Part struct {
	Name     string `json:"name"`
	First    uint64 `json:"first"`    // position of the first message retained
	Last     uint64 `json:"last"`     // position of the last one ever stored
	Messages uint64 `json:"messages"` // retained
	Bytes    int64  `json:"bytes"`    // of the snapshot
	SHA256   string `json:"sha256"`   // of the stream's description and its snapshot, in hexadecimal
}

// Progress tells how far a backup or a restore has come.
type Progress struct {
	Step  string // "saving", "checking", "restoring"
	Part  Part   // what is being worked on: its name and counts
	Bytes int64  // of its snapshot so far
	Done  bool   // with this part
}
