// Package sse writes and reads text/event-stream. It holds the project's only encoder and only parser.
package sse

// Event is one event as it stands on the wire.
type Event struct {
	ID    string
	Type  string // empty = no event field
	Data  string
	Retry uint64 // milliseconds, 0 = no retry field
	// CursorID, if not empty, is written as a second id field at the end of the block, so that the
	// client's cursor does not go back behind it (SSE-C09). The decoder never sets it.
	CursorID string
}
