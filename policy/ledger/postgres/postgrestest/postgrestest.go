// Package postgrestest runs a PostgreSQL server for tests: the one that `make postgres` installs, on a Unix socket, with a database for each test. The
// server ends with the test's process. Only tests and the programs below e2e import it.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/policy/ledger/postgres"
)

// Server is a PostgreSQL server.
type Server struct {
	dir       string // of its socket, its data and its log
	bin       string
	databases atomic.Int64
	log       proctest.Output

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
}

// nobody is the server's user if tests run as root, as which PostgreSQL refuses to run.
const nobody = 65534

// running is the server that all tests of this process share, once there is one.
var running atomic.Pointer[Server]

var shared = sync.OnceValues(func() (*Server, error) {
	s, err := start()
	running.Store(s)
	return s, err
})

// URL returns the URL of a new database on a server that all tests of this process share.
func URL(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s.Database(t)
}

// Copies makes databases that are copies of one, on the server that all tests of this process share. They are made ahead of their use.
type Copies struct {
	Fill func(url string) error // fills the database that is copied
	Each string                 // a statement that is run in each copy

	once  sync.Once
	err   error
	ready chan copied
}

// copied is a new database, or the error of its creation.
type copied struct {
	name string
	err  error
}

// URL returns the URL of a new copy.
func (c *Copies) URL(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	c.once.Do(func() { c.err = c.start(s) })
	if c.err != nil {
		t.Fatal(c.err)
	}
	next := <-c.ready
	if next.err != nil {
		t.Fatal(next.err)
	}
	return s.url(next.name)
}

// start fills the database, and copies it until the server ends.
func (c *Copies) start(s *Server) error {
	const original = "original"
	if err := errors.Join(s.do(context.Background(), "CREATE DATABASE "+original), c.Fill(s.url(original))); err != nil {
		return err
	}
	c.ready = make(chan copied, 1)
	ended := s.ended
	go func() {
		for {
			next := c.copyOf(s, original)
			select {
			case c.ready <- next:
			case <-ended:
				return
			}
		}
	}()
	return nil
}

// copyOf copies a database. To copy its files takes a third of the time of the default, which writes its pages to the log.
func (c *Copies) copyOf(s *Server, original string) copied {
	name := s.nextName()
	err := s.do(context.Background(), "CREATE DATABASE "+name+" TEMPLATE "+original+" STRATEGY FILE_COPY")
	if err == nil && c.Each != "" {
		err = s.doIn(context.Background(), name, c.Each)
	}
	return copied{name, err}
}

// StopShared ends the shared server, if there is one, and removes its files. TestMain calls it.
func StopShared() {
	if s := running.Load(); s != nil {
		_ = s.stop()
	}
}

// Start starts a server for one test, which may kill it.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the database wrote:\n%s", s.log.String())
		}
	})
	return s
}

// start makes a server's files and starts it.
func start() (s *Server, err error) {
	root, err := proctest.Root()
	if err != nil {
		return nil, err
	}
	s = &Server{bin: filepath.Join(root, ".tools", "postgres", "bin")}
	if _, err := os.Stat(filepath.Join(s.bin, "postgres")); err != nil {
		return nil, fmt.Errorf("no PostgreSQL server, which `make postgres` installs: %w", err)
	}
	if s.dir, err = os.MkdirTemp(parent(), "bardo-pg"); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		if err := os.Chown(s.dir, nobody, nobody); err != nil {
			return nil, err
		}
	}
	if err := s.reachable(); err != nil {
		return nil, err
	}
	if err := s.initialise(); err != nil {
		return nil, err
	}
	return s, s.run()
}

// parent is the directory of the servers' files: in memory, where a sync takes no time, if there is space for many servers (a container often has 64 MB), else
// that of temporary files. The ledger refuses a server that does not sync.
func parent() string {
	const (
		memory = "/dev/shm"
		room   = 2 << 30
	)
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err == nil && fs.Bavail*uint64(fs.Bsize) >= room {
		return memory
	}
	return os.TempDir()
}

// reachable copies the programs if the server's user could not read them, for instance in root's home directory.
func (s *Server) reachable() error {
	if os.Getuid() != 0 {
		return nil
	}
	program, err := filepath.EvalSymlinks(filepath.Join(s.bin, "postgres"))
	if err != nil {
		return err
	}
	native := filepath.Dir(filepath.Dir(program))
	for dir := native; ; dir = filepath.Dir(dir) {
		st, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if st.Mode().Perm()&1 == 0 {
			break
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
	s.bin = filepath.Join(s.dir, "native", "bin")
	out, err := exec.CommandContext(context.Background(), "cp", "-a", native, filepath.Join(s.dir, "native")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) initialise() error {
	cmd := s.command("initdb", "--pgdata", s.data(), "--username", "bardo", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	var out proctest.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	err := proctest.Start(cmd, syscall.SIGKILL)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out.String())
	}
	return nil
}

// command returns a command that runs one of PostgreSQL's programs.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"LANG=C", "PATH=" + os.Getenv("PATH"), "TZ=UTC"}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

// run starts the server and waits until it serves.
func (s *Server) run() error {
	cmd := s.command("postgres", "-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=300", "-c", "shared_buffers=32MB", "-c", "timezone=UTC",
		"-c", "wal_level=minimal", "-c", "max_wal_senders=0", "-c", "max_wal_size=64MB", "-c", "autovacuum_naptime=5s",
		"-c", "dynamic_shared_memory_type=mmap") // in its own directory: nothing is left of a server that was killed
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	if err := proctest.Start(cmd, syscall.SIGQUIT); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	s.mu.Lock()
	s.cmd, s.ended = cmd, ended
	s.mu.Unlock()
	return s.await()
}

func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), polltest.Patience)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		err := s.do(ctx, "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-retry.C:
		case <-s.ended:
			return fmt.Errorf("the database ended: %s", s.log.String())
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("the database does not serve: %s", s.log.String()))
		}
	}
}

// do runs a statement in the server's own database.
func (s *Server) do(ctx context.Context, statement string) error {
	return s.doIn(ctx, "postgres", statement)
}

func (s *Server) doIn(ctx context.Context, database, statement string) error {
	db, err := postgres.Connect(ctx, s.url(database), false)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement)
	return errors.Join(err, db.Close())
}

func (s *Server) url(database string) string {
	return "postgres://bardo@/" + database + "?host=" + url.QueryEscape(s.dir)
}

// nextName is the name of the next database.
func (s *Server) nextName() string { return "t" + strconv.FormatInt(s.databases.Add(1), 10) }

// Database creates a database and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := s.nextName()
	if err := s.do(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return s.url(name)
}

// Kill kills the server: what it has not written is lost.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.signal(syscall.SIGKILL)
}

// Restart starts the server again.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	polltest.Until(t, "the database serves again", func() bool { return s.run() == nil }) // it waits for the last process of the one before
}

// Hang stops the server's processes until Resume: it accepts connections and does not answer.
func (s *Server) Hang() { s.each(syscall.SIGSTOP) }

// Resume ends Hang.
func (s *Server) Resume() { s.each(syscall.SIGCONT) }

// each sends a signal to all processes of the server, each of which leads a process group. ended is closed once the main process has ended; nil if the server
// does not run.
func (s *Server) each(sig syscall.Signal) (ended <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	pid := strconv.Itoa(s.cmd.Process.Pid)
	children, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	_ = s.cmd.Process.Signal(sig)
	for child := range strings.FieldsSeq(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, sig)
		}
	}
	return s.ended
}

// signal ends all processes of the server and waits for that.
func (s *Server) signal(sig syscall.Signal) {
	if sig == syscall.SIGKILL {
		if ended := s.each(sig); ended != nil {
			<-ended
		}
		return
	}
	s.mu.Lock()
	cmd, ended := s.cmd, s.ended
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(sig)
	<-ended
}

func (s *Server) stop() error {
	s.signal(syscall.SIGQUIT)
	err := os.RemoveAll(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
