package onnx

/*
// As in extproc/stream/module.
#cgo CFLAGS: -I${SRCDIR}
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
static void give_back(void) { malloc_trim(0); }
#else
static void give_back(void) {}
#endif
*/
import "C"

import ort "github.com/yalue/onnxruntime_go"

// giveBack returns freed C memory to the system: loading a model takes about a third more memory than the model keeps, and glibc does not release it.
func giveBack() { C.give_back() }

// shareMemory makes all sessions allocate a run's memory from one arena, which grows to the needs of concurrent runs, instead of the largest run of
// each session. The library must be loaded; it is called once.
func shareMemory() error {
	cpu, err := ort.GetMemoryInfo()
	if err != nil {
		return err
	}
	return ort.CreateAndRegisterAllocator(cpu, nil)
}
