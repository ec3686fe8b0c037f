package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// client is one keep-alive HTTP/1.1 connection. It does as little as it can: it shares its processors with what it measures.
type client struct {
	conn net.Conn
	r    *bufio.Reader
	tail []byte // the end of the last body

	chunk func() // nil, or called when a chunk of a body comes
}

const (
	readBuffer = 64 << 10
	tailSize   = 16
)

func dial(ctx context.Context, addr string, deadline time.Time) (*client, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(deadline); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &client{conn: conn, r: bufio.NewReaderSize(conn, readBuffer), tail: make([]byte, 0, 2*tailSize)}, nil
}

// close is for a connection that nobody waits on.
func (c *client) close() { _ = c.conn.Close() }

var done = []byte("data: [DONE]\n\n")

// do sends a request and reads its whole answer, which must be a success, and complete. first is when the first byte of
// its body had come.
func (c *client) do(request []byte, stream bool) (first time.Time, err error) {
	if _, err := c.conn.Write(request); err != nil {
		return first, err
	}
	status, length, err := c.head()
	if err != nil {
		return first, err
	}
	c.tail = c.tail[:0]
	if length >= 0 {
		first, err = c.counted(length)
	} else {
		first, err = c.chunked()
	}
	switch {
	case err != nil:
		return first, err
	case status != 200:
		return first, fmt.Errorf("status %d: …%s", status, c.tail)
	case stream && !bytes.HasSuffix(c.tail, done):
		return first, errors.New("the stream has no end")
	}
	return first, nil
}

// begin sends a request for a stream and waits for the first byte of its body.
func (c *client) begin(request []byte) error {
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	status, _, err := c.head()
	switch {
	case err != nil:
		return err
	case status != 200:
		return fmt.Errorf("status %d", status)
	}
	_, err = c.r.Peek(1)
	return err
}

// head reads the status line and the headers. length is -1 for a chunked body.
func (c *client) head() (status, length int, err error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, 0, fmt.Errorf("status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, fmt.Errorf("status line %q", line)
	}
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, 0, err
		}
		name, value, ok := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte{':'})
		switch {
		case !ok:
			return status, length, nil
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, 0, fmt.Errorf("content-length %q", value)
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			length = -1
		}
	}
}

func (c *client) counted(n int) (first time.Time, err error) {
	if n > 0 {
		if _, err := c.r.Peek(1); err != nil {
			return first, err
		}
	}
	first = time.Now()
	return first, c.skip(n)
}

func (c *client) chunked() (first time.Time, err error) {
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return first, err
		}
		if first.IsZero() {
			first = time.Now()
		}
		n, err := strconv.ParseUint(string(bytes.TrimRight(line, "\r\n")), 16, 31)
		if err != nil {
			return first, fmt.Errorf("chunk of size %q", line)
		}
		if n > 0 {
			if c.chunk != nil {
				c.chunk()
			}
			if err := c.skip(int(n)); err != nil {
				return first, err
			}
		}
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return first, err
		}
		if n == 0 {
			return first, c.trailers(line)
		}
	}
}

// trailers reads to the empty line that ends them.
func (c *client) trailers(line []byte) (err error) {
	for len(bytes.TrimRight(line, "\r\n")) > 0 {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return err
		}
	}
	return nil
}

// skip reads n bytes of the body and keeps the last of them.
func (c *client) skip(n int) error {
	for n > 0 {
		if _, err := c.r.Peek(1); err != nil {
			return err
		}
		b, _ := c.r.Peek(min(n, c.r.Buffered())) // they are there
		last := b[max(0, len(b)-tailSize):]
		c.tail = append(c.tail, last...)
		if len(c.tail) > tailSize {
			c.tail = append(c.tail[:0], c.tail[len(c.tail)-tailSize:]...)
		}
		n -= len(b)
		if _, err := c.r.Discard(len(b)); err != nil {
			return err
		}
	}
	return nil
}
