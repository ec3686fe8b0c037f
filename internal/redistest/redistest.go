// Package redistest starts a real Redis for tests, on a Unix socket. Only tests import it.
package redistest

import (
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"bardo.money/gateway/internal/proctest"
)

// Server is a Redis.
type Server struct {
	dir   string
	flags []string
	cmd   *exec.Cmd
	out   proctest.Output
}

// Start starts a server with further flags, and stops it when the test ends.
func Start(tb testing.TB, flags ...string) *Server {
	tb.Helper()
	s := &Server{dir: proctest.Dir(tb), flags: flags}
	s.Run(tb)
	tb.Cleanup(s.Kill)
	return s
}

// program returns the path at which `make redis` installs the server.
func program(tb testing.TB) string {
	tb.Helper()
	if bin := os.Getenv("REDIS_BIN"); bin != "" {
		return bin
	}
	root, err := proctest.Root()
	if err != nil {
		tb.Fatal(err)
	}
	bin := filepath.Join(root, ".tools", "redis", "redis-server")
	if _, err := os.Stat(bin); err != nil {
		tb.Fatalf("no Redis to test with (%v): run `make redis`, or name one in REDIS_BIN", err)
	}
	return bin
}

// Run starts a killed server again, empty.
func (s *Server) Run(tb testing.TB) {
	tb.Helper()
	args := append([]string{"--port", "0", "--unixsocket", s.Socket(), "--save", "", "--appendonly", "no", "--dir", s.dir, "--logfile", ""}, s.flags...)
	s.cmd = exec.CommandContext(context.WithoutCancel(tb.Context()), program(tb), args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	late := time.Now().Add(20 * time.Second)
	for {
		var d net.Dialer
		if c, err := d.DialContext(tb.Context(), "unix", s.Socket()); err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(late) {
			tb.Fatalf("Redis does not start: %s", s.out.String())
		}
		<-time.After(10 * time.Millisecond)
	}
}

// Kill kills the server; its data is lost.
func (s *Server) Kill() {
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.Remove(s.Socket())
}

// Hang suspends the server until Resume.
func (s *Server) Hang() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends Hang.
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// Socket returns the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "redis.sock") }

// URL returns the server's URL.
func (s *Server) URL() *url.URL { return &url.URL{Scheme: "unix", Path: s.Socket()} }

// Do sends a command.
func (s *Server) Do(tb testing.TB, command string, args ...any) any {
	tb.Helper()
	c, err := redis.Dial("unix", s.Socket())
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	out, err := c.Do(command, args...)
	if err != nil {
		tb.Fatalf("%s %v: %v", command, args, err)
	}
	return out
}

// Dump returns the server's content: each key's name, and its value in serialized form.
func (s *Server) Dump(tb testing.TB) string {
	tb.Helper()
	keys, err := redis.Strings(s.Do(tb, "KEYS", "*"), nil)
	if err != nil {
		tb.Fatal(err)
	}
	read := map[string][]any{"string": {"GET"}, "hash": {"HGETALL"}, "zset": {"ZRANGE", 0, -1, "WITHSCORES"}, "set": {"SMEMBERS"}, "list": {"LRANGE", 0, -1}}
	var b strings.Builder
	for _, k := range keys {
		kind, err := redis.String(s.Do(tb, "TYPE", k), nil)
		if err != nil {
			tb.Fatal(err)
		}
		how := read[kind]
		if how == nil { // it has expired in the meantime
			continue
		}
		name, _ := how[0].(string)
		b.WriteString(k + "\n")
		write(&b, s.Do(tb, name, append([]any{k}, how[1:]...)...))
	}
	return b.String()
}

func write(b *strings.Builder, v any) {
	switch v := v.(type) {
	case []byte:
		b.Write(v)
		b.WriteByte('\n')
	case []any:
		for _, e := range v {
			write(b, e)
		}
	}
}
