// Package timerslack lets the kernel wake the threads of a program that imports it up to 1 ms late, which is 50 µs otherwise (prctl(2), PR_SET_TIMERSLACK;
// Linux only). Go's runtime has a thread that looks after the others every 20 µs for a while whenever one of them comes back from C or from a system call: in
// a gateway it does so without end. With the usual slack it took a fifth of the CPU time of the Go program under single requests, and a third of the time of
// slow streams in Envoy's process. Timers of Go's may fire up to 1 ms late in return. They keep the usual slack in programs that this one starts with Start.
package timerslack

import "runtime"

// Start runs start, which starts another program, so that this has the usual slack.
func Start(start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	usual()
	defer late()
	return start()
}

// Restore gives the calling thread, and those that it makes, the usual slack: a library calls it on a thread of the program that has loaded it.
func Restore() { usual() }
