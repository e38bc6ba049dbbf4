package jetstream

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// headroom refuses publishers before the disk is full.
type headroom struct {
	dir     string
	minFree int64        // 0 = by the disk's size
	left    atomic.Int64 // bytes that may be written before the disk is asked again
	mu      sync.Mutex   // one look at the disk at a time
}

const (
	recordOverhead  = 256     // bytes that the store adds to a message, generously
	trustFor        = 4 << 20 // bytes written before the disk is asked again
	defaultHeadroom = 16 << 20
)

// take reserves n bytes. It returns ErrFull when less than the headroom would be left.
func (h *headroom) take(n int64) error {
	n += recordOverhead
	if h.left.Add(-n) >= 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left.Load() >= 0 { // somebody else has looked
		return nil
	}
	return h.look(n)
}

// look asks the disk, and refuses if n more bytes would use the headroom. A disk that cannot be asked is
// not refused: the store will tell. Called with mu held.
func (h *headroom) look(n int64) error {
	free, total, err := diskSpace(h.dir)
	if err != nil {
		h.left.Store(trustFor)
		return nil //nolint:nilerr // see above
	}
	usable := int64(min(free, 1<<62)) - n - h.reserve(total)
	h.left.Store(min(max(usable, -1), trustFor))
	if usable < 0 {
		return fmt.Errorf("%w: %d bytes are free on the disk of %q", transport.ErrFull, free, h.dir)
	}
	return nil
}

func (h *headroom) reserve(total uint64) int64 {
	if h.minFree > 0 {
		return h.minFree
	}
	return int64(min(defaultHeadroom, total/8))
}

// enough looks at the disk anew, and reports whether n bytes can be added.
func (h *headroom) enough(n int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.look(n) == nil
}

// refusals tells the operator once that publishers are refused for want of space, and once that they no
// longer are. The answers to the publishers are theirs, and too many for a log.
type refusals struct {
	log *slog.Logger

	mu      sync.Mutex // guards below
	on      bool
	largest int64 // bytes of the largest update refused: as much must fit before all is well
}

// refused notes that an update of n bytes was refused.
func (r *refusals) refused(n int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.largest = max(r.largest, n+recordOverhead)
	if !r.on {
		r.on = true
		r.log.Warn("publishers are refused: there is no space left for history", slog.Any("error", err))
	}
}

// pending reports whether publishers were refused, and what must fit for that to be over.
func (r *refusals) pending() (largest int64, on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.largest, r.on
}

// taken notes that an update of n bytes was taken, which shows that there is space again if it is as large as any refused.
func (r *refusals) taken(n int64) {
	if largest, on := r.pending(); on && n+recordOverhead >= largest {
		r.over()
	}
}

// over notes that there is space again.
func (r *refusals) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.on {
		r.on, r.largest = false, 0
		r.log.Info("publishers are taken again: there is space for history")
	}
}
