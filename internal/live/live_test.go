package live_test

import (
	"fmt"
	"sync"
	"testing"

	"bardo.money/gateway/internal/live"
)

func TestWhatIsUnderWayIsFoundByItsID(t *testing.T) {
	var s live.Set[int]
	if s.Get("") != nil || s.Get("1") != nil {
		t.Error("something is under way")
	}
	s.Remove("1")
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			n, id := i, fmt.Sprint(i)
			s.Add(id, &n)
			if got := s.Get(id); got != &n {
				t.Errorf("%s is %v", id, got)
			}
			if i%2 == 0 {
				s.Remove(id)
			}
		})
	}
	all.Wait()
	for i := range 100 {
		if got := s.Get(fmt.Sprint(i)); (got == nil) != (i%2 == 0) || got != nil && *got != i {
			t.Errorf("%d is %v", i, got)
		}
	}
}
