package later

import (
	"bytes"
	"errors"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/header"
)

// Client is the client of a run. It only stores the answer.
type Client struct {
	Body []byte        // of the request
	Got  *stream.Reply // the answer; nil until there is one
}

var _ stream.Client = (*Client)(nil)

// errNoClient is returned for operations that need a connected client.
var errNoClient = errors.New("nobody waits for the answer to a deferred request")

// RequestBody implements stream.Client.
func (c *Client) RequestBody(u stream.RequestBody) error { return u.Add(c.Body) }

// Reply implements stream.Client.
func (c *Client) Reply(r stream.Reply) error {
	r.Body = bytes.Clone(r.Body)
	c.Got = &r
	return nil
}

// Forward implements stream.Client.
func (*Client) Forward(stream.Forward) error { return errNoClient }

// Next implements stream.Client.
func (*Client) Next() (stream.Piece, error) { return stream.Piece{}, errNoClient }

// Answer implements stream.Client.
func (*Client) Answer(stream.Reply, []string) error { return errNoClient }

// StreamHead implements stream.Client.
func (*Client) StreamHead(int, header.List) error { return errNoClient }

// StreamBody implements stream.Client.
func (*Client) StreamBody([]byte, bool) error { return errNoClient }

// StreamTrailers implements stream.Client.
func (*Client) StreamTrailers(header.List) error { return errNoClient }

// Leave implements stream.Client.
func (*Client) Leave(f func() error) error { return f() }

// Caller implements stream.Client.
func (*Client) Caller() stream.Caller { return nil }

// Turn implements stream.Client.
func (*Client) Turn() {}
