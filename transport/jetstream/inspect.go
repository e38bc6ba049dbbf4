package jetstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats-server/v2/server/archive"
)

// inspector reads a snapshot while it is being written, as the server that restores it will: one that could not be
// restored is noticed when there is still a log to be saved.
type inspector struct {
	*io.PipeWriter
	result chan error
}

func newInspector() *inspector {
	r, w := io.Pipe()
	i := &inspector{PipeWriter: w, result: make(chan error, 1)}
	go func() {
		err := inspect(r)
		_ = r.CloseWithError(err) // always nil
		i.result <- err
	}()
	return i
}

// end says whether the snapshot is whole.
func (i *inspector) end() error {
	_ = i.Close()
	err := <-i.result
	i.result <- err // for stop
	return err
}

// stop ends the reading and waits for it.
func (i *inspector) stop() {
	_ = i.CloseWithError(errors.New("given up"))
	i.result <- <-i.result // it may be asked for again
}

// inspect reads a snapshot to its end. One that a server older than 2.15 has made is a tar archive.
func inspect(r io.Reader) error {
	plain := s2.NewReader(r)
	magic := make([]byte, len(archive.MagicBytes))
	if _, err := io.ReadFull(plain, magic); err != nil {
		return noEnd(err)
	}
	if string(magic) != archive.MagicBytes {
		_, err := io.Copy(io.Discard, plain)
		return noEnd(err)
	}
	a := archive.NewReader(io.MultiReader(bytes.NewReader(magic), plain))
	for {
		h, err := a.Next()
		if err != nil {
			return noEnd(err)
		}
		if h.Sequence == 0 && h.Name == "" { // the mark at the end
			_, err := io.Copy(io.Discard, plain)
			return noEnd(err)
		}
		if _, err := io.Copy(io.Discard, a); err != nil {
			return fmt.Errorf("position %d: %w", h.Sequence, noEnd(err))
		}
	}
}

// noEnd words an end that comes too early.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("its end is missing")
	}
	return err
}
