// Package deploy runs what docs/deploy and docker-compose.yaml say, without containers and without systemd: their commands, with their
// configurations and variables, on this machine. A directory stands for each machine's root, and free ports for the ones that they name.
package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
)

func TestMain(m *testing.M) { os.Exit(gateway.Main(m)) }

// read is a file of the repository.
func read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// machine is a directory that stands for a machine: what is said of absolute paths and of ports means what is here.
type machine struct {
	root   string
	places []string // what is said, what is meant, …; the first that fits counts
}

// newMachine has the programs in /usr/local/bin. Its path is short, for it will hold sockets.
func newMachine(t testing.TB) *machine {
	t.Helper()
	root := proctest.Dir(t)
	m := &machine{root: root}
	for _, dir := range []string{"/usr/local/bin", "/run/bardo", "/var/lib/bardo", "/etc/bardo"} {
		if err := os.MkdirAll(root+dir, 0o700); err != nil {
			t.Fatal(err)
		}
		m.places = append(m.places, dir, root+dir)
	}
	bardo, envoy := gateway.Programs(t)
	for name, path := range map[string]string{"bardo": bardo, "envoy": envoy} {
		if err := os.Symlink(path, root+"/usr/local/bin/"+name); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// means makes the machine read one text as another, before any that it was told earlier.
func (m *machine) means(said, meant string) { m.places = append([]string{said, meant}, m.places...) }

// here is a text with this machine's places.
func (m *machine) here(s string) string { return strings.NewReplacer(m.places...).Replace(s) }

// put writes a file as it is said to be.
func (m *machine) put(t testing.TB, path, content string, mode os.FileMode) {
	t.Helper()
	m.putRaw(t, path, m.here(content), mode)
}

func (m *machine) putRaw(t testing.TB, path, content string, mode os.FileMode) {
	t.Helper()
	at := m.root + path
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// command is one that was said, with variables NAME=value, as this machine runs it.
func (m *machine) command(ctx context.Context, argv, variables []string) *exec.Cmd {
	local := make([]string, len(argv))
	for i, a := range argv {
		local[i] = m.here(a)
	}
	env := []string{"PATH=" + m.root + "/usr/local/bin:" + os.Getenv("PATH"), "HOME=" + m.root, "TMPDIR=" + os.TempDir()}
	for _, v := range variables {
		env = append(env, m.here(v))
	}
	if !strings.Contains(local[0], "/") { // found on the machine's PATH, not on ours
		if at := m.root + "/usr/local/bin/" + local[0]; exists(at) {
			local[0] = at
		}
	}
	cmd := exec.CommandContext(ctx, local[0], local[1:]...)
	cmd.Env, cmd.Dir = env, m.root
	return cmd
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// run runs a command to its end, which must be a good one.
func (m *machine) run(t testing.TB, argv, variables []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := m.command(ctx, argv, variables).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
}

// process is a program that runs.
type process struct {
	name   string
	cmd    *exec.Cmd
	mu     sync.Mutex
	out    bytes.Buffer
	exited chan struct{}
}

// Write keeps what the program writes.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// start runs a program until it is stopped, or the test ends.
func (m *machine) start(t testing.TB, name string, argv, variables []string) *process {
	t.Helper()
	p := &process{name: name, cmd: m.command(context.WithoutCancel(t.Context()), argv, variables), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := proctest.Start(p.cmd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // how it ended is in its state
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may be gone already
		<-p.exited
		if t.Failed() {
			t.Logf("%s wrote:\n%s", name, p.log())
		}
	})
	return p
}

// stop ends a program with SIGTERM, as containers and units end. Its status must be 0.
func (p *process) stop(t testing.TB, within time.Duration) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
	select {
	case <-p.exited:
	case <-time.After(within):
		t.Errorf("%s still runs %s after SIGTERM", p.name, within)
		return
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("%s ended with %s", p.name, p.cmd.ProcessState)
	}
}

// eventually polls a condition that nothing announces.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	polltest.Until(t, what, ok)
}

// chat asks a gateway, as a client that has two variables would.
func chat(ctx context.Context, base, key, model string, stream bool) (status int, body string, err error) {
	b := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"Hello"}]}`, model, stream)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/chat/completions", strings.NewReader(b))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}

// mustAnswer asks and wants an answer.
func mustAnswer(t testing.TB, base, key, model string) {
	t.Helper()
	status, body, err := chat(t.Context(), base, key, model, false)
	if err != nil || status != http.StatusOK || !strings.Contains(body, `"chat.completion"`) {
		t.Errorf("%s at %s: %d %s %v", model, base, status, body, err)
	}
}

// printedKey is a whole key.
var printedKey = regexp.MustCompile(`bardo_sk_[0-9A-Za-z]{12}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}`)

// firstKey waits until the program has printed its first key: what it writes comes through a goroutine of its own.
func (p *process) firstKey(t testing.TB) (key string) {
	t.Helper()
	eventually(t, "the first key", func() bool {
		key = printedKey.FindString(p.log())
		return key != ""
	})
	return key
}

// slow is what a stream got while its gateway was asked to stop.
type slow struct {
	body string
	err  error
}

// stream asks for a stream in the background.
func stream(t testing.TB, base, key, model string) <-chan slow {
	t.Helper()
	ended := make(chan slow, 1)
	ctx := t.Context()
	go func() {
		status, body, err := chat(ctx, base, key, model, true)
		if err == nil && status != http.StatusOK {
			err = errors.New(body)
		}
		ended <- slow{body, err}
	}()
	return ended
}

// whole says whether the stream came to its end.
func (s slow) whole() bool { return s.err == nil && strings.Contains(s.body, "data: [DONE]") }
