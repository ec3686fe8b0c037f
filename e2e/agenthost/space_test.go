package agenthost

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// space is a network namespace of one thread. What is opened in it belongs to it, and is used from anywhere.
type space struct {
	tid int
	do  chan func()
}

// needs is what the machine lacks where a namespace or a ruleset cannot be made.
const needs = "this test needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN), network namespaces, a kernel with nf_tables, and the program ip: apt-get install iproute2; see README.md"

func newSpace(t *testing.T) *space {
	t.Helper()
	s, ready := &space{do: make(chan func())}, make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine, and its namespace with it
		s.tid = unix.Gettid()
		ready <- unix.Unshare(unix.CLONE_NEWNET)
		for f := range s.do {
			f()
		}
	}()
	t.Cleanup(func() { close(s.do) })
	if err := <-ready; err != nil {
		t.Fatalf("%v: %s", err, needs)
	}
	return s
}

// in runs something on the namespace's thread.
func (s *space) in(f func() error) error {
	done := make(chan error, 1)
	s.do <- func() { done <- f() }
	return <-done
}

// ip runs the program ip in the namespace.
func (s *space) ip(t *testing.T, args string) {
	t.Helper()
	err := s.in(func() error {
		out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(args)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v: %s", err, needs)
	}
}

// fd is a descriptor of the namespace.
func (s *space) fd(t *testing.T) int {
	t.Helper()
	f, err := os.Open("/proc/self/task/" + strconv.Itoa(s.tid) + "/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return int(f.Fd())
}

// dial opens a connection from the namespace.
func (s *space) dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = s.in(func() error {
		c, err = (&net.Dialer{Timeout: 30 * time.Second}).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// relay listens in the namespace, and passes connections on to an address of this process's own namespace.
func (s *space) relay(t *testing.T, at, to string) {
	t.Helper()
	var l net.Listener
	err := s.in(func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", at)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go pass(c, to)
		}
	}()
}

func pass(from net.Conn, to string) {
	defer from.Close()
	c, err := net.Dial("tcp", to) //nolint:noctx // it ends with the connection
	if err != nil {
		return
	}
	defer c.Close()
	done := make(chan struct{}, 2)
	for _, way := range [2][2]net.Conn{{from, c}, {c, from}} {
		go func() {
			_, _ = way[0].(*net.TCPConn).WriteTo(way[1]) //nolint:forcetypeassert // it is one
			done <- struct{}{}
		}()
	}
	<-done
}
