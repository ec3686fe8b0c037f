// Package timerslack raises the timer slack of a program that imports it to 1 ms, from 50 µs (prctl(2), PR_SET_TIMERSLACK; Linux only). A thread of
// Go's runtime checks the others every 20 µs for a while after one of them returns from C or from a system call: in a gateway it does so
// continuously. With the default slack it took a fifth of the CPU time of the Go program under single requests, and a third of the time of slow
// streams in Envoy's process. In return, Go's timers may fire up to 1 ms late. Programs started with Start keep the default slack.
package timerslack

import "runtime"

// Start calls start, which starts another program, so that the program has the default slack.
func Start(start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	usual()
	defer late()
	return start()
}

// Restore resets the calling thread, and threads that it creates, to the default slack: a library calls it on a thread of the program that loaded it.
func Restore() { usual() }
