package duplex

import (
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// socket reads and writes with system calls that block, in the thread of the goroutine that makes them. The network poller of Go's runtime would wake a
// thread that looks for work on each message, and another one beside it.
type socket struct {
	net.Conn // for what is not here
	file     *os.File
	fd       int

	mu       sync.Mutex
	released bool
}

// blocking returns a connection over the same socket where it is one of a file's: only Envoys of this machine have those, and each connection takes a
// thread. It is nc itself otherwise.
func blocking(nc net.Conn) net.Conn {
	u, ok := nc.(*net.UnixConn)
	if !ok {
		return nc
	}
	file, err := u.File()
	if err != nil {
		return nc
	}
	fd := int(file.Fd())
	if err := unix.SetNonblock(fd, false); err != nil {
		_ = file.Close()
		return nc
	}
	_ = nc.Close() // the copy goes on
	return &socket{Conn: nc, file: file, fd: fd}
}

// Read implements io.Reader.
func (s *socket) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(s.fd, b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write implements io.Writer.
func (s *socket) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Write(s.fd, b[done:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// Close ends reads and writes under way.
func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return nil
	}
	return unix.Shutdown(s.fd, unix.SHUT_RDWR)
}

// release closes the descriptor, when nothing reads or writes any more.
func (s *socket) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	_ = s.file.Close()
}
