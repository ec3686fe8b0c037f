package attempt_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/attempt"
)

func TestItIsKnownWhenEnvoyBeganItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f attempt.Forwarded
		if n, at := f.Latest(); n != 0 || !at.IsZero() || !f.Began(1).IsZero() || f.Unwritten() != nil {
			t.Errorf("%d at %v before any", n, at)
		}
		second := time.Now()
		f.Retried(2)
		synctest.Wait()
		<-time.After(time.Second)
		f.Retried(3)
		if n, at := f.Latest(); n != 3 || at != second.Add(time.Second) {
			t.Errorf("the latest is %d at %v", n, at)
		}
		if f.Began(2) != second || f.Began(3) != second.Add(time.Second) || !f.Began(1).IsZero() || !f.Began(4).IsZero() {
			t.Errorf("they began at %v and %v", f.Began(2), f.Began(3))
		}
		why := errors.New("no key")
		f.SetUnwritten(&attempt.Unwritten{Number: 4, Why: why})
		if u := f.Unwritten(); u == nil || u.Number != 4 || !errors.Is(u.Why, why) {
			t.Errorf("unwritten is %+v", u)
		}
	})
}
