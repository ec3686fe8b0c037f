package state

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// The schemes of an endpoint.
const (
	HTTP  = "http"
	HTTPS = "https"
	Unix  = "unix"
)

// Endpoint is a network address of a provider: a host and port, or a Unix socket.
type Endpoint struct {
	Scheme string // HTTP, HTTPS or Unix
	Host   string // name or IP address, without brackets
	Port   uint16
	Pipe   string // absolute path of the socket when the scheme is Unix
}

// ParseEndpoint reads the network part of a base URL: "https://api.example/v1", "http://[::1]:8000", "unix:///run/x.sock".
func ParseEndpoint(base string) (Endpoint, error) {
	u, err := url.Parse(base)
	if err != nil {
		return Endpoint{}, fmt.Errorf("endpoint %q is not a URL", base)
	}
	e := Endpoint{Scheme: u.Scheme, Host: u.Hostname()}
	switch {
	case u.Scheme == Unix:
		e = Endpoint{Scheme: Unix, Pipe: u.Path}
	case u.Port() != "":
		port, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil {
			return Endpoint{}, fmt.Errorf("endpoint %q has no valid port", base)
		}
		e.Port = uint16(port)
	case u.Scheme == HTTPS:
		e.Port = 443
	default:
		e.Port = 80
	}
	if err := e.validate(); err != nil {
		return Endpoint{}, fmt.Errorf("endpoint %q: %w", base, err)
	}
	return e, nil
}

// IsName reports whether the host must be looked up.
func (e Endpoint) IsName() bool {
	if e.Scheme == Unix {
		return false
	}
	_, err := netip.ParseAddr(e.Host)
	return err != nil
}

func (e Endpoint) validate() error {
	switch e.Scheme {
	case Unix:
		return validatePipe(e.Pipe)
	case HTTP, HTTPS:
	default:
		return fmt.Errorf("scheme %q, expected http, https or unix", e.Scheme)
	}
	switch {
	case !validHost(e.Host):
		return fmt.Errorf("host %q is neither a name nor an IP address", e.Host)
	case e.Port == 0:
		return errors.New("port 0, expected 1 to 65535")
	}
	return nil
}

// maxPipe is the longest path that fits into the kernel's socket address, with its terminating zero.
const maxPipe = 107

func validatePipe(path string) error {
	switch {
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("socket %q, expected an absolute path", path)
	case len(path) > maxPipe:
		return fmt.Errorf("socket path %q is longer than %d bytes", path, maxPipe)
	case strings.ContainsRune(path, 0):
		return fmt.Errorf("socket path %q holds a zero byte", path)
	}
	return nil
}

func validHost(h string) bool {
	if _, err := netip.ParseAddr(h); err == nil {
		return true
	}
	if h == "" || len(h) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(h, "."), ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, nameBytes) != "" {
			return false
		}
	}
	return true
}

const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// Address is where a server listens or is reached: an IP address and port, or a Unix socket.
type Address struct {
	IP   netip.Addr
	Port uint16
	Name string // a host name instead of IP; only for servers that Envoy calls
	Pipe string
}

// ParseAddress reads "unix:///path", "/path", or "host:port". The host "localhost" becomes 127.0.0.1, and an empty host every interface; other names
// are kept.
func ParseAddress(s string) (Address, error) {
	if path, ok := strings.CutPrefix(s, "unix://"); ok || strings.HasPrefix(s, "/") {
		return Address{Pipe: path}, validatePipe(path)
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return Address{}, fmt.Errorf("address %q, expected host:port or unix:///path", s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Address{}, fmt.Errorf("address %q has no valid port", s)
	}
	a := Address{Port: uint16(n)}
	switch host {
	case "":
		a.IP = netip.IPv4Unspecified()
	case "localhost":
		a.IP = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	default:
		if a.IP, err = netip.ParseAddr(host); err == nil {
			return a, nil
		}
		if !validHost(host) {
			return Address{}, fmt.Errorf("address %q has no valid host", s)
		}
		a.Name = host
	}
	return a, nil
}
