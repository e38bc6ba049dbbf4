package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

// progress tells on standard error how far a command has come: on a terminal in one line that changes, elsewhere, if
// it is asked for, a line every few seconds.
type progress struct {
	wanted bool

	mu       sync.Mutex // guards below: a request's body is read by another goroutine
	w        io.Writer  // nil = quiet
	terminal bool
	open     bool // a line that is not ended
	said     time.Time
}

// progressEvery is the time between two lines where none can be changed.
const progressEvery = 5 * time.Second

func (p *progress) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.wanted, "progress", false, "tell on standard error how far it is, also when that is not a terminal")
}

// on begins. report is for the work, and done ends the line and passes the error on.
func (p *progress) on(cmd *cobra.Command) (report func(app.Progress), done func(error) error) {
	if p.terminal = isTerminal(cmd.ErrOrStderr()); p.terminal || p.wanted {
		p.w = cmd.ErrOrStderr()
	}
	return p.report, func(err error) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.endLine()
		p.w = nil // whoever still reads has nothing to tell
		return err
	}
}

func (p *progress) report(now app.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil || !now.Done && !p.terminal && time.Since(p.said) < progressEvery {
		return
	}
	p.said = time.Now()
	text := fmt.Sprintf("%s %s: %s", now.Step, now.Part.Name, humanize.IBytes(uint64(max(now.Bytes, 0))))
	if now.Part.Messages > 0 {
		text += fmt.Sprintf(", %s messages", humanize.Comma(int64(min(now.Part.Messages, 1<<62))))
	}
	if !now.Done {
		text += " …"
	}
	if !p.terminal {
		fmt.Fprintln(p.w, "cinnabar:", text)
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", text)
	if p.open = true; now.Done {
		p.endLine()
	}
}

// result says what was done.
func (p *progress) result(verb string, m app.Manifest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil {
		return
	}
	p.endLine()
	u := m.Updates()
	if u.Messages == 0 {
		fmt.Fprintf(p.w, "cinnabar: %s an empty log\n", verb)
		return
	}
	fmt.Fprintf(p.w, "cinnabar: %s %s updates, positions %d to %d, of %s\n",
		verb, humanize.Comma(int64(min(u.Messages, 1<<62))), u.First, u.Last, m.Created.Format(time.RFC3339))
}

func (p *progress) endLine() {
	if p.open {
		fmt.Fprintln(p.w)
		p.open = false
	}
}
