package jetstream

import (
	"context"
	"io"
)

// streams gives the log's streams to what saves and reads them as a whole.
func (l *Log) streams() *streams {
	return &streams{nc: l.nc, js: l.js, prefix: l.opts.Prefix, replicas: l.opts.replicas()}
}

// Backup writes the log and its id index to w as they are now, while the log goes on. The backup holds private updates
// and the key of the event ids. progress may be nil; it is called a few times a second.
func (l *Log) Backup(ctx context.Context, w io.Writer, progress func(Progress)) (Manifest, error) {
	m, err := l.streams().backup(ctx, w, progress)
	return m, l.orClosed(err)
}

// Export writes the updates up to the one that is the newest now to w, in order, one JSON object a line: position, id,
// time, topics, type, retry, private and data, or data_base64 if the data is not UTF-8. It returns how many it
// wrote. transport.ErrUnknown and transport.ErrTrimmed say that ExportOptions.After is not in the log.
func (l *Log) Export(ctx context.Context, w io.Writer, o ExportOptions) (n uint64, err error) {
	n, err = l.streams().export(ctx, l.inbox, w, o)
	return n, l.orClosed(err)
}
