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

// visits counts for the watchdog what a worker enters and leaves.
type visits C.dm_visit

// enter is the begin of an event.
func (v *visits) enter() {
	atomic.AddUint64((*uint64)(unsafe.Pointer(&v.n)), 1)
	if atomic.LoadUint32((*uint32)(unsafe.Pointer(&C.dm_watching))) == 0 {
		C.dm_watch_again()
	}
}

// exit is its end.
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
