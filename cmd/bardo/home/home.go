// Package home is $BARDO_HOME, the gateway's state directory: its lock, the addresses of a running gateway, its certificate, the ledger, and the secret for
// hashing API keys.
package home

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/policy/auth"
)

// Private reports whether a mode gives other users no access.
func Private(m fs.FileMode) bool { return m.Perm()&0o077 == 0 }

// Dir is $BARDO_HOME, the state directory.
type Dir string

// Open returns $BARDO_HOME, or ~/.bardo, and creates it if it is missing.
func Open() (Dir, error) {
	dir := os.Getenv("BARDO_HOME")
	if dir == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("set BARDO_HOME: %w", err)
		}
		dir = filepath.Join(user, ".bardo")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil { //nolint:gosec // the operator names it
		return "", stateError(err)
	}
	return Dir(dir), nil
}

// stateError is the error of a state directory that cannot be used.
func stateError(err error) error {
	return cli.Advise(fmt.Errorf("state directory: %w", err), "set BARDO_HOME to a directory that this user may write to")
}

// notWritable reports whether a file cannot be written because of its mode, its owner or its file system.
func notWritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// Path is the path of a file in the state directory.
func (h Dir) Path(name string) string { return filepath.Join(string(h), name) }

// Lock ensures that only one gateway runs on this state directory. The lock is released when the process exits.
func (h Dir) Lock() (unlock func(), err error) {
	return h.LockAs("lock", "a gateway already runs", h.runningPID())
}

// LockAs ensures that only one process holds a lock file.
func (h Dir) LockAs(name, taken, by string) (unlock func(), err error) {
	f, err := os.OpenFile(h.Path(name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, stateError(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s on %s%s: stop it, or set BARDO_HOME to another directory", taken, h, by)
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { _ = f.Close() }, nil
}

func (h Dir) runningPID() string {
	if r, err := h.Running(); err == nil {
		return fmt.Sprintf(" (pid %d)", r.PID)
	}
	return ""
}

// PepperPath is the path of the secret that a ledger's key hashes depend on: beside the ledger, so that gateways that share the ledger share it.
func PepperPath(ledger string) string {
	if target, err := filepath.EvalSymlinks(ledger); err == nil {
		ledger = target
	}
	return filepath.Join(filepath.Dir(ledger), "pepper")
}

// Pepper reads the secret that a ledger's key hashes depend on, and creates it on first use. If several gateways start at the same time, one of them creates
// it.
func (h Dir) Pepper(ledger string) (*auth.Pepper, error) {
	path := PepperPath(ledger)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if b, err = h.newPepper(); err != nil {
			return nil, err
		}
		b, err = createOnce(path, b)
	}
	if err != nil {
		return nil, err
	}
	p, err := auth.ParsePepper(b)
	if err != nil {
		return nil, cli.Advise(fmt.Errorf("%s: %w", path, err), "restore the file from a backup")
	}
	return p, nil
}

// hasPepper reports whether a ledger's pepper exists, or one that newPepper will use.
func (h Dir) hasPepper(ledger string) bool {
	for _, path := range []string{PepperPath(ledger), h.Path("pepper")} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// newPepper returns the pepper in the state directory, where earlier versions kept it, else a new one.
func (h Dir) newPepper() ([]byte, error) {
	b, err := os.ReadFile(h.Path("pepper"))
	if errors.Is(err, fs.ErrNotExist) {
		return auth.NewPepper(rand.Reader)
	}
	return b, err
}

// SharedSecret is the master secret of the egress listeners of a split gateway. It is created on first use.
func (h Dir) SharedSecret() (string, error) {
	path := h.Path("egress-secret")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = createOnce(path, []byte(rand.Text()))
	}
	return strings.TrimSpace(string(b)), err
}

// adminTokenFile is the file of the admin API's token.
const adminTokenFile = "admin-token"

// AdminTokenPath is the file that AdminToken reads.
func (h Dir) AdminTokenPath() string { return h.Path(adminTokenFile) }

// AdminToken is the token of the admin API. It is created on first use, in a file that only the gateway's user may read.
func (h Dir) AdminToken() (string, error) {
	path := h.AdminTokenPath()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = createOnce(path, []byte("bardo_admin_"+rand.Text()+rand.Text()+"\n"))
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	switch {
	case !Private(info.Mode()):
		return "", cli.Advise(fmt.Errorf("%s has mode %04o: others can read the admin token", path, info.Mode().Perm()), "chmod 600 it, or remove it for a new one")
	case len(token) < minTokenLen:
		return "", cli.Advise(fmt.Errorf("%s has fewer than %d characters", path, minTokenLen), "remove it for a new one")
	}
	return token, nil
}

// minTokenLen is the minimum length, in bytes, against guessing.
const minTokenLen = 32

// createOnce creates a file of mode 0600; if it exists already, its content is returned.
func createOnce(path string, b []byte) ([]byte, error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, werr := tmp.Write(b)
	if err := errors.Join(werr, tmp.Sync(), tmp.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}

// RunInfo is run.json: the addresses of a running gateway.
type RunInfo struct {
	PID    int    `json:"pid"`
	HTTP   string `json:"http"`
	HTTPS  string `json:"https"`
	Admin  string `json:"admin"`
	Config string `json:"config"` // "": built-in
	// Control is the socket for this program's own commands.
	Control string `json:"control"`
	XDS     string `json:"xds,omitempty"` // of a control plane that runs alone
}

// The files with the addresses of a gateway, and of a control plane that runs alone.
const (
	RunFile   = "run.json"
	PlaneFile = "xds.json"
)

// Running reads run.json. Its gateway may have been killed: Answering checks that.
func (h Dir) Running() (RunInfo, error) { return h.runningAs(RunFile) }

func (h Dir) runningAs(file string) (RunInfo, error) {
	var r RunInfo
	b, err := os.ReadFile(h.Path(file))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r)
}

// Announce writes run.json, or the file of a control plane.
func (h Dir) Announce(file string, r RunInfo) (remove func(), err error) {
	return func() { _ = os.Remove(h.Path(file)) }, h.WriteFile(file, r)
}

// WriteFile writes v as JSON to a file of the state directory, atomically.
func (h Dir) WriteFile(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := h.Path(name + ".new")
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, h.Path(name))
}

// MaxSocketPath is the maximum length of a socket's directory, given the longest file name in a run directory.
const MaxSocketPath = 108 - 20

// RunDir creates a private directory for sockets: in the state directory if its path is short enough for a socket.
func (h Dir) RunDir() (dir string, remove func(), err error) {
	dir = h.Path("run")
	if len(dir) > MaxSocketPath {
		if dir, err = os.MkdirTemp("", "bardo-"); err != nil {
			return "", nil, err
		}
		return dir, func() { _ = os.RemoveAll(dir) }, nil
	}
	if err := os.RemoveAll(dir); err != nil { // left by a killed gateway; this process holds the lock
		return "", nil, err
	}
	return dir, func() { _ = os.RemoveAll(dir) }, os.Mkdir(dir, 0o700)
}

// EnvoyBinary finds Envoy: $ENVOY_BIN, the tools beside this program, the PATH, or the tools in the working directory. Anybody may own the working directory,
// so it comes last, and relative entries of PATH are ignored.
func EnvoyBinary() (string, error) {
	if p := os.Getenv("ENVOY_BIN"); p != "" {
		found, err := exec.LookPath(p)
		if err != nil {
			return "", cli.Advise(fmt.Errorf("ENVOY_BIN names no program: %w", err), "set it to an Envoy binary, or unset it and run `make tools`")
		}
		return found, nil
	}
	const installed = ".tools/envoy/envoy"
	var places []string
	if self, err := os.Executable(); err == nil {
		places = append(places, filepath.Join(filepath.Dir(self), "..", installed))
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) {
			places = append(places, filepath.Join(dir, "envoy"))
		}
	}
	places = append(places, installed)
	for _, p := range places {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 { //nolint:gosec // the operator's own PATH
			return filepath.Abs(p)
		}
	}
	return "", cli.Advise(errors.New("no Envoy binary found beside this program, in .tools/envoy or on the PATH"), "run `make tools`, or set ENVOY_BIN to an Envoy binary")
}

// Answering returns the addresses of the gateway that runs on this state directory; ok is false if none does. It connects to the gateway's socket, since a
// killed gateway leaves run.json behind.
func (h Dir) Answering(ctx context.Context) (r RunInfo, ok bool) { return h.AnsweringAs(ctx, RunFile) }

// AnsweringAs is Answering for the process that wrote a file: RunFile or PlaneFile.
func (h Dir) AnsweringAs(ctx context.Context, file string) (r RunInfo, ok bool) {
	r, err := h.runningAs(file)
	if err != nil {
		return RunInfo{}, false
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", r.Control)
	if err != nil {
		return RunInfo{}, false
	}
	_ = conn.Close()
	return r, true
}

// Outgoing is the store of payments signed for other servers, in the state directory.
const Outgoing = "outgoing.db"

// Attestations is the store of tokens of attested answers, in the state directory.
const Attestations = "attestations.db"
