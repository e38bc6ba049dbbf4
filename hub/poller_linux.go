package hub

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// poller watches the sockets of a shard's streams for room and for the client's leaving. It is an epoll
// descriptor that is itself watched by Go's runtime, so that waiting takes no thread.
type poller struct {
	file *os.File

	mu   sync.Mutex
	next uint64
	subs map[uint64]*subscriber // guarded by mu
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("hub: create poller: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("hub: create poller: %w", err)
	}
	return &poller{file: os.NewFile(uintptr(fd), "epoll"), subs: map[uint64]*subscriber{}}, nil
}

// add starts watching s. Events come once each time something changes.
func (p *poller) add(s *subscriber) error {
	p.mu.Lock()
	p.next++
	s.token = p.next
	p.subs[s.token] = s
	p.mu.Unlock()
	//nolint:gosec // the token is split into two halves and joined again, no value is lost
	ev := unix.EpollEvent{
		Events: unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET,
		Fd:     int32(uint32(s.token)), Pad: int32(uint32(s.token >> 32)),
	}
	if err := s.sink.(*h1Sink).raw.Control(func(fd uintptr) { s.fd = int(fd) }); err != nil {
		return err
	}
	return p.control(s, unix.EPOLL_CTL_ADD, &ev)
}

// remove stops watching s, if it was watched.
func (p *poller) remove(s *subscriber) {
	p.mu.Lock()
	_, ok := p.subs[s.token]
	delete(p.subs, s.token)
	p.mu.Unlock()
	if ok {
		_ = p.control(s, unix.EPOLL_CTL_DEL, nil)
	}
}

func (p *poller) control(s *subscriber, op int, ev *unix.EpollEvent) error {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	var ctlErr error
	err = s.sink.(*h1Sink).raw.Control(func(fd uintptr) {
		_ = raw.Control(func(epfd uintptr) {
			ctlErr = unix.EpollCtl(int(epfd), op, int(fd), ev)
		})
	})
	return errors.Join(err, ctlErr)
}

// run hands events to their subscribers until close.
func (p *poller) run() {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	events := make([]unix.EpollEvent, 256)
	for {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			var waitErr error
			n, waitErr = unix.EpollWait(int(fd), events, 0)
			return n > 0 || (waitErr != nil && !errors.Is(waitErr, unix.EINTR))
		})
		if err != nil || n < 0 {
			return // closed
		}
		for i := range n {
			p.handOver(&events[i])
		}
	}
}

func (p *poller) handOver(ev *unix.EpollEvent) {
	//nolint:gosec // see add
	token := uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32
	p.mu.Lock()
	s := p.subs[token]
	p.mu.Unlock()
	if s != nil {
		s.events.Or(ev.Events)
		s.notify()
	}
}

// close ends run.
func (p *poller) close() { _ = p.file.Close() }
