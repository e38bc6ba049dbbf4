package transport

import (
	"errors"
	"time"
)

// MaxBan is the longest time for which somebody can be kept away: bans are kept in the nodes' memory, which is no
// place for what is to last. Tokens are.
const MaxBan = 24 * time.Hour

// ErrBan is the error of a Ban that says nothing, or too much.
var ErrBan = errors.New("a ban names a subscriber or a subject, and lasts for at most 24 hours")

// Ban says whose streams end, and who is kept away how long: asked again within For, new streams are answered 204
// (SUB-41), which ends the attempts of a browser.
//
//	Subscriber  Subject
//	set         empty    the stream of this connection ends; nobody is kept away, as its token names nobody
//	set         set      the stream of this connection ends; who has a token of this subject is kept away
//	empty       set      all streams of tokens of this subject end; who has one is kept away
type Ban struct {
	Subscriber string        `json:"subscriber,omitempty"` // id of a connection
	Subject    string        `json:"subject,omitempty"`    // of tokens
	For        time.Duration `json:"for_ns"`               // from now on: clocks need not agree; 0 = nobody is kept away
}

// Validate returns ErrBan unless b can be carried out.
func (b Ban) Validate() error {
	if b.Subscriber == "" && b.Subject == "" || b.For < 0 || b.For > MaxBan {
		return ErrBan
	}
	return nil
}

// Banned is what a Ban has brought about.
type Banned struct {
	Streams int          `json:"streams"` // that were told to end, on all nodes together
	Nodes   []NodeBanned `json:"nodes"`   // by name
}

// NodeBanned is one node's part of a Banned.
type NodeBanned struct {
	Name    string `json:"name"`
	Answers bool   `json:"answers"` // false: it carries the ban out when it is heard of again, and ends what streams it has then
	Streams int    `json:"streams"`
	Error   string `json:"error,omitempty"` // why it refuses
}
