// Package seedtest gives the seeds of random tests. Only tests import it.
package seedtest

import (
	"math/rand/v2"
	"os"
	"strconv"
)

// Seeds returns the seeds of a random test: 1 and, with BARDO_SOAK=1, more random ones; or only the number in BARDO_SEED, to repeat one run.
func Seeds(more int) []uint64 {
	if one, err := strconv.ParseUint(os.Getenv("BARDO_SEED"), 10, 64); err == nil {
		return []uint64{one}
	}
	seeds := []uint64{1}
	if os.Getenv("BARDO_SOAK") != "" {
		for range more {
			seeds = append(seeds, rand.Uint64())
		}
	}
	return seeds
}
