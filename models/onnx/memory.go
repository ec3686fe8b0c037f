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

// giveBack returns freed memory of C to the system: reading a model takes about a third more than the model keeps, and glibc holds on to that.
func giveBack() { C.give_back() }

// shareMemory makes all sessions take what a run needs of one arena, which grows to what the runs of one moment need instead of what each session
// once needed. The library must be loaded; it is called once.
func shareMemory() error {
	cpu, err := ort.GetMemoryInfo()
	if err != nil {
		return err
	}
	return ort.CreateAndRegisterAllocator(cpu, nil)
}
