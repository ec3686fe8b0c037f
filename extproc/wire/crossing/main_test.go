package crossing_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain reduces garbage collections: the tests decode hundreds of thousands of answers and keep none.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
