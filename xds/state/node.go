package state

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Node has the settings of one Envoy and its sidecar. The Envoy sends them to the control plane when it connects.
type Node struct {
	ID             string // unique among the gateway's Envoys; letters, digits, dots and dashes
	HTTP, HTTPS    string // host:port of the client listeners; "" for none, port 0 for any free one
	EgressSocket   string // path of the Unix socket through which its sidecar calls providers
	DemoSocket     string // path of the Unix socket of its sidecar's demo provider; "" for none
	RealtimeSocket string // path of the Unix socket of its sidecar's server of realtime sessions; "" for none
	ExtProc        string // address of its sidecar: unix:///path or host:port
	ExtProcServer  string // name in the sidecar's certificate; "" for clear text
	SecretDir      string // directory of the files that name its own certificate; needed with ExtProcServer
}

// At returns the state of one node's Envoy: the shared state with its local settings. secret must be in calls through its egress listener.
func (s State) At(n Node, secret string) State {
	s.HTTP, s.HTTPS = n.HTTP, n.HTTPS
	s.EgressSocket, s.EgressSecret = n.EgressSocket, secret
	s.RealtimeSocket = n.RealtimeSocket
	s.ExtProc = Peer{Address: n.ExtProc}
	if n.ExtProcServer != "" {
		s.ExtProc.TLS = &TLS{SecretDir: n.SecretDir, ServerName: n.ExtProcServer}
	}
	providers := make([]Provider, len(s.Providers))
	for i, p := range s.Providers {
		if p.Demo {
			p.Endpoints = []Endpoint{{Scheme: Unix, Pipe: n.DemoSocket}}
		}
		providers[i] = p
	}
	s.Providers = providers
	return s
}

// maxNodeID is the longest label of a DNS name: node names are in certificates.
const maxNodeID = 63

// ValidateNodeID returns why a name cannot be a node's.
func ValidateNodeID(id string) error {
	if id == "" || len(id) > maxNodeID || strings.Trim(id, nameBytes+".") != "" {
		return fmt.Errorf("name %.80q, expected 1 to %d letters, digits, dots and dashes", id, maxNodeID)
	}
	return nil
}

// Validate returns all errors of a node's local settings. Values from the node are quoted and shortened.
func (n Node) Validate() error {
	if err := ValidateNodeID(n.ID); err != nil {
		return err
	}
	var errs []error
	fail := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	for _, l := range []struct{ what, at string }{{"http listener", n.HTTP}, {"https listener", n.HTTPS}} {
		if l.at != "" {
			fail(l.what, validateListen(l.at))
		}
	}
	fail("egress listener", validatePipe(n.EgressSocket))
	if n.DemoSocket != "" {
		fail("demo provider", validatePipe(n.DemoSocket))
	}
	if n.RealtimeSocket != "" {
		fail("realtime server", validatePipe(n.RealtimeSocket))
	}
	_, err := ParseAddress(n.ExtProc)
	fail("ext_proc server", err)
	if n.ExtProcServer != "" {
		fail("ext_proc server: tls", validateSecretDir(n.SecretDir, n.ExtProcServer))
	}
	return errors.Join(errs...)
}

// maxPath is the longest path that a node may send.
const maxPath = 1024

func validateSecretDir(dir, serverName string) error {
	if !filepath.IsAbs(dir) || len(dir) > maxPath || strings.ContainsRune(dir, 0) {
		return fmt.Errorf("directory %.80q, expected an absolute path", dir)
	}
	if !validHost(serverName) {
		return fmt.Errorf("server name %.80q is no host's", serverName)
	}
	return nil
}
