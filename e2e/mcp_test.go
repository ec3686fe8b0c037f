package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/mdtest"
)

// The revisions of the protocol, by how a client of the official SDK speaks them.
var mcpRevisions = []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// mcpServer is an MCP server of the official SDK, which records the headers that it gets.
type mcpServer struct {
	*httptest.Server

	sdk     *mcp.Server
	waiting atomic.Int64 // calls of the tool wait

	mu        sync.Mutex
	got       []http.Header
	toolCalls int
	hang      chan struct{} // while it is open, no request is answered; nil: all are
}

// newMCPServer is a server with the tools echo, slow and fail, a prompt and a resource. revisions are those that it has; none: all.
func newMCPServer(t *testing.T, name string, o mcp.StreamableHTTPOptions, revisions ...string) *mcpServer {
	t.Helper()
	s := &mcpServer{sdk: mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ServerOptions{
		Instructions: "Be kind to " + name + ".", PageSize: 2, SupportedProtocolVersions: revisions,
	})}
	type text struct {
		Text string `json:"text"`
	}
	mcp.AddTool(s.sdk, &mcp.Tool{Name: "echo", Description: "Says it again."}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + ": " + in.Text}}}, nil, nil
	})
	mcp.AddTool(s.sdk, &mcp.Tool{Name: "slow"}, func(ctx context.Context, r *mcp.CallToolRequest, _ text) (*mcp.CallToolResult, any, error) {
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3}); err != nil {
				return nil, nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	mcp.AddTool(s.sdk, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ text) (*mcp.CallToolResult, any, error) {
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	s.sdk.AddPrompt(&mcp.Prompt{Name: "greet"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Greet " + name}}}}, nil
	})
	s.sdk.AddResource(&mcp.Resource{Name: "readme", URI: "file:///readme"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "file:///readme", Text: "Read " + name}}}, nil
	})
	s.sdk.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "tools/call" {
				s.mu.Lock()
				s.toolCalls++
				s.mu.Unlock()
			}
			return next(ctx, method, r)
		}
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.sdk }, &o)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.got = append(s.got, r.Header.Clone())
		hang := s.hang
		s.mu.Unlock()
		if hang != nil {
			<-hang
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// headers are the values of a header of all requests so far, and how many there were.
func (s *mcpServer) headers(name string) (values []string, requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.got {
		values = append(values, h.Values(name)...)
	}
	return values, len(s.got)
}

// mcpClient connects a client of the official SDK.
func mcpClient(t *testing.T, g *gateway.Gateway, path, key, revision string, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: g.URL + path, HTTPClient: keyedClient(key), MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("%s %s: %v", path, revision, err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// withKey adds a key to each request.
type withKey struct{ key string }

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return http.DefaultTransport.RoundTrip(r)
}

func keyedClient(key string) *http.Client { return &http.Client{Transport: withKey{key}} }

func toolNames(t *testing.T, s *mcp.ClientSession) (names []string) {
	t.Helper()
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// callText calls a tool, and returns the text of its result, or of the error.
func callText(t *testing.T, s *mcp.ClientSession, tool string, args any) string {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err.Error()
	}
	return r.Content[0].(*mcp.TextContent).Text //nolint:forcetypeassert // a panic fails the test
}

// TestB09ToolsOfAllServers: a client of each revision sees one server, with the tools and prompts of servers of all kinds, and calls them.
func TestB09ToolsOfAllServers(t *testing.T) {
	t.Parallel()
	one := newMCPServer(t, "one", mcp.StreamableHTTPOptions{}, "2025-11-25", "2025-06-18")
	two := newMCPServer(t, "two", mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}, "2025-11-25")
	modern := newMCPServer(t, "new", mcp.StreamableHTTPOptions{Stateless: true}, "2026-07-28")
	g := gateway.Run(t, gateway.Options{Config: fmt.Sprintf("mcp: {servers: {one: {url: %q, token: t-one}, two: {url: %q, token: t-two, header: X-Api-Key}, new: {url: %q}}}\n", one.URL, two.URL+"/mcp", modern.URL)})
	want := []string{"new__echo", "new__slow", "new__wait", "one__echo", "one__slow", "one__wait", "two__echo", "two__slow", "two__wait"}
	for _, revision := range mcpRevisions {
		progress := make(chan float64, 10)
		c := mcpClient(t, g, "/mcp", g.Key, revision, &mcp.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
		})
		if got := c.InitializeResult(); got.ProtocolVersion != revision || got.ServerInfo.Name != "bardo" {
			t.Errorf("%s: %+v", revision, got)
		}
		if got := toolNames(t, c); !slices.Equal(got, want) {
			t.Errorf("%s: the tools are %v", revision, got)
		}
		for _, server := range []string{"one", "two", "new"} {
			if got := callText(t, c, server+"__echo", map[string]any{"text": "hä\n"}); got != server+": hä\n" {
				t.Errorf("%s: %s says %q", revision, server, got)
			}
			p, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: server + "__greet"})
			if err != nil || p.Messages[0].Content.(*mcp.TextContent).Text != "Greet "+server {
				t.Errorf("%s: %+v, %v", revision, p, err)
			}
		}
		params := &mcp.CallToolParams{Name: "one__slow", Arguments: map[string]any{"text": ""}}
		params.SetProgressToken("p1")
		if r, err := c.CallTool(t.Context(), params); err != nil || r.Content[0].(*mcp.TextContent).Text != "done" {
			t.Errorf("%s: %+v, %v", revision, r, err)
		}
		for want := range 3 {
			if got := <-progress; got != float64(want+1) {
				t.Errorf("%s: progress %v", revision, got)
			}
		}
		if prompts, err := c.ListPrompts(t.Context(), nil); err != nil || len(prompts.Prompts) != 3 || prompts.Prompts[1].Name != "one__greet" {
			t.Errorf("%s: %+v, %v", revision, prompts, err)
		}
		if got := callText(t, c, "one__missing", nil); !strings.Contains(got, "missing") {
			t.Errorf("%s: the server's error is %q", revision, got)
		}
		if err := c.Close(); err != nil {
			t.Errorf("%s: close: %v", revision, err)
		}
	}
	for _, s := range []struct {
		*mcpServer

		name, value string
	}{{one, "Authorization", "Bearer t-one"}, {two, "X-Api-Key", "t-two"}, {two, "Authorization", ""}, {modern, "Authorization", ""}} {
		values, requests := s.headers(s.name)
		if s.value == "" && len(values) > 0 || s.value != "" && (len(values) != requests || !slices.Equal(slices.Compact(values), []string{s.value})) {
			t.Errorf("the server gets %v in %d requests", values, requests)
		}
	}
	if n := g.Metrics(t).Sum("bardo_mcp_request_duration_seconds_count", `server="one"`, `method="tools/call"`, `result="ok"`); n != 8 {
		t.Errorf("%v calls are counted", n)
	}
	if log := g.Log(); strings.Contains(log, "hä") || strings.Contains(log, "t-one") {
		t.Error("the log has content")
	}
}

// TestB09OneServerAlone: its tools have their own names, and it has its resources and instructions.
func TestB09OneServerAlone(t *testing.T) {
	t.Parallel()
	one := newMCPServer(t, "one", mcp.StreamableHTTPOptions{})
	g := gateway.Run(t, gateway.Options{Config: fmt.Sprintf("mcp: {servers: {one: {url: %q}}}\n", one.URL)})
	for _, revision := range mcpRevisions {
		c := mcpClient(t, g, "/mcp/one", g.Key, revision, nil)
		if got := c.InitializeResult(); got.Instructions != "Be kind to one." || got.Capabilities.Resources == nil {
			t.Errorf("%s: %+v", revision, got)
		}
		if got := toolNames(t, c); !slices.Equal(got, []string{"echo", "slow", "wait"}) {
			t.Errorf("%s: the tools are %v", revision, got)
		}
		if got := callText(t, c, "echo", map[string]any{"text": "x"}); got != "one: x" {
			t.Errorf("%s: %q", revision, got)
		}
		all, err := c.ListResources(t.Context(), nil)
		if err != nil || len(all.Resources) != 1 {
			t.Fatalf("%s: %+v, %v", revision, all, err)
		}
		if r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: all.Resources[0].URI}); err != nil || r.Contents[0].Text != "Read one" {
			t.Errorf("%s: %+v, %v", revision, r, err)
		}
	}
	if got := g.Do(t, gateway.Call{Path: "/mcp/two", Body: `{}`}); got.Status != http.StatusNotFound {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// rpcErrorOf is the error of JSON-RPC in an error of the SDK.
func rpcErrorOf(t *testing.T, err error) (e *jsonrpc.Error, data map[string]string) {
	t.Helper()
	if !errors.As(err, &e) {
		t.Fatalf("%v is not an error of JSON-RPC", err)
	}
	_ = json.Unmarshal(e.Data, &data)
	return e, data
}

// TestB09WhoMayUseWhichTool: lists have the tools that a caller may use, and no other call reaches a server; each decision is an event and counted.
func TestB09WhoMayUseWhichTool(t *testing.T) {
	t.Parallel()
	one, two := newMCPServer(t, "one", mcp.StreamableHTTPOptions{}), newMCPServer(t, "two", mcp.StreamableHTTPOptions{})
	g := gateway.Run(t, gateway.Options{Config: fmt.Sprintf(`
telemetry: {events: stdout}
mcp:
  servers:
    one: {url: %q, tools: {deny: [slow]}}
    two: {url: %q, keys: [trusted]}
pipeline:
  firewall:
    rules:
      - {id: readers, keys: [reader], allow: ["mcp/one/ech*"]}
      - {id: short, tools: ["mcp/one/echo"], condition: "size(args.text) < 5"}
      - {id: strict, keys: [trusted], tools: ["mcp/two/echo"], check_arguments: true}
      - {id: watched, keys: [trusted], deny: ["mcp/two/wait"], on_violation: flag}
`, one.URL, two.URL)})
	keys := map[string]string{"other": g.CreateKey(t, "--name", "other").Key, "reader": g.CreateKey(t, "--name", "reader").Key, "trusted": g.CreateKey(t, "--name", "trusted").Key}
	for name, want := range map[string][]string{
		"other": {"one__echo", "one__wait"}, "reader": {"one__echo"}, "trusted": {"one__echo", "one__wait", "two__echo", "two__slow"},
	} {
		if got := toolNames(t, mcpClient(t, g, "/mcp", keys[name], "2025-11-25", nil)); !slices.Equal(got, want) {
			t.Errorf("%s: the tools are %v", name, got)
		}
	}
	for _, row := range []struct {
		key, tool, args string
		rule, reason    string // of a refusal
		result          string
	}{
		{"reader", "one__echo", `{"text":"a"}`, "", "", "one: a"},
		{"reader", "one__echo", `{"text":"too long"}`, "short", "condition", ""},
		{"reader", "one__echo", `{"text":"a","text":"too long"}`, "short", "invalid_arguments", ""},
		{"reader", "one__wait", `{"text":"a"}`, "readers", "not_allowed", ""},
		{"other", "one__slow", `{"text":"a"}`, "mcp.servers.one", "denied", ""},
		{"trusted", "two__echo", `{"text":"a"}`, "", "", "two: a"},
		{"trusted", "two__echo", `{"text":5}`, "strict", "arguments", ""},
		{"trusted", "two__none", `{}`, "", "", ""},
	} {
		before := calls(one) + calls(two)
		c := mcpClient(t, g, "/mcp", keys[row.key], "2025-11-25", nil)
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: row.tool, Arguments: json.RawMessage(row.args)})
		switch {
		case row.result != "":
			if err != nil || r.Content[0].(*mcp.TextContent).Text != row.result {
				t.Errorf("%+v: %+v, %v", row, r, err)
			}
		case row.rule != "":
			e, data := rpcErrorOf(t, err)
			if e.Code != -32010 || data["rule"] != row.rule || data["reason"] != row.reason || !strings.Contains(e.Message, row.rule) || calls(one)+calls(two) != before {
				t.Errorf("%+v: %+v %v", row, e, data)
			}
		case err == nil:
			t.Errorf("%+v: no error", row)
		}
	}
	c := mcpClient(t, g, "/mcp", keys["other"], "2025-11-25", nil)
	for _, tool := range []string{"two__echo", "nobody__echo", "echo"} {
		if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool}); err == nil || !strings.Contains(err.Error(), "no tool of this name") {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if a := g.Do(t, gateway.Call{Path: "/mcp/two", Body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, Key: keys["other"]}); a.Status != http.StatusNotFound {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if n := g.Metrics(t).Sum("bardo_rule_decisions_total", `rule="short"`, `decision="refused"`); n != 2 {
		t.Errorf("%v decisions are counted", n)
	}
	eventually(t, "the events of decisions", func() bool {
		return strings.Contains(g.Log(), `"tool":"mcp/one/echo","decision":"refused","reason":"condition"`) && strings.Contains(g.Log(), `"rule":"mcp.servers.one","stage":"call","tool":"mcp/one/slow","decision":"refused","reason":"denied"`)
	})
	if strings.Contains(g.Log(), "too long") || strings.Contains(g.Log(), "two__none") {
		t.Error("the log has content")
	}
}

// calls is how many calls of tools a server has got.
func calls(s *mcpServer) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.toolCalls
}

// rpc sends one message, in a session if there is one.
func rpc(t *testing.T, g *gateway.Gateway, key, session, body string, header ...string) gateway.Answer {
	t.Helper()
	header = append(header, "Accept: application/json, text/event-stream")
	if session != "" {
		header = append(header, "Mcp-Session-Id: "+session)
	}
	return g.Do(t, gateway.Call{Path: "/mcp", Key: key, Header: header, Body: body})
}

const (
	mcpInitialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	mcpPing       = `{"jsonrpc":"2.0","id":"p","method":"ping"}`
	mcpTools      = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
)

// TestB09ASessionBelongsToItsKey: another key cannot use it, nor anybody after its end; each session has one of its own at a server, which is opened again if the
// server has lost it.
func TestB09ASessionBelongsToItsKey(t *testing.T) {
	t.Parallel()
	one := newMCPServer(t, "one", mcp.StreamableHTTPOptions{})
	o := gateway.Options{Config: fmt.Sprintf("mcp: {servers: {one: {url: %q}}}\n", one.URL)}
	g := gateway.Run(t, o)
	other := g.CreateKey(t, "--name", "other").Key
	session := rpc(t, g, "", "", mcpInitialize).Header.Get("Mcp-Session-Id")
	second := rpc(t, g, "", "", mcpInitialize).Header.Get("Mcp-Session-Id")
	if len(session) < 40 || session == second {
		t.Fatalf("the sessions are %q and %q", session, second)
	}
	for _, id := range []string{session, second, session} {
		if a := rpc(t, g, "", id, mcpTools); a.Status != http.StatusOK || !strings.Contains(a.Body, `"one__echo"`) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	ids, _ := one.headers("Mcp-Session-Id")
	if slices.Sort(ids); len(slices.Compact(ids)) != 2 {
		t.Errorf("the server has the sessions %v", slices.Compact(ids))
	}
	for name, a := range map[string]gateway.Answer{
		"another key": rpc(t, g, other, session, mcpPing), "changed": rpc(t, g, "", strings.Repeat("A", len(session)), mcpPing),
		"cut": rpc(t, g, "", session[:20], mcpPing), "another key's end": g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/mcp", Key: other, Header: []string{"Mcp-Session-Id: " + session}}),
	} {
		if a.Status != http.StatusNotFound || !strings.Contains(a.Body, "-32001") {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	reload(t, g, gateway.Options{Config: strings.Replace(o.Config, "servers: {", fmt.Sprintf("servers: {two: {url: %q}, ", newMCPServer(t, "two", mcp.StreamableHTTPOptions{}).URL), 1)})
	if a := rpc(t, g, "", session, mcpTools); !strings.Contains(a.Body, `"two__echo"`) {
		t.Errorf("after a reload: %s", a.Body)
	}
	before, _ := one.headers("Mcp-Session-Id")
	slices.Sort(before)
	if len(slices.Compact(before)) != 2 {
		t.Errorf("a reload has ended a session: %v", slices.Compact(before))
	}
	for s := range one.sdk.Sessions() {
		_ = s.Close() // the server answers 404 from now on
	}
	if a := rpc(t, g, "", session, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"one__echo","arguments":{"text":"a"}}}`); !strings.Contains(a.Body, "one: a") {
		t.Errorf("after the server lost the session: %d %s", a.Status, a.Body)
	}
	if a := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/mcp", Header: []string{"Mcp-Session-Id: " + session}}); a.Status != http.StatusNoContent {
		t.Errorf("the end: %d %s", a.Status, a.Body)
	}
	if a := rpc(t, g, "", session, mcpPing); a.Status != http.StatusNotFound {
		t.Errorf("after the end: %d %s", a.Status, a.Body)
	}
	if a := rpc(t, g, "", second, mcpPing); a.Status != http.StatusOK || !strings.Contains(a.Body, `"id":"p","result":{}`) {
		t.Errorf("the other session: %d %s", a.Status, a.Body)
	}
}

// TestB09AServerThatHangs: lists have the tools of the others, and say which server is missing; its calls end in time.
func TestB09AServerThatHangs(t *testing.T) {
	t.Parallel()
	one, two := newMCPServer(t, "one", mcp.StreamableHTTPOptions{}), newMCPServer(t, "two", mcp.StreamableHTTPOptions{})
	g := gateway.Run(t, gateway.Options{Config: fmt.Sprintf("mcp: {servers: {one: {url: %q}, two: {url: %q, timeout: 1s}, none: {url: \"http://127.0.0.1:1\"}}}\n", one.URL, two.URL)})
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	two.mu.Lock()
	two.hang = hang
	two.mu.Unlock()
	began := time.Now()
	for range 2 { // it is not asked again at once
		a := rpc(t, g, "", "", mcpTools)
		if !strings.Contains(a.Body, `"one__echo"`) || !strings.Contains(a.Body, `"_meta":{"money.bardo/unavailable":[{"server":"none","reason":"unreachable"},{"server":"two","reason":"timeout"}]}`) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	if took := time.Since(began); took > 14*time.Second {
		t.Errorf("two lists took %s", took)
	}
	a := rpc(t, g, "", "", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"two__echo","arguments":{"text":"a"}}}`)
	if a.Status != http.StatusOK || !strings.Contains(a.Body, `"code":-32011`) || !strings.Contains(a.Body, `"data":{"server":"two","reason":"timeout"}`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if n := g.Metrics(t).Sum("bardo_mcp_request_duration_seconds_count", `server="two"`, `result="timeout"`); n != 2 {
		t.Errorf("%v timeouts are counted", n)
	}
}

// TestB09ACallIsCancelled by a notification, only of its own session and key, and by a client that disconnects.
func TestB09ACallIsCancelled(t *testing.T) {
	t.Parallel()
	one := newMCPServer(t, "one", mcp.StreamableHTTPOptions{})
	g := gateway.Run(t, gateway.Options{Config: fmt.Sprintf("mcp: {servers: {one: {url: %q}}}\n", one.URL)})
	other := g.CreateKey(t, "--name", "other").Key
	const call = `{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"one__wait","arguments":{"text":""}}}`
	done := make(chan gateway.Answer, 1)
	session := rpc(t, g, "", "", mcpInitialize).Header.Get("Mcp-Session-Id")
	go func() { done <- rpc(t, g, "", session, call) }()
	eventually(t, "the call", func() bool { return calls(one) == 1 })
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}}`
	for _, key := range []string{other, ""} {
		if a := rpc(t, g, key, "", cancel); a.Status != http.StatusAccepted || a.Body != "" {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	if len(done) > 0 {
		t.Error("another key or session has cancelled the call")
	}
	if a := rpc(t, g, "", session, cancel); a.Status != http.StatusAccepted {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := <-done; !strings.Contains(a.Body, `"reason":"cancelled"`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	eventually(t, "the end of the call", func() bool { return one.waiting.Load() == 0 })
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		if resp, err := g.Open(ctx, gateway.Call{Path: "/mcp", Body: call}); err == nil {
			_ = resp.Body.Close()
		}
	}()
	eventually(t, "the second call", func() bool { return one.waiting.Load() == 1 })
	leave()
	eventually(t, "the end of the second call", func() bool { return one.waiting.Load() == 0 })
}

// TestB09WhoIsNotServed: requests without a key, of foreign pages, with keys that may not call tools, and malformed ones.
func TestB09WhoIsNotServed(t *testing.T) {
	t.Parallel()
	one := newMCPServer(t, "one", mcp.StreamableHTTPOptions{})
	g := gateway.Run(t, gateway.Options{Config: fmt.Sprintf("mcp: {servers: {one: {url: %q}}}\n", one.URL)})
	readOnly := g.CreateKey(t, "--name", "r", "--read-only").Key
	public := g.CreateKey(t, "--name", "p", "--publishable", "--balance-usd", "1", "--limit-usd-day", "1", "--origin", "https://app.example").Key
	for _, row := range []struct {
		sentence string
		answer   gateway.Answer
		status   int
		body     string
	}{
		{"no key, though the demo provider needs none", g.Do(t, gateway.Call{Path: "/mcp", NoKey: true, Body: mcpPing}), http.StatusUnauthorized, "invalid_api_key"},
		{"a page of another origin", rpc(t, g, "", "", mcpPing, "Origin: https://evil.example"), http.StatusForbidden, "evil.example"},
		{"a page by a name that was rebound", rpc(t, g, "", "", mcpPing, "Origin: http://evil.example", "Host: evil.example"), http.StatusForbidden, "evil.example"},
		{"a page of this machine", rpc(t, g, "", "", mcpPing, "Origin: http://localhost:6274"), http.StatusOK, `"result":{}`},
		{"a read-only key", rpc(t, g, readOnly, "", mcpPing), http.StatusForbidden, "key_restricted"},
		{"a publishable key", rpc(t, g, public, "", mcpPing, "Origin: https://app.example"), http.StatusForbidden, "key_restricted"},
		{"no JSON", rpc(t, g, "", "", "{"), http.StatusBadRequest, "-32700"},
		{"a batch", rpc(t, g, "", "", "["+mcpPing+"]"), http.StatusBadRequest, "-32700"},
		{"two names", rpc(t, g, "", "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one__echo","name":"one__wait"}}`), http.StatusBadRequest, "-32700"},
		{"no method", rpc(t, g, "", "", `{"jsonrpc":"2.0","id":1}`), http.StatusBadRequest, "-32600"},
		{"an unknown method", rpc(t, g, "", "", `{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`), http.StatusOK, "-32601"},
		{"an unknown revision", rpc(t, g, "", "", mcpPing, "MCP-Protocol-Version: 1999-01-01"), http.StatusBadRequest, `"supported":["2026-07-28","2025-11-25"`},
		{"a header that differs", rpc(t, g, "", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call"), http.StatusBadRequest, "-32020"},
		{"too large", rpc(t, g, "", "", `{"jsonrpc":"2.0","id":1,"method":"`+strings.Repeat("x", 4<<20)+`"}`), http.StatusRequestEntityTooLarge, "request_too_large"},
		{"a stream of the server", g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/mcp"}), http.StatusMethodNotAllowed, "POST, DELETE"},
	} {
		if row.answer.Status != row.status || !strings.Contains(row.answer.Body, row.body) {
			t.Errorf("%s: %d %.300s", row.sentence, row.answer.Status, row.answer.Body)
		}
	}
	if _, requests := one.headers("Host"); requests != 0 {
		t.Errorf("the server gets %d requests", requests)
	}
}

// TestB09CallsAtTheSameTime are limited per key and per server; others are answered with an error.
func TestB09CallsAtTheSameTime(t *testing.T) {
	t.Parallel()
	one, two := newMCPServer(t, "one", mcp.StreamableHTTPOptions{}), newMCPServer(t, "two", mcp.StreamableHTTPOptions{})
	g := gateway.Run(t, gateway.Options{Config: fmt.Sprintf("mcp: {max_concurrent: 2, servers: {one: {url: %q, max_concurrent: 1}, two: {url: %q}}}\n", one.URL, two.URL)})
	call := func(key, tool string) gateway.Answer {
		return rpc(t, g, key, "", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"`+tool+`","arguments":{"text":"a"}}}`)
	}
	ctx, end := context.WithCancel(t.Context())
	for _, s := range []*mcpServer{one, two} {
		name := map[*mcpServer]string{one: "one", two: "two"}[s]
		go func() {
			if resp, err := g.Open(ctx, gateway.Call{Path: "/mcp", Body: `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"` + name + `__wait","arguments":{"text":""}}}`}); err == nil {
				_ = resp.Body.Close()
			}
		}()
		eventually(t, "a call under way", func() bool { return s.waiting.Load() == 1 })
	}
	if a := call("", "two__echo"); a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" || !strings.Contains(a.Body, `"code":-32012`) {
		t.Errorf("a third call of the key: %d %v %s", a.Status, a.Header, a.Body)
	}
	other := g.CreateKey(t, "--name", "other").Key
	if a := call(other, "one__echo"); a.Status != http.StatusOK || !strings.Contains(a.Body, `"data":{"server":"one","reason":"busy"}`) {
		t.Errorf("a second call at the server: %d %s", a.Status, a.Body)
	}
	if a := call(other, "two__echo"); !strings.Contains(a.Body, "two: a") {
		t.Errorf("another key's call at the other server: %d %s", a.Status, a.Body)
	}
	if n := g.Metrics(t).Sum("bardo_mcp_request_duration_seconds_count", `result="limited"`); n != 1 {
		t.Errorf("%v calls beyond the key's limit are counted", n)
	}
	end()
	eventually(t, "room for a call", func() bool { return strings.Contains(call("", "one__echo").Body, "one: a") })
}

// TestB09WhichServersAnswer: /readyz?verbose and the doctor say it, and what is wrong with the others, which do not make the gateway unready.
func TestB09WhichServersAnswer(t *testing.T) {
	t.Parallel()
	one := newMCPServer(t, "one", mcp.StreamableHTTPOptions{})
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(refuses.Close)
	g := gateway.Run(t, gateway.Options{Config: fmt.Sprintf("mcp: {servers: {one: {url: %q}, two: {url: %q}, none: {url: \"http://127.0.0.1:1\"}}}\n", one.URL, refuses.URL)})
	eventually(t, "the states of the servers", func() bool {
		status, body := bodyOf(t, g.Admin+"/readyz?verbose")
		return status == http.StatusOK && strings.Contains(body, `{"name":"mcp server none","ok":false,"detail":"the MCP server none cannot be reached"},{"name":"mcp server one","ok":true},{"name":"mcp server two","ok":false,"detail":"the MCP server two refuses the gateway's credential"}`)
	})
	eventually(t, "the states on the clients' listener", func() bool {
		a := g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/readyz?verbose"})
		return a.Status == http.StatusOK && strings.Contains(a.Body, `{"name":"mcp server one","ok":true}`)
	})
	for name, want := range map[string]struct {
		ok     bool
		detail string
	}{"one": {true, " answers"}, "two": {false, "refuses the gateway's credential"}, "none": {false, "cannot be reached"}} {
		if d, code := diagnose(t, g, "mcp server "+name); d.OK != want.ok || !strings.HasSuffix(d.Detail, want.detail) || code != 1 || d.OK == strings.Contains(d.Fix, "mcp.servers."+name+".token") {
			t.Errorf("bardo doctor ends with %d and shows %+v", code, d)
		}
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if d, _ := diagnose(t, g, "mcp server none"); !d.OK || !strings.HasSuffix(d.Detail, "not running") {
		t.Errorf("without a gateway, bardo doctor shows %+v", d)
	}
}

// TestB09ArgumentsInHeaders: a server that requires arguments in headers gets them from clients of all revisions, as the body has them, and no call whose header
// says something else.
func TestB09ArgumentsInHeaders(t *testing.T) {
	t.Parallel()
	one := newMCPServer(t, "one", mcp.StreamableHTTPOptions{Stateless: true}, "2026-07-28")
	one.sdk.AddTool(&mcp.Tool{Name: "query", InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}}, nil
	})
	g := gateway.Run(t, gateway.Options{Config: fmt.Sprintf("mcp: {servers: {one: {url: %q}}}\npipeline: {firewall: {rules: [{id: home, tools: [mcp/one/query], condition: \"args.region == 'eu'\"}]}}\n", one.URL)})
	for _, revision := range mcpRevisions {
		c := mcpClient(t, g, "/mcp", g.Key, revision, nil)
		toolNames(t, c) // as clients learn which headers to send
		if got := callText(t, c, "one__query", map[string]any{"region": "eu"}); got != `{"region":"eu"}` {
			t.Errorf("%s: %s", revision, got)
		}
	}
	if values, _ := one.headers("Mcp-Param-Region"); !slices.Equal(values, slices.Repeat([]string{"eu"}, len(mcpRevisions))) {
		t.Errorf("the server gets %v", values)
	}
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"one__query","arguments":{"region":"eu"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	before := calls(one)
	for _, header := range []string{"Mcp-Param-Region: us", "Mcp-Param-Region: EU", "X-None: 1", "Mcp-Param-Region: eu\nMcp-Param-Zone: us"} {
		lines := append(strings.Split(header, "\n"), "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: one__query")
		if a := rpc(t, g, "", "", call, lines...); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"code":-32020,"message":"the header Mcp-Param-`) {
			t.Errorf("%s: %d %s", header, a.Status, a.Body)
		}
	}
	if calls(one) != before {
		t.Error("the server gets a call whose header differs")
	}
}

// TestB09PrivateKeysAreNotSentToServers: in arguments of tools and prompts, except to a server that is for keys, and for keys whose policy is off.
func TestB09PrivateKeysAreNotSentToServers(t *testing.T) {
	t.Parallel()
	const secret = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	const phrase = "legal winner thank year wave sausage worth useful legal winner thank yellow"
	one, signer := newMCPServer(t, "one", mcp.StreamableHTTPOptions{}), newMCPServer(t, "signer", mcp.StreamableHTTPOptions{})
	g := gateway.Run(t, gateway.Options{Config: fmt.Sprintf("mcp: {servers: {one: {url: %q, token: t-one}, signer: {url: %q, token: t-signer, allow_private_keys: true}}}\n", one.URL, signer.URL)})
	lax := g.CreateKey(t, "--name", "lax", "--balance-usd", "1", "--pii", "off").Key
	for _, revision := range mcpRevisions {
		c, unsearched := mcpClient(t, g, "/mcp", g.Key, revision, nil), mcpClient(t, g, "/mcp", lax, revision, nil)
		for _, args := range []map[string]any{
			{"text": "my private key is " + secret}, {"text": "x", "private_key": "0x" + secret}, {"text": "x", "wallets": []any{map[string]any{"secret": secret}}},
		} {
			if got := callText(t, c, "one__echo", args); !strings.Contains(got, "rule pipeline.pii does not allow this call (private_key)") || strings.Contains(got, secret) {
				t.Errorf("%s, %v: %q", revision, args, got)
			}
			for tool, c := range map[string]*mcp.ClientSession{"one__echo": unsearched, "signer__echo": c} {
				want := "unexpected additional properties" // the server's own error
				if len(args) == 1 {
					want = strings.TrimSuffix(tool, "__echo") + ": my private key is"
				}
				if got := callText(t, c, tool, args); !strings.Contains(got, want) {
					t.Errorf("%s, %s, %v: %q", revision, tool, args, got)
				}
			}
		}
		_, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "one__greet", Arguments: map[string]string{"name": "the private key " + secret}})
		if err == nil || !strings.Contains(err.Error(), "(private_key)") {
			t.Errorf("%s: a prompt: %v", revision, err)
		}
		if got := callText(t, c, "one__echo", map[string]any{"text": phrase + ", jane@example.org"}); !strings.HasPrefix(got, "one: ") { // a published phrase
			t.Errorf("%s: %q", revision, got)
		}
	}
	if n := g.Metrics(t).Sum("bardo_rule_decisions_total", `rule="pipeline.pii"`, `decision="refused"`, `reason="private_key"`); int(n) != 3*len(mcpRevisions) {
		t.Errorf("%v refused calls are counted", n)
	}
}

// TestB09InASplitDeployment: a sidecar with an Envoy of its own serves the tools, by the rules, and says which servers answer.
func TestB09InASplitDeployment(t *testing.T) {
	t.Parallel()
	one := newMCPServer(t, "one", mcp.StreamableHTTPOptions{})
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.RunSplit(t, gateway.Options{
		Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}},
		Config:    quick + fmt.Sprintf("mcp: {servers: {one: {url: %q, token: t-one, tools: {deny: [slow]}}, none: {url: \"http://127.0.0.1:1\"}}}\npipeline: {firewall: {rules: [{id: short, tools: [mcp/one/echo], condition: \"size(args.text) < 5\"}]}}\n", one.URL),
	})
	for _, revision := range mcpRevisions {
		c := mcpClient(t, g.Gateway, "/mcp", g.Key, revision, nil)
		if got := toolNames(t, c); !slices.Equal(got, []string{"one__echo", "one__wait"}) {
			t.Errorf("%s: the tools are %v", revision, got)
		}
		if got := callText(t, c, "one__echo", map[string]any{"text": "a"}); got != "one: a" {
			t.Errorf("%s: %q", revision, got)
		}
		if got := callText(t, c, "one__echo", map[string]any{"text": "too long"}); !strings.Contains(got, "rule short") {
			t.Errorf("%s: %q", revision, got)
		}
	}
	if values, _ := one.headers("Authorization"); !slices.Equal(slices.Compact(values), []string{"Bearer t-one"}) {
		t.Errorf("the server gets %v", values)
	}
	if a := g.Do(t, gateway.Call{Path: "/mcp", NoKey: true, Body: mcpPing}); a.Status != http.StatusUnauthorized {
		t.Errorf("without a key: %d %s", a.Status, a.Body)
	}
	eventually(t, "the states of the servers", func() bool {
		body := g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/readyz?verbose"}).Body
		return strings.Contains(body, `{"name":"mcp server none","ok":false`) && strings.Contains(body, `{"name":"mcp server one","ok":true}`)
	})
}

// TestB09TheExampleInTheDocument works as docs/mcp.md shows it, with the addresses of the test's servers.
func TestB09TheExampleInTheDocument(t *testing.T) {
	t.Parallel()
	var config string
	for name, text := range documents(t) {
		for _, b := range mdtest.Blocks(name, text) {
			if strings.HasSuffix(name, "mcp.md") && strings.HasPrefix(b.Text, "mcp:\n") {
				config = b.Text
			}
		}
	}
	github, files := newMCPServer(t, "github", mcp.StreamableHTTPOptions{}), newMCPServer(t, "files", mcp.StreamableHTTPOptions{})
	mcp.AddTool(github.sdk, &mcp.Tool{Name: "delete_repository"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
	mcp.AddTool(files.sdk, &mcp.Tool{Name: "write"}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "written"}}}, nil, nil
	})
	config = strings.NewReplacer("https://mcp.github.example", github.URL, "http://127.0.0.1:9000", files.URL).Replace(config)
	g := gateway.Run(t, gateway.Options{Config: config, Env: []string{"GITHUB_TOKEN=secret"}})
	if got, want := toolNames(t, mcpClient(t, g, "/mcp", g.Key, "2025-11-25", nil)), []string{"github__echo", "github__slow", "github__wait"}; !slices.Equal(got, want) {
		t.Errorf("the tools are %v", got)
	}
	c := mcpClient(t, g, "/mcp", g.CreateKey(t, "--name", "developer").Key, "2025-11-25", nil)
	if got := callText(t, c, "files__write", map[string]any{"text": "x"}); got != "written" {
		t.Errorf("%q", got)
	}
	if got := callText(t, c, "files__write", map[string]any{"text": strings.Repeat("x", 1000)}); !strings.Contains(got, "the gateway's rule small does not allow this call (condition)") {
		t.Errorf("%q", got)
	}
	if values, _ := github.headers("Authorization"); len(values) == 0 || values[0] != "Bearer secret" {
		t.Errorf("github gets %v", values)
	}
}
