package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/fault"
)

func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The table of errors has a row for every code, with its status and types.
func TestEveryErrorIsDocumented(t *testing.T) {
	errorsPage := page(t, "docs/errors.md")
	typeOf := func(body []byte) string {
		var e struct{ Error struct{ Type string } }
		if err := json.Unmarshal(body, &e); err != nil {
			t.Fatal(err)
		}
		return e.Error.Type
	}
	for _, k := range fault.Kinds() {
		f := fault.New(k, "x", nil)
		row := fmt.Sprintf("\n| %d | `%s` | `%s` | `%s` | ", f.HTTPStatus(), k,
			typeOf(openai.Dialect{}.Error(f, "")), typeOf(anthropic.Dialect{}.Error(f, "")))
		if !strings.Contains(errorsPage, row) {
			t.Errorf("docs/errors.md has no row %s", row[1:])
		}
	}
}

// exampleVariables are those that the examples name.
var exampleVariables = []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "VLLM_API_KEY"}

// The examples pass `bardo config check` without as much as a warning.
func TestExamplesAreSound(t *testing.T) {
	files, err := filepath.Glob("../../docs/examples/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	t.Setenv("BARDO_HOME", t.TempDir())
	for _, v := range exampleVariables {
		t.Setenv(v, "sk-example")
	}
	for _, file := range files {
		var out, errOut bytes.Buffer
		c := root()
		c.SetArgs([]string{"config", "check", "-c", file})
		c.SetOut(&out)
		c.SetErr(&errOut)
		if err := c.Execute(); err != nil || errOut.Len() > 0 {
			t.Errorf("%s: %v\n%s", file, err, errOut.String())
		}
	}
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// What the pages show as YAML is a configuration that the gateway takes.
func TestConfigurationsInTheDocumentsAreSound(t *testing.T) {
	set := func(name string) (string, bool) {
		if !slices.Contains(exampleVariables, name) {
			return "", false
		}
		return "sk-example", true
	}
	found := 0
	for _, name := range []string{"README.md", "docs/getting-started.md", "docs/operations.md", "docs/split.md", "docs/configuration.md"} {
		for _, block := range yamlBlock.FindAllStringSubmatch(page(t, name), -1) {
			found++
			if _, problems := config.Parse(name, []byte(block[1]), set); config.Failed(problems) {
				t.Errorf("%s:\n%s\n%v", name, block[1], problems)
			}
		}
	}
	if found == 0 {
		t.Error("no page shows a configuration")
	}
}
