package coroutine

import (
	"fmt"
	"strings"
	"testing"
)

// walker is a member that runs steps, with a turn after each. It begins in a coroutine of the world's pool.
type walker struct {
	world *world
	name  string
	does  func(step int)
	place Place
	co    *Coroutine
}

type world struct {
	Batch[*walker]
	pool  Pool
	steps []string
}

const walkerSteps = 3

func (w *world) walker(name string) *walker {
	return &walker{world: w, name: name, does: func(int) {}}
}

// taken returns what was done since the last call.
func (w *world) taken() string {
	s := strings.Join(w.steps, " ")
	w.steps = nil
	return s
}

func (m *walker) Place() *Place { return &m.place }

func (m *walker) Begin() {
	m.co = m.world.pool.Take(m)
	m.Resume()
}

func (m *walker) Resume() {
	if m.world.pool.Run(m.co) != Waits {
		m.co = nil
	}
}

func (m *walker) Serve() bool {
	for n := range walkerSteps {
		m.world.steps = append(m.world.steps, fmt.Sprint(m.name, n))
		m.does(n)
		m.world.Turn(m, m.co)
	}
	return false
}

func TestTasksOfABatchTakeTurns(t *testing.T) {
	w := &world{}
	defer w.pool.Close()
	for range 2 { // the second time in the memory of the first
		for _, name := range []string{"a", "b", "c"} {
			w.Begin(w.walker(name))
		}
		w.Run()
		if got, want := w.taken(), "a0 b0 c0 a1 b1 c1 a2 b2 c2"; got != want {
			t.Errorf("the steps were %s, want %s", got, want)
		}
	}
}

func TestATaskAloneWaitsForNoTurn(t *testing.T) {
	w := &world{}
	defer w.pool.Close()
	a := w.walker("a")
	a.co = w.pool.Take(a)
	if a.Resume(); a.co != nil || w.taken() != "a0 a1 a2" {
		t.Error("it waits outside of a run")
	}
	a.does = func(n int) {
		if n == 0 {
			w.Begin(w.walker("b")) // which is for the next row of this run
		}
	}
	w.Begin(a)
	w.Run()
	if got := w.taken(); got != "a0 a1 a2 b0 b1 b2" {
		t.Errorf("alone the steps were %s", got)
	}
}

// TestARowIsBounded, so that each step's data also stays in the caches. The rest runs in the next Run.
func TestARowIsBounded(t *testing.T) {
	w := &world{}
	defer w.pool.Close()
	for range batchSize + 1 {
		w.Begin(w.walker("a"))
	}
	last := w.walker("z")
	w.Begin(last)
	w.Run()
	if n := len(w.steps); n != batchSize*walkerSteps || !last.place.Ready() {
		t.Errorf("%d steps, want those of %d tasks", n, batchSize)
	}
	if w.Run(); len(w.steps) != (batchSize+2)*walkerSteps || last.place.Ready() {
		t.Errorf("%d steps at last", len(w.steps))
	}
	if _, ok := w.Next(); ok {
		t.Error("something is left")
	}
}

// TestATaskIsInABatchOnce, however many events it gets, and only while it waits there.
func TestATaskIsInABatchOnce(t *testing.T) {
	w := &world{}
	defer w.pool.Close()
	a, b := w.walker("a"), w.walker("b")
	w.Begin(a)
	w.Begin(b)
	w.Add(a)
	if next, ok := w.Next(); !ok || next != a || !a.place.Ready() {
		t.Error("it is not the next one")
	}
	if w.Run(); w.taken() != "a0 b0 a1 b1 a2 b2" || a.place.Ready() {
		t.Error("it went on twice")
	}
}

func TestATaskIsTakenOut(t *testing.T) {
	w := &world{}
	defer w.pool.Close()
	a, b, c := w.walker("a"), w.walker("b"), w.walker("c")
	w.Begin(a)
	w.Begin(b)
	w.Begin(c)
	if !w.Remove(a) || w.Remove(a) || a.place != (Place{}) {
		t.Error("a task that did not begin")
	}
	c.does = func(n int) {
		if n > 0 {
			return
		}
		if w.Remove(b) {
			t.Error("it has begun")
		}
		for b.co != nil { // it no longer waits in a turn: each call of Turn ends with the next resumption
			b.Resume()
			w.Remove(b)
		}
	}
	w.Run()
	if got, want := w.taken(), "b0 c0 b1 b2 c1 c2"; got != want {
		t.Errorf("the steps were %s, want %s", got, want)
	}
}

// TestATaskIsResumedInItsTurn only: events in between do not let it run further.
func TestATaskIsResumedInItsTurn(t *testing.T) {
	w := &world{}
	defer w.pool.Close()
	a, b := w.walker("a"), w.walker("b")
	b.does = func(int) {
		if a.co != nil {
			a.Resume()
		}
	}
	w.Begin(a)
	w.Begin(b)
	w.Run()
	if got, want := w.taken(), "a0 b0 a1 b1 a2 b2"; got != want {
		t.Errorf("the steps were %s, want %s", got, want)
	}
}

func TestABatchNeedsNoMemory(t *testing.T) {
	b := &Batch[*still]{}
	all := make([]still, batchSize)
	if n := testing.AllocsPerRun(100, func() {
		for i := range all {
			b.Add(&all[i])
		}
		b.Run()
	}); n > 0 {
		t.Errorf("%v allocations for %d tasks", n, batchSize)
	}
}

// still is a member that does nothing.
type still struct{ place Place }

func (m *still) Begin()        {}
func (m *still) Resume()       {}
func (m *still) Place() *Place { return &m.place }
