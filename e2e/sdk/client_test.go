package sdk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/internal/proctest"
)

// client is one program that people use, and the driver that runs it.
type client struct {
	name    string // of its models, subtests and $BARDO_CLIENT
	title   string // in docs/clients.md
	dialect fake.Dialect
	argv    func(t *testing.T) []string // the driver's command
	lacks   map[string]string           // cases that the client has no means for, and why
}

// clients are in the order of the table in docs/clients.md.
var clients = []client{
	{name: "openai-python", title: "OpenAI Python", dialect: fake.OpenAI, argv: python("openai_driver.py")},
	{name: "openai-python-responses", title: "OpenAI Python, Responses", dialect: fake.OpenAI, argv: python("openai_responses_driver.py")},
	{name: "anthropic-python", title: "Anthropic Python", dialect: fake.Anthropic, argv: python("anthropic_driver.py")},
	{
		name: "langchain-openai", title: "LangChain, langchain-openai", dialect: fake.OpenAI, argv: python("langchain_driver.py"),
		lacks: map[string]string{"thinks": "it reads no reasoning in chat completions"},
	},
	{name: "langchain-anthropic", title: "LangChain, langchain-anthropic", dialect: fake.Anthropic, argv: python("langchain_driver.py")},
	{name: "openai-node", title: "OpenAI Node", dialect: fake.OpenAI, argv: node("openai_driver.cjs")},
	{name: "openai-node-responses", title: "OpenAI Node, Responses", dialect: fake.OpenAI, argv: node("openai_responses_driver.cjs")},
	{name: "anthropic-node", title: "Anthropic Node", dialect: fake.Anthropic, argv: node("anthropic_driver.cjs")},
	{
		name: "vercel-openai", title: "Vercel AI SDK, OpenAI", dialect: fake.OpenAI, argv: node("vercel_driver.cjs"),
		lacks: map[string]string{"thinks": "it reads no reasoning in chat completions"},
	},
	{name: "vercel-openai-responses", title: "Vercel AI SDK, OpenAI, Responses", dialect: fake.OpenAI, argv: node("vercel_driver.cjs")},
	{name: "vercel-openai-compatible", title: "Vercel AI SDK, OpenAI-compatible", dialect: fake.OpenAI, argv: node("vercel_driver.cjs")},
	{name: "vercel-anthropic", title: "Vercel AI SDK, Anthropic", dialect: fake.Anthropic, argv: node("vercel_driver.cjs")},
	{name: "openai-go", title: "OpenAI Go", dialect: fake.OpenAI, argv: program("openai")},
	{name: "openai-go-old", title: "OpenAI Go, older", dialect: fake.OpenAI, argv: program("openai-old")},
	{name: "anthropic-go", title: "Anthropic Go", dialect: fake.Anthropic, argv: program("anthropic")},
	{name: "google-python", title: "Google Gen AI Python", dialect: fake.Gemini, argv: python("google_driver.py")},
	{name: "google-node", title: "Google Gen AI Node", dialect: fake.Gemini, argv: node("google_driver.cjs")},
	{name: "curl-openai", title: "curl, chat completions", dialect: fake.OpenAI, argv: python("curl_driver.py")},
	{name: "curl-anthropic", title: "curl, messages", dialect: fake.Anthropic, argv: python("curl_driver.py")},
}

// python runs a script with the interpreter that has the SDKs.
func python(script string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		return []string{tool(t, "SDK_PYTHON", ".tools/py/bin/python"), script}
	}
}

// node runs a script with the packages that it asks for.
func node(script string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		return []string{tool(t, "SDK_NODE", ".tools/npm/bin/node"), script, tool(t, "SDK_NODE_MODULES", ".tools/npm/node_modules")}
	}
}

// compiled makes Node keep the code that it compiled for its next start, beside its packages.
func compiled(t *testing.T) string {
	t.Helper()
	return "NODE_COMPILE_CACHE=" + filepath.Join(filepath.Dir(tool(t, "SDK_NODE_MODULES", ".tools/npm/node_modules")), "compiled")
}

// program runs what was built of the Go modules.
func program(name string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		return []string{tool(t, "SDK_GO_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")), ".tools/go/"+name)}
	}
}

// tool finds a program that make sdks installs. A missing one fails the test.
func tool(t *testing.T, variable, pattern string) string {
	t.Helper()
	if bin := os.Getenv(variable); bin != "" {
		return bin
	}
	root, err := proctest.Root()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s is not installed; make sdks installs it, $%s names another", pattern, variable)
	}
	return found[0]
}
