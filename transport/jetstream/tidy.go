package jetstream

import (
	"context"
	"log/slog"
)

// wrong is a connection of this node that is not as it should be.
type wrong struct {
	subject string
	seq     uint64  // where it stands and should not
	missing *record // or what should stand there
}

// tidy compares what is listed of this node with what was entered: a call that has failed may have been carried out
// all the same, and a stream that was made anew lacks everything.
func (d *directory) tidy(ctx context.Context) {
	d.mu.Lock()
	t := d.term
	want := map[string]*record{}
	if t != nil {
		for key, r := range d.records {
			if r.wanted(t) && r.seq > 0 {
				want[key] = r
			}
		}
	}
	d.mu.Unlock()
	if t == nil || d.settle(ctx) != nil { // what was entered before is listed after
		return
	}
	have, alive := d.mirror.own(t.name)
	if !alive || !t.writes.enter() {
		return
	}
	defer t.writes.leave()
	list := d.compare(t, want, have)
	if len(list) == 0 {
		return
	}
	err := together(list, sweepMost, func(w wrong) error { return d.correct(ctx, t, w) })
	d.log.opts.Logger.Info("the directory was corrected", slog.Int("connections", len(list)), slog.Any("error", err))
}

// compare returns what is listed and unwanted, and what is wanted and not listed.
func (d *directory) compare(t *term, want map[string]*record, have map[string]uint64) []wrong {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []wrong
	for key, seq := range have {
		if r := d.records[key]; r == nil || !r.wanted(t) {
			list = append(list, wrong{subject: d.connection(t.name, key), seq: seq})
		}
	}
	for key, r := range want {
		if _, there := have[key]; !there && r.wanted(t) && d.records[key] == r {
			list = append(list, wrong{missing: r})
		}
	}
	return list
}

// wanted reports whether r is to be listed under the term t. Called with directory.mu held.
func (r *record) wanted(t *term) bool { return !r.leaving && !r.failed && r.term == t.name }

func (d *directory) correct(ctx context.Context, t *term, w wrong) error {
	if w.missing == nil {
		// in the name of this node, as its failed call would have been
		_, err := d.takeOut(ctx, w.subject, w.seq, t.name)
		return err
	}
	r := w.missing
	body, err := encodePresence(r.presence)
	if err != nil {
		return err
	}
	d.mu.Lock()
	wanted := r.wanted(t)
	d.mu.Unlock()
	if !wanted {
		return nil
	}
	a, err := d.log.publish(ctx, d.message(r.subject, body))
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r.seq = a.Sequence
	return nil
}
