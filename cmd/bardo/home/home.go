// Package home is $BARDO_HOME, the gateway's state on disk: its lock, where a running gateway listens, its certificate, the ledger, and the
// secret that API keys are hashed with.
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

// Private is a mode that shows nothing to other users.
func Private(m fs.FileMode) bool { return m.Perm()&0o077 == 0 }

// Dir is $BARDO_HOME: the gateway's state on disk.
type Dir string

// Open finds $BARDO_HOME, or ~/.bardo, and makes it if it is missing.
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

// stateError is that of a state directory that cannot be used.
func stateError(err error) error {
	return cli.Advise(fmt.Errorf("state directory: %w", err), "set BARDO_HOME to a directory that this user may write to")
}

// notWritable reports whether a file cannot be written because of its mode, its owner or its file system.
func notWritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// Path is where a file of the state lies.
func (h Dir) Path(name string) string { return filepath.Join(string(h), name) }

// Lock makes sure that one gateway at a time runs on this state. The lock ends with the process, however that ends.
func (h Dir) Lock() (unlock func(), err error) {
	return h.LockAs("lock", "a gateway already runs", h.runningPID())
}

// LockAs makes sure that one program at a time holds a lock file.
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

// PepperPath is where the secret lies that the key hashes of a ledger depend on: beside the ledger, so that gateways that share
// one share it too.
func PepperPath(ledger string) string {
	if target, err := filepath.EvalSymlinks(ledger); err == nil {
		ledger = target
	}
	return filepath.Join(filepath.Dir(ledger), "pepper")
}

// Pepper reads the secret that the key hashes of a ledger depend on, and makes it on first use. Of several gateways that start at the
// same time, one makes it.
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

// hasPepper reports whether a ledger's pepper is there, or one that will become it.
func (h Dir) hasPepper(ledger string) bool {
	for _, path := range []string{PepperPath(ledger), h.Path("pepper")} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// newPepper is the one that lies in the state directory, where it was kept before wherever the ledger lay; else a new one.
func (h Dir) newPepper() ([]byte, error) {
	b, err := os.ReadFile(h.Path("pepper"))
	if errors.Is(err, fs.ErrNotExist) {
		return auth.NewPepper(rand.Reader)
	}
	return b, err
}

// SharedSecret is what calls through the egress listener must carry where the parts of the gateway run apart.
func (h Dir) SharedSecret() (string, error) {
	path := h.Path("egress-secret")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = createOnce(path, []byte(rand.Text()))
	}
	return strings.TrimSpace(string(b)), err
}

// adminTokenFile is where the admin API's token lies.
const adminTokenFile = "admin-token"

// AdminTokenPath is the file that AdminToken reads.
func (h Dir) AdminTokenPath() string { return h.Path(adminTokenFile) }

// AdminToken is what requests to the admin API must carry. It is made on first use, in a file that only the gateway's user may read.
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
	case len(token) < shortestToken:
		return "", cli.Advise(fmt.Errorf("%s has fewer than %d characters", path, shortestToken), "remove it for a new one")
	}
	return token, nil
}

// shortestToken is the length in bytes below which a token could be guessed.
const shortestToken = 32

// createOnce writes a new file of mode 0600; if another process was faster, it returns that one's content.
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

// RunInfo is run.json: where a running gateway listens.
type RunInfo struct {
	PID    int    `json:"pid"`
	HTTP   string `json:"http"`
	HTTPS  string `json:"https"`
	Admin  string `json:"admin"`
	Config string `json:"config"` // "" is the built-in one
	// Control is the socket of this program's own commands.
	Control string `json:"control"`
	XDS     string `json:"xds,omitempty"` // of a control plane that runs alone
}

// The files that say where a gateway, and a control plane that runs alone, listen.
const (
	RunFile   = "run.json"
	PlaneFile = "xds.json"
)

// Running reads run.json. The gateway that wrote it may have been killed: Answering tries it.
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
func (h Dir) Announce(file string, r RunInfo) (withdraw func(), err error) {
	return func() { _ = os.Remove(h.Path(file)) }, h.Keep(file, r)
}

// Keep writes a file of the state whole: a reader sees all of it or none.
func (h Dir) Keep(name string, v any) error {
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

// MaxSocketPath is what fits a Unix socket's address, less the longest file name used in a run directory.
const MaxSocketPath = 108 - 20

// RunDir makes a private directory for sockets: below the state if its path is short enough for a socket's address.
func (h Dir) RunDir() (dir string, remove func(), err error) {
	dir = h.Path("run")
	if len(dir) > MaxSocketPath {
		if dir, err = os.MkdirTemp("", "bardo-"); err != nil {
			return "", nil, err
		}
		return dir, func() { _ = os.RemoveAll(dir) }, nil
	}
	if err := os.RemoveAll(dir); err != nil { // what a killed gateway left; the lock is ours
		return "", nil, err
	}
	return dir, func() { _ = os.RemoveAll(dir) }, os.Mkdir(dir, 0o700)
}

// EnvoyBinary finds Envoy: $ENVOY_BIN, the tools beside this program, the PATH's, or those below the working directory. What lies in the
// working directory may be anybody's, so it comes last, and a PATH that names it is not followed.
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

// Answering says where the gateway on this state listens; ok is false when none does. A gateway that was killed leaves
// run.json behind, so its socket is tried.
func (h Dir) Answering(ctx context.Context) (r RunInfo, ok bool) { return h.AnsweringAs(ctx, RunFile) }

// AnsweringAs is Answering for the process that announced itself in a file: RunFile or PlaneFile.
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

// Outgoing is the file of the payments that were signed for others, in the state directory.
const Outgoing = "outgoing.db"

// Attestations is the file of the tokens of attested answers, in the state directory.
const Attestations = "attestations.db"
