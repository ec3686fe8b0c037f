package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/internal/proctest"
)

// fault is what is wrong with a way.
type fault uint8

const (
	sound    fault = iota
	severed        // what is connected is closed, and whoever connects is hung up on
	silenced       // whoever connects is connected, and nothing passes
	torn           // a connection is reset in the middle of the first reply
	delayed        // everything passes, each piece some milliseconds late
	faults         // how many there are
)

// faultyWay is one gateway's way to a store: a Unix socket whose connections lead to the store's, and break as the test says.
type faultyWay struct {
	socket string // where the gateway connects
	store  string // the store's own socket

	mu      sync.Mutex
	fault   fault
	changed chan struct{} // closed by the next change
	conns   map[*passage]struct{}
	most    int // connections at a time
	turn    int // how often the fault was set
}

// passage is one connection of a way.
type passage struct{ near, far net.Conn }

func (c *passage) end() {
	for _, end := range []net.Conn{c.near, c.far} {
		_ = end.Close()
	}
}

// layFaultyWay makes a way to a store's socket. The socket has the same name in another directory, since clients of PostgreSQL are told the directory alone.
func layFaultyWay(t *testing.T, store string) *faultyWay {
	t.Helper()
	w := &faultyWay{socket: filepath.Join(proctest.Dir(t), filepath.Base(store)), store: store, changed: make(chan struct{}), conns: map[*passage]struct{}{}}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); w.set(severed, true); all.Wait() })
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.carry(near) })
		}
	})
	return w
}

// layWayToDatabase makes a way to a PostgreSQL server, and the URL by which a gateway reaches a database over it.
func layWayToDatabase(t *testing.T, direct string) (w *faultyWay, through string) {
	t.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	w = layFaultyWay(t, filepath.Join(q.Get("host"), ".s.PGSQL.5432"))
	q.Set("host", filepath.Dir(w.socket))
	u.RawQuery = q.Encode()
	return w, u.String()
}

// set changes what is wrong. With drop, the connections that there are end, as if the other side had forgotten them; otherwise what waits passes once nothing is wrong.
func (w *faultyWay) set(f fault, drop bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn++
	w.become(f, drop)
}

// become changes what is wrong. Called with the lock.
func (w *faultyWay) become(f fault, drop bool) {
	w.fault = f
	close(w.changed)
	w.changed = make(chan struct{})
	if drop || f == severed {
		for c := range w.conns {
			c.end()
		}
	}
}

// fail has something be wrong for a time, unless it is set anew before; and then the connections end if the other side has forgotten them.
func (w *faultyWay) fail(f fault, drop bool, lasts time.Duration, forgotten bool) {
	w.set(f, drop)
	w.mu.Lock()
	defer w.mu.Unlock()
	turn := w.turn
	time.AfterFunc(lasts, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.turn == turn {
			w.become(sound, forgotten)
		}
	})
}

// open is how many connections there are, and the most that there were.
func (w *faultyWay) open() (now, most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns), w.most
}

// state is what is wrong now, and is closed when that changes.
func (w *faultyWay) state() (fault, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault, w.changed
}

// carry connects a gateway with the store.
func (w *faultyWay) carry(near net.Conn) {
	far, err := (&net.Dialer{}).DialContext(context.Background(), "unix", w.store)
	if err != nil {
		_ = near.Close()
		return
	}
	c := &passage{near, far}
	defer c.end()
	if !w.add(c) {
		return
	}
	defer w.remove(c)
	var back sync.WaitGroup
	back.Go(func() { defer c.end(); _ = w.pass(c.near, c.far, true) })
	_ = w.pass(c.far, c.near, false)
	c.end()
	back.Wait()
}

func (w *faultyWay) add(c *passage) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == severed {
		return false
	}
	w.conns[c] = struct{}{}
	w.most = max(w.most, len(w.conns))
	return true
}

func (w *faultyWay) remove(c *passage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

var errTorn = errors.New("the connection is torn")

// pass carries what one side sends to the other one.
func (w *faultyWay) pass(to, from net.Conn, reply bool) error {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return err
		}
		now, changed := w.state()
		for now == silenced {
			<-changed
			now, changed = w.state()
		}
		piece := buf[:n]
		switch {
		case now == severed:
			return errTorn
		case now == torn && reply:
			_, _ = to.Write(piece[:n/2])
			return errTorn
		case now == delayed:
			select {
			case <-time.After(time.Duration(1+rand.IntN(30)) * time.Millisecond):
			case <-changed:
			}
		}
		if _, err := to.Write(piece); err != nil {
			return err
		}
	}
}
