package xds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"

	"bardo.money/gateway/xds/state"
)

// Listen opens the listener of a gRPC server for Envoy: "unix:///path", "/path" or "host:port". A stale socket file is replaced; a new one has
// mode 0600, and its directory should be private.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	a, err := state.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	var c net.ListenConfig
	if a.Pipe == "" {
		host := a.Name
		if a.IP.IsValid() {
			host = a.IP.String()
		}
		return c.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(a.Port))))
	}
	if err := removeSocket(a.Pipe); err != nil {
		return nil, err
	}
	l, err := c.Listen(ctx, "unix", a.Pipe)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(a.Pipe, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect socket: %w", err), l.Close())
	}
	return l, nil
}

func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("replace socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("listen on %s: it exists and is not a socket", path)
	}
	return os.Remove(path)
}
