package upload

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/internal/buffers"
	"bardo.money/gateway/internal/fault"
)

// newBody returns a body that announces a length, with a limit on all bodies.
func newBody(announced int, most int64) *Body {
	return &Body{Memory: new(Memory), Limits: Limits{Body: 64 << 20, Bodies: most}, announced: announced}
}

// TestABodyIsWholeHoweverItIsCut, whatever length was announced, and all of its memory is counted and released.
func TestABodyIsWholeHoweverItIsCut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 300, 1500, 65535, 65536, 65537, 131072, 131073, 262145, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5<<20 + 7} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(i * 7 >> 3)
		}
		for name, announced := range map[string]int{"its length": size, "nothing": 0, "less": size / 2, "more": 3 * size} {
			u := newBody(announced, 0)
			for rest := body; len(rest) > 0; {
				n := min(1+r.IntN(128<<10), len(rest))
				if err := u.Add(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if !bytes.Equal(u.bytes(), body) {
				t.Errorf("%d bytes that announce %s are not what came", size, name)
			}
			held := u.Memory.Held()
			if held != int64(cap(*u.buf)) || held > int64(max(cap(*buffers.Get(1)), maxAhead*2*size)) {
				t.Errorf("%d bytes that announce %s hold %d of a buffer of %d", size, name, held, cap(*u.buf))
			}
			if name == "its length" && held > int64(max(1<<10, 2*size)) {
				t.Errorf("a body of %d bytes holds %d for as long as its answer streams", size, held)
			}
			if u.Release(); u.Memory.Held() != 0 {
				t.Errorf("%d bytes are still held", u.Memory.Held())
			}
		}
	}
}

// TestWhatIsCopiedStaysInProportionWhereMemoryIsShort: a body in many pieces is copied to a new buffer a few times.
func TestWhatIsCopiedStaysInProportionWhereMemoryIsShort(t *testing.T) {
	const size = 8 << 20
	u := newBody(32<<20, size+size/2)
	buffers, last := 0, 0
	piece := make([]byte, 1000)
	for len(u.bytes()) < size {
		if err := u.Add(piece); err != nil {
			t.Fatal(err)
		}
		if c := cap(*u.buf); c != last {
			buffers, last = buffers+1, c
		}
	}
	if buffers > 20 {
		t.Errorf("%d buffers for a body of 8 MiB", buffers)
	}
}

func TestABodyBeyondTheBoundOfAllIsOverloaded(t *testing.T) {
	u := newBody(0, 128<<10)
	if err := u.Add(make([]byte, 100<<10)); err != nil {
		t.Fatal(err)
	}
	other := Body{Memory: u.Memory, Limits: u.Limits, announced: 10}
	err := other.Add(make([]byte, 40<<10))
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Overloaded || f.RetryAfter != overloadedTime {
		t.Fatalf("got %v", err)
	}
	if u.Release(); u.Memory.Held() != 0 {
		t.Errorf("%d bytes are still held", u.Memory.Held())
	}
	if err := other.Add(make([]byte, 40<<10)); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

func TestBodiesNeverTakeMoreThanTheirBound(t *testing.T) {
	var m Memory
	const most = 1000
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range 10_000 {
				n := 1 + r.Int64N(400)
				if !m.take(n, most) {
					continue
				}
				if held := m.held.Load(); held > most {
					t.Errorf("%d are held", held)
				}
				m.release(n)
			}
		})
	}
	all.Wait()
	if held := m.held.Load(); held != 0 {
		t.Errorf("%d are left", held)
	}
}

func TestAPieceMayTakeWhatIsLeftOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct{ idle, total, want time.Duration }{
			{0, 0, 0}, {time.Second, 0, time.Second}, {0, time.Minute, time.Minute}, {time.Second, time.Minute, time.Second}, {time.Minute, time.Second, time.Second},
		} {
			u := newBody(0, 0)
			u.Limits.Idle, u.Limits.Total = row.idle, row.total
			if row.total > 0 {
				u.deadline = time.Now().Add(row.total)
			}
			if got := u.Wait(); got != row.want {
				t.Errorf("%v, %v: %v", row.idle, row.total, got)
			}
			time.Sleep(time.Hour) //nolint:forbidigo // of the bubble's clock
			if got := u.Wait(); row.total > 0 && (got <= 0 || got > time.Millisecond) {
				t.Errorf("%v, %v: %v when it is over", row.idle, row.total, got)
			}
		}
	})
}

// trickle is a connection on which a piece arrives after each pause.
type trickle struct {
	pieces []string
	pause  time.Duration
	ended  chan struct{}
}

func (c *trickle) Read(b []byte) (int, error) {
	if len(c.pieces) == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(c.pause):
	case <-c.ended:
		return 0, net.ErrClosed
	}
	n := copy(b, c.pieces[0])
	if c.pieces[0] = c.pieces[0][n:]; c.pieces[0] == "" {
		c.pieces = c.pieces[1:]
	}
	return n, nil
}

// TestMessagesHaveTheLimitsOfBodies: of time, size and the memory of all.
func TestMessagesHaveTheLimitsOfBodies(t *testing.T) {
	long := strings.Repeat("long ", 20_000)
	for _, row := range []struct {
		about       string
		pieces      []string
		pause       time.Duration
		idle, total time.Duration
		held, body  int64
		free        int64
		want        fault.Kind
		says        string
	}{
		{"no limits", []string{"a", "", long, "b"}, time.Hour, 0, 0, 0, 1 << 20, 0, "", ""},
		{"in time", []string{"a", long, "b"}, time.Second, 2 * time.Second, time.Minute, 0, 1 << 20, 0, "", ""},
		{"a pause", []string{"a", "b"}, 3 * time.Second, 2 * time.Second, time.Minute, 0, 1 << 20, 0, fault.RequestTimeout, "message did not come in time: nothing of it for 2s"},
		{"slow", slices.Repeat([]string{"a"}, 50), 2 * time.Second, 3 * time.Second, 30 * time.Second, 0, 1 << 20, 0, fault.RequestTimeout, "not complete after 30s"},
		{"large", []string{long, long}, 0, 0, 0, 0, 150_000, 0, fault.TooLarge, "150000 bytes"},
		{"no memory to begin", []string{"a"}, 0, 0, 0, 1 << 20, 1 << 20, 0, fault.Overloaded, ""},
		{"no memory to go on", []string{"a", long}, 0, 0, 0, 1<<20 - 8192, 1 << 20, 0, fault.Overloaded, ""},
		{"no memory, and free", []string{"a", long}, 0, 0, 0, 1 << 20, 1 << 20, 128 << 10, "", ""},
		{"no memory, and more than free", []string{"a", long, long}, 0, 0, 0, 1 << 20, 1 << 20, 128 << 10, fault.Overloaded, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			const all = 1 << 20
			memory := new(Memory)
			memory.take(row.held, 0)
			c := &trickle{slices.Clone(row.pieces), row.pause, make(chan struct{})}
			b := Body{Memory: memory, Limits: Limits{Body: row.body, Bodies: all, Free: row.free, Idle: row.idle, Total: row.total}}
			var late *fault.Fault
			for range 2 { // a body reads one message after the other
				c.pieces = slices.Clone(row.pieces)
				got, err := b.ReadMessage(c, func(f *fault.Fault) { late = f; close(c.ended) })
				f := late
				if f == nil && err != nil {
					f = fault.From(err)
				}
				switch {
				case row.want == "" && (err != nil || string(got) != strings.Join(row.pieces, "")):
					t.Errorf("%s: %d bytes, %v", row.about, len(got), err)
				case row.want != "" && (f == nil || f.Kind != row.want || !strings.Contains(f.Public, row.says)):
					t.Errorf("%s: %v", row.about, f)
				}
				if b.Release(); memory.Held() != row.held {
					t.Errorf("%s: %d bytes are held", row.about, memory.Held()-row.held)
				}
				if f != nil {
					return
				}
			}
			if time.Sleep(time.Hour); late != nil { //nolint:forbidigo // of the bubble's clock
				t.Errorf("%s: %v after its end", row.about, late)
			}
		})
	}
}
