package main

import (
	"os"
	"os/signal"
	"syscall"
)

// signalWatch tells what the signals that reach serve ask for.
type signalWatch struct {
	ended  chan os.Signal // the first SIGTERM or SIGINT
	reload chan struct{}  // SIGHUP

	signals chan os.Signal
	quit    chan struct{}
}

// watchSignals starts watching, until stop. A second SIGTERM or SIGINT ends the process at once.
func watchSignals() *signalWatch {
	w := &signalWatch{
		ended: make(chan os.Signal, 1), reload: make(chan struct{}, 1),
		signals: make(chan os.Signal, 4), quit: make(chan struct{}),
	}
	signal.Notify(w.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go w.run()
	return w
}

func (w *signalWatch) stop() {
	signal.Stop(w.signals)
	close(w.quit)
}

func (w *signalWatch) run() {
	ending := false
	for {
		select {
		case <-w.quit:
			return
		case s := <-w.signals:
			switch {
			case s == syscall.SIGHUP:
				select {
				case w.reload <- struct{}{}:
				default: // one is waiting already, and will read what is there then
				}
			case !ending:
				ending = true
				w.ended <- s
			default:
				os.Exit(128 + number(s)) // who sends a second one has waited long enough
			}
		}
	}
}

// number is the signal's number on any system, for the exit code that shells expect.
func number(s os.Signal) int {
	if s == os.Interrupt {
		return int(syscall.SIGINT)
	}
	return int(syscall.SIGTERM)
}
