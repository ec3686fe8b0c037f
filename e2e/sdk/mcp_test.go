package sdk

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
)

// pythonServer is mcp_server.py while it runs.
type pythonServer struct {
	url       string
	cancelled atomic.Int64 // calls of wait that ended
}

func startPythonServer(t *testing.T) *pythonServer {
	t.Helper()
	cmd := exec.Command(tool(t, "SDK_PYTHON", ".tools/py/bin/python"), "mcp_server.py") //nolint:noctx // it is killed with the test
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8"}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := proctest.Start(cmd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		_ = cmd.Wait()
		t.Fatal("mcp_server.py did not print its port")
	}
	port, err := strconv.Atoi(lines.Text())
	if err != nil {
		t.Fatal(err)
	}
	s := &pythonServer{url: fmt.Sprintf("http://127.0.0.1:%d/mcp", port)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines.Scan() {
			s.cancelled.Add(1)
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait() // it was killed
	})
	return s
}

// mcpClients are the clients of the table in docs/clients.md.
var mcpClients = []struct {
	title, name string
	argv        func(*testing.T) []string
	mode        string
}{
	{"MCP Python, with sessions", "mcp-python", python("mcp_driver.py"), "legacy"},
	{"MCP Python, revision 2026-07-28", "mcp-python", python("mcp_driver.py"), "auto"},
	{"MCP TypeScript", "mcp-node", node("mcp_driver.cjs"), ""},
}

// TestB09RealClientsOfMCP: the protocol's official clients use a server of its official Python SDK through the gateway.
func TestB09RealClientsOfMCP(t *testing.T) {
	t.Parallel()
	server := startPythonServer(t)
	g := gateway.Run(t, gateway.Options{Config: fmt.Sprintf("%smcp: {servers: {tools: {url: %q}}}\n", settings, server.url)})
	var table strings.Builder
	table.WriteString("| client | version | all servers at `/mcp` | one server at `/mcp/NAME` |\n|---|---|---|---|\n")
	ran := 0
	for _, c := range mcpClients {
		t.Run(c.title, func(t *testing.T) {
			ran++
			var version string
			var cells [2]bool
			for i, at := range []struct{ path, prefix string }{{"/mcp", "tools__"}, {"/mcp/tools", ""}} {
				before := server.cancelled.Load()
				rep := runMCPDriver(t, c.argv(t), append(access(g), "BARDO_CLIENT="+c.name, "BARDO_PREFIX=", `BARDO_UNICODE="ü 🙂 漢字"`,
					"BARDO_PATH="+at.path, "BARDO_TOOLS="+at.prefix, "BARDO_MODE="+c.mode))
				want := []string{"lists", "calls", "parallel", "progress", "errors", "cancel", "prompts"}
				if at.prefix == "" {
					want = append(want, "resources")
				}
				cells[i] = true
				for _, name := range want {
					if r, ran := rep.cases[name]; !ran || !r.OK {
						t.Errorf("%s: %s: ran %v, %s", at.path, name, ran, r.Detail)
						cells[i] = false
					}
				}
				polltest.Until(t, "a call that is cancelled at the server", func() bool { return server.cancelled.Load() > before })
				if got := server.cancelled.Load() - before; got != 1 {
					t.Errorf("%s: %d calls were cancelled at the server", at.path, got)
				}
				version = rep.version
			}
			fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", c.title, version, mark(cells[0]), mark(cells[1]))
		})
	}
	if ran == len(mcpClients) { // not with -run of some
		checkTable(t, "mcp", table.String())
	}
	g.AssertSound(t)
}

// runMCPDriver runs a driver, and returns what it printed.
func runMCPDriver(t *testing.T, argv, env []string) report {
	t.Helper()
	out, errs, err := runDriver(t, argv, env...)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, errs)
	}
	rep, err := read(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// TestB09ClaudeCodeUsesToolsOfMCPServers: both its requests to the model and its calls of tools go to the gateway.
func TestB09ClaudeCodeUsesToolsOfMCPServers(t *testing.T) {
	t.Parallel()
	server := startPythonServer(t)
	f := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	f.Queue(fake.Behaviour{ToolCalls: []fake.ToolCall{use("mcp__bardo__tools__echo", map[string]string{"text": "from-the-server"})}})
	g := gateway.Run(t, gateway.Options{
		Providers: []gateway.Provider{{ID: "p", Fake: f, Format: string(fake.Anthropic), Models: []gateway.Model{{ID: "claude-mcp", Price: "{input: 1, output: 2}"}}}},
		Config:    fmt.Sprintf("%smcp: {servers: {tools: {url: %q}}}\n", settings, server.url),
	})
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"bardo": map[string]any{
		"type": "http", "url": g.URL + "/mcp", "headers": map[string]string{"Authorization": "Bearer " + g.Key},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	s := seen{served: fake.Anthropic}
	s.out = claude(t, g, t.TempDir(), nil, "--model", "claude-mcp", "--mcp-config", string(servers), "--strict-mcp-config", "--allowedTools", "mcp__bardo", "-p", "do it")
	s.asked = f.Generations()
	if s.out.Result != hello || s.out.IsError {
		t.Errorf("it said %q", s.out.Result)
	}
	if !says(s.asked[0].Body, "mcp__bardo__tools__echo") {
		t.Errorf("the model was not told of the tool: %.20000s", s.asked[0].Body)
	}
	s.checkSaid(t, "from-the-server")
	s.checkTurns(t, 2)
}
