package processor

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestALateBodyIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w bodyDeadline
		late := 0
		for range 3 { // pieces that come in time
			w.begin(time.Second, func() { late++ })
			time.Sleep(time.Second - 1) //nolint:forbidigo // of the bubble's clock
			w.end()
			time.Sleep(time.Minute) //nolint:forbidigo // of the bubble's clock; nobody waits
		}
		if late != 0 {
			t.Fatal("a body that is in time is late")
		}
		w.begin(time.Second, func() { late++ })
		time.Sleep(time.Hour) //nolint:forbidigo // of the bubble's clock
		if w.end(); late != 1 {
			t.Errorf("told %d times", late)
		}
	})
}
