package jetstream

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// A backup is a tar archive, so that any tool can list it:
//
//	backup.json         format, version, time, prefix
//	ids/stream.json     configuration and state of the id index; the key of the event ids is in that of updates
//	ids/00000001 …      its snapshot as the server made it (compressed), in pieces, in order
//	updates/stream.json
//	updates/00000001 …
//	manifest.json       backup.json again, and for each part its size, its counts and its SHA-256
//
// It is written and read in one pass, with as much memory as one piece takes: neither length is known before the
// end, which is why there are pieces, and why the sums come last. A file without a manifest was cut.
// The ids come first: one that is taken meanwhile, and is missing for it, is found again in the updates when the
// hub starts, while an index ahead of its log could name another update's position.
const (
	backupFormat   = "cinnabar-backup"
	backupVersion  = 1
	nameHead       = "backup.json"
	nameManifest   = "manifest.json"
	nameStream     = "stream.json"
	maxBackupPiece = 1 << 20 // what the server sends at most at a time
)

// description is stream.json: what the server says of a stream whose snapshot follows, and what it wants to be
// told when the snapshot is restored. Both are kept as they came, fields that we do not know among them.
type description struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
}

// read returns the parts that we know.
func (d description) read() (jetstream.StreamConfig, streamState, error) {
	var c jetstream.StreamConfig
	var s streamState
	err := errors.Join(json.Unmarshal(d.Config, &c), json.Unmarshal(d.State, &s))
	return c, s, err
}

// digest is the running sum of a part.
type digest struct {
	sum interface {
		io.Writer
		Sum(b []byte) []byte
	}
}

func newDigest() digest { return digest{sha256.New()} }

func (d digest) add(b []byte) { _, _ = d.sum.Write(b) } // never fails (hash.Hash)

func (d digest) String() string { return hex.EncodeToString(d.sum.Sum(nil)) }

// backupWriter writes a backup.
type backupWriter struct {
	t      *tar.Writer
	m      transport.Manifest
	part   transport.Part
	pieces int
	sum    digest
}

func newBackupWriter(w io.Writer, prefix string) (*backupWriter, error) {
	b := &backupWriter{t: tar.NewWriter(w), m: transport.Manifest{
		Format: backupFormat, Version: backupVersion, Created: time.Now().UTC().Truncate(time.Second), Prefix: prefix,
	}}
	_, err := b.entry(nameHead, b.m)
	return b, err
}

// entry writes an entry of the archive: bytes as they are, anything else as JSON.
func (b *backupWriter) entry(name string, v any) (text []byte, err error) {
	text, ok := v.([]byte)
	if !ok {
		if text, err = json.MarshalIndent(v, "", "  "); err != nil {
			return nil, err
		}
	}
	h := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), ModTime: b.m.Created, Format: tar.FormatPAX}
	if err := b.t.WriteHeader(h); err != nil {
		return nil, err
	}
	_, err = b.t.Write(text)
	return text, err
}

// begin opens a part.
func (b *backupWriter) begin(name string, d description) error {
	_, s, err := d.read()
	if err != nil {
		return fmt.Errorf("description of a stream: %w", err)
	}
	b.part = transport.Part{Name: name, First: s.First, Last: s.Last, Messages: s.Messages}
	b.pieces, b.sum = 0, newDigest()
	text, err := b.entry(name+"/"+nameStream, d)
	b.sum.add(text)
	return err
}

// Write writes the next piece of the part.
func (b *backupWriter) Write(piece []byte) (int, error) {
	b.pieces++
	if _, err := b.entry(fmt.Sprintf("%s/%08d", b.part.Name, b.pieces), piece); err != nil {
		return 0, err
	}
	b.sum.add(piece)
	b.part.Bytes += int64(len(piece))
	return len(piece), nil
}

// end closes the part.
func (b *backupWriter) end() {
	b.part.SHA256 = b.sum.String()
	b.m.Parts = append(b.m.Parts, b.part)
}

// close writes the manifest.
func (b *backupWriter) close() error {
	if _, err := b.entry(nameManifest, b.m); err != nil {
		return err
	}
	return b.t.Close()
}

// backupReader reads a backup, and is the reader of the snapshot of the part that it has come to.
type backupReader struct {
	t      *tar.Reader
	seen   transport.Manifest // as far as it was read
	part   *transport.Part    // the one being read; nil before the first
	pieces int
	sum    digest
	next   *tar.Header // read ahead; nil if it was not
	inside bool        // a piece
	done   bool
}

// openBackup reads the head. Errors wrap transport.ErrBackup if they are the file's fault.
func openBackup(r io.Reader) (*backupReader, error) {
	b := &backupReader{t: tar.NewReader(r)}
	h, err := b.t.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: it is empty", transport.ErrBackup)
	case errors.Is(err, tar.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF), err == nil && h.Name != nameHead:
		return nil, fmt.Errorf("%w: it was not written by cinnabar backup", transport.ErrBackup)
	case err != nil:
		return nil, b.damage(err)
	}
	if err := b.json(h, &b.seen); err != nil {
		return nil, err
	}
	if b.seen.Format != backupFormat {
		return nil, fmt.Errorf("%w: it was not written by cinnabar backup", transport.ErrBackup)
	}
	if b.seen.Version != backupVersion {
		return nil, fmt.Errorf("%w: it is of version %d, this program reads version %d", transport.ErrBackup, b.seen.Version, backupVersion)
	}
	return b, nil
}

// damage words an error of reading.
func (b *backupReader) damage(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it is cut", transport.ErrBackup)
	}
	if errors.Is(err, tar.ErrHeader) {
		return fmt.Errorf("%w: it is damaged: %w", transport.ErrBackup, err)
	}
	return fmt.Errorf("read the backup: %w", err)
}

// json reads an entry, which is small.
func (b *backupReader) json(h *tar.Header, v any) error {
	text, err := b.small(h)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%w: %s is damaged: %w", transport.ErrBackup, h.Name, err)
	}
	return nil
}

func (b *backupReader) small(h *tar.Header) ([]byte, error) {
	if h.Size > maxBackupPiece {
		return nil, fmt.Errorf("%w: %s has %d bytes", transport.ErrBackup, h.Name, h.Size)
	}
	text, err := io.ReadAll(b.t)
	if err != nil {
		return nil, b.damage(err)
	}
	return text, nil
}

// header returns the header of the next entry, without taking it.
func (b *backupReader) header() (*tar.Header, error) {
	if b.next == nil {
		h, err := b.t.Next()
		if err != nil {
			return nil, b.damage(err)
		}
		b.next = h
	}
	return b.next, nil
}

// nextPart goes to the next part, whose snapshot Read returns. After the last one it checks the manifest and
// returns io.EOF: everything that was read is what was written. The snapshot must have been read to its end.
func (b *backupReader) nextPart() (transport.Part, description, error) {
	h, err := b.header()
	if err != nil {
		return transport.Part{}, description{}, err
	}
	b.next = nil
	b.endPart()
	if h.Name == nameManifest {
		return transport.Part{}, description{}, b.check(h)
	}
	name := transport.PartIDs
	if h.Name != transport.PartIDs+"/"+nameStream || len(b.seen.Parts) > 0 {
		name = transport.PartUpdates
	}
	if h.Name != name+"/"+nameStream || len(b.seen.Parts) > 1 {
		return transport.Part{}, description{}, fmt.Errorf("%w: it is damaged: %q is not expected in it", transport.ErrBackup, h.Name)
	}
	text, err := b.small(h)
	if err != nil {
		return transport.Part{}, description{}, err
	}
	var d description
	if err := json.Unmarshal(text, &d); err != nil {
		return transport.Part{}, description{}, fmt.Errorf("%w: %s is damaged: %w", transport.ErrBackup, h.Name, err)
	}
	_, s, err := d.read()
	if err != nil {
		return transport.Part{}, description{}, fmt.Errorf("%w: %s is damaged: %w", transport.ErrBackup, h.Name, err)
	}
	b.part = &transport.Part{Name: name, First: s.First, Last: s.Last, Messages: s.Messages}
	b.pieces, b.inside, b.sum = 0, false, newDigest()
	b.sum.add(text)
	return *b.part, d, nil
}

func (b *backupReader) endPart() {
	if b.part == nil {
		return
	}
	b.part.SHA256 = b.sum.String()
	b.seen.Parts = append(b.seen.Parts, *b.part)
	b.part = nil
}

// Read reads the snapshot of the part.
func (b *backupReader) Read(p []byte) (int, error) {
	for {
		if !b.inside {
			h, err := b.header()
			if err != nil {
				return 0, err
			}
			if h.Name != fmt.Sprintf("%s/%08d", b.part.Name, b.pieces+1) {
				return 0, io.EOF // what it is instead is judged by nextPart
			}
			b.next, b.inside = nil, true
			b.pieces++
		}
		n, err := b.t.Read(p)
		b.sum.add(p[:n])
		b.part.Bytes += int64(n)
		if errors.Is(err, io.EOF) {
			b.inside, err = false, nil
		}
		if err != nil {
			return n, b.damage(err)
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
}

// check compares the manifest with what was read; io.EOF means that it is the same.
func (b *backupReader) check(h *tar.Header) error {
	text, err := b.small(h)
	if err != nil {
		return err
	}
	want, err := json.MarshalIndent(b.seen, "", "  ")
	if err != nil {
		return err
	}
	switch {
	case len(b.seen.Parts) == 0 || b.seen.Parts[len(b.seen.Parts)-1].Name != transport.PartUpdates:
		return fmt.Errorf("%w: it holds no updates", transport.ErrBackup)
	case !bytes.Equal(text, want):
		return fmt.Errorf("%w: it is damaged: what it holds is not what %s says", transport.ErrBackup, nameManifest)
	}
	b.done = true
	return io.EOF
}

// VerifyBackup reads a backup to its end and compares it with its sums, in memory that does not depend on its
// size. Errors wrap transport.ErrBackup if they are the file's fault. progress may be nil.
func VerifyBackup(r io.Reader, progress func(transport.Progress)) (transport.Manifest, error) {
	b, err := openBackup(r)
	if err != nil {
		return transport.Manifest{}, err
	}
	buf := make([]byte, 128<<10)
	for {
		part, _, err := b.nextPart()
		if errors.Is(err, io.EOF) {
			return b.seen, nil
		}
		if err != nil {
			return transport.Manifest{}, err
		}
		p := newMeter(progress, "checking", part)
		for {
			n, err := b.Read(buf)
			p.add(n)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return transport.Manifest{}, err
			}
		}
		p.end()
	}
}
