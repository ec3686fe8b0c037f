package module

// #include "abi.h"
import "C"

import (
	"errors"
	"sync/atomic"
	"time"
	"unsafe"

	"bardo.money/gateway/extproc/stream/coroutine"
)

// visits counts a worker's entered and exited events for the watchdog.
type visits C.dm_visit

// enter marks the start of an event.
func (v *visits) enter() {
	atomic.AddUint64((*uint64)(unsafe.Pointer(&v.n)), 1)
	if atomic.LoadUint32((*uint32)(unsafe.Pointer(&C.dm_watching))) == 0 {
		C.dm_watch_again()
	}
}

// exit marks its end.
func (v *visits) exit() { atomic.AddUint64((*uint64)(unsafe.Pointer(&v.n)), 1) }

// watch starts the watchdog.
func watch(workers int) error {
	if !C.dm_watch(C.int(workers), C.uint64_t(coroutine.MaxHold)) {
		return errors.New("no thread for the watchdog")
	}
	return nil
}

//export goHeld
func goHeld(lasted C.uint64_t) {
	guarded(func() { process.holds.Held("a worker of Envoy's", time.Duration(lasted)) })
}
