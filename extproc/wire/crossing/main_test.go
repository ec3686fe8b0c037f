package crossing_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has garbage collected seldom: the tests read hundreds of thousands of answers and keep none.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
