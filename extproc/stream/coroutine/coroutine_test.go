package coroutine

import (
	"runtime"
	"testing"
)

type task func() bool

func (t task) Serve() bool { return t() }

func TestATaskGoesOnWhereItWaited(t *testing.T) {
	var p Pool
	defer p.Close()
	var co *Coroutine
	steps := 0
	co = p.Take(task(func() bool {
		for range 3 {
			steps++
			co.Wait()
		}
		return false
	}))
	for n := 1; n <= 3; n++ {
		if s := p.Run(co); s != Waits || steps != n {
			t.Fatalf("run %d: state %d after %d steps", n, s, steps)
		}
	}
	if s := p.Run(co); s != Ended {
		t.Errorf("state %d at the end", s)
	}
}

func TestTheRestOfATaskIsForAGoroutine(t *testing.T) {
	var p Pool
	defer p.Close()
	for range 3 { // the second and third may be served by the goroutine of the first
		parts, done := 0, make(chan struct{})
		whole := task(func() bool {
			if parts++; parts == 2 {
				close(done)
			}
			return parts == 1
		})
		if s := p.Run(p.Take(whole)); s != Leaves {
			t.Fatalf("state %d", s)
		}
		Dispatch(whole)
		<-done
	}
}

func TestCoroutinesAreUsedAgain(t *testing.T) {
	var p Pool
	defer p.Close()
	first := p.Take(task(func() bool { return false }))
	p.Run(first)
	if again := p.Take(task(func() bool { return false })); again != first {
		t.Error("an idle coroutine was not used")
	}
}

func TestIdleCoroutinesAreBoundedAndEnd(t *testing.T) {
	var p Pool
	before := runtime.NumGoroutine()
	all := make([]*Coroutine, 2*maxIdle)
	for i := range all {
		all[i] = p.Take(task(func() bool { return false }))
	}
	for _, co := range all {
		p.Run(co)
	}
	if len(p.idle) != maxIdle || runtime.NumGoroutine() > before+maxIdle {
		t.Errorf("%d idle, %d goroutines more", len(p.idle), runtime.NumGoroutine()-before)
	}
	p.Close()
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines more after Close", n-before)
	}
}
