package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bardo.money/gateway/cmd/bardo/parts"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/mdtest"
)

func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestEveryErrorIsDocumented: the table of errors has a row for every code, with its status and types.
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

// exampleVariables are the variables in the examples.
var exampleVariables = []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "VLLM_API_KEY", "BANKR_API_KEY", "LEDGER_PASSWORD", "LANGFUSE_AUTH", "CLICKHOUSE_PASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "ORIGIN_KEY", "ORIGIN_EU_KEY", "ORIGIN_US_KEY"}

// exampleSecrets are the example variables whose values have a required format.
var exampleSecrets = map[string]string{
	"TELEGRAM_TOKEN":  "123456789:AAExampleExampleExampleExampleExamp",
	"DISCORD_WEBHOOK": "https://discord.example/api/webhooks/1/example",
	"PROMPTS_KEY":     "an-example-of-32-characters-or-more",
	"ALERTS_KEY":      "whsec_ZXhhbXBsZWV4YW1wbGVleGFtcGxlZXhhbXBsZQ==",
}

// missingFile matches the warning about a file that only the operator's machine has.
var missingFile = regexp.MustCompile(`(?m)^.*: warning: open .*: no such file or directory\n`)

// TestExamplesAreSound: the examples pass `bardo config check` without warnings, but for files that they name.
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
		if err := c.Execute(); err != nil || missingFile.ReplaceAllString(errOut.String(), "") != "" {
			t.Errorf("%s: %v\n%s", file, err, errOut.String())
		}
	}
}

// labels are the allowed labels of code blocks.
var labels = []string{"sh", "console", "yaml", "yaml catalog", "json", "toml", "python", "go", "text"}

// everyBlock calls do for each block of the pages with one of the labels.
func everyBlock(t *testing.T, do func(*mdtest.Block), infos ...string) {
	t.Helper()
	found := 0
	for page, text := range mdtest.Pages(t, repository) {
		for _, b := range mdtest.Blocks(page, text) {
			if slices.Contains(infos, b.Info) {
				found++
				do(&b)
			}
		}
	}
	if found == 0 {
		t.Errorf("no page has a block of %v", infos)
	}
}

const repository = "../.."

// TestBlocksInTheDocumentsSayWhatTheyAre, so that the tests below know how to check them.
func TestBlocksInTheDocumentsSayWhatTheyAre(t *testing.T) {
	for page, text := range mdtest.Pages(t, repository) {
		for _, b := range mdtest.Blocks(page, text) {
			if !slices.Contains(labels, b.Info) {
				t.Errorf("%s: a block of %q, want one of %q", &b, b.Info, labels)
			}
		}
	}
}

// TestConfigurationsInTheDocumentsAreSound: each YAML block is a configuration that is valid without warnings, or a list of models.
func TestConfigurationsInTheDocumentsAreSound(t *testing.T) {
	set := func(name string) (string, bool) {
		if v, ok := exampleSecrets[name]; ok {
			return v, true
		}
		if !slices.Contains(exampleVariables, name) {
			return "", false
		}
		return "sk-example", true
	}
	everyBlock(t, func(b *mdtest.Block) {
		if _, problems := config.Parse(b.Page+".yaml", []byte(b.Text), set, parts.Kinds()...); len(problems) > 0 {
			t.Errorf("%s:\n%s\n%v", b, b.Text, problems)
		}
	}, "yaml")
	everyBlock(t, func(b *mdtest.Block) {
		if _, problems := config.ParseModels(b.Page+".yaml", []byte(b.Text)); len(problems) > 0 {
			t.Errorf("%s:\n%s\n%v", b, b.Text, problems)
		}
	}, "yaml catalog")
}

func TestJSONInTheDocumentsIsJSON(t *testing.T) {
	everyBlock(t, func(b *mdtest.Block) {
		for d := json.NewDecoder(strings.NewReader(b.Text)); d.More(); {
			var v any
			if err := d.Decode(&v); err != nil {
				t.Errorf("%s: %v", b, err)
				return
			}
		}
	}, "json")
}

// TestCommandsInTheDocumentsExist: each command is valid bash, of a program that readers may be asked to use. Commands of this program have the subcommands,
// flags and arguments shown, and make targets and files of the repository exist.
func TestCommandsInTheDocumentsExist(t *testing.T) {
	everyBlock(t, func(b *mdtest.Block) { checkScript(t, b.String(), b.Script()) }, "sh", "console")
	for page, text := range mdtest.Pages(t, repository) {
		for _, s := range mdtest.Spans(text) {
			if err := checkMention(strings.Fields(s)[1:]); err != nil {
				t.Errorf("%s: %s: %v", page, s, err)
			}
		}
	}
}

func checkScript(t *testing.T, where, script string) {
	t.Helper()
	commands, err := mdtest.Commands(t, script)
	if err != nil {
		t.Errorf("%s: %v", where, err)
	}
	for _, c := range commands {
		if err := checkCommand(t, c); err != nil {
			t.Errorf("%s: %q: %v", where, c, err)
		}
	}
}

// programs are those that readers have, or are told to install.
var programs = []string{
	"claude", "codex", "cp", "curl", "docker", "envoy", "gemini", "git", "grep", "install", "openssl", "runuser", "sqlite3", "systemctl",
	"systemd-sysusers",
}

func checkCommand(t *testing.T, c []string) error {
	t.Helper()
	for _, arg := range c[1:] {
		file, _, _ := strings.Cut(arg, "#")
		if _, err := os.Stat(filepath.Join(repository, file)); strings.HasPrefix(file, "docs/") && err != nil && c[0] != "make" {
			return err
		}
	}
	if i := len(c) - 1 - slices.Index(backwards(c), "bardo"); i < len(c) && slices.Contains([]string{"bardo", "runuser", "docker"}, c[0]) {
		return checkBardo(c[i+1:])
	}
	switch c[0] {
	case "make":
		return checkMake(t, c[1:])
	case "go":
		_, err := os.Stat(filepath.Join(repository, c[2]))
		return err
	}
	if !slices.Contains(programs, c[0]) {
		return fmt.Errorf("a reader may not have it, want one of %v", programs)
	}
	return nil
}

// checkBardo parses the arguments of this program without running it.
func checkBardo(args []string) error {
	c, rest, err := root().Find(args)
	if err != nil {
		return err
	}
	c.InitDefaultHelpFlag()
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}

func backwards(c []string) []string {
	c = slices.Clone(c)
	slices.Reverse(c)
	return c
}

// checkMention checks a command in a sentence, possibly without its arguments: its subcommands and flags exist.
func checkMention(args []string) error {
	c, _, err := root().Find(slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "…" }))
	if err != nil {
		return err
	}
	c.InitDefaultHelpFlag()
	for _, arg := range args {
		name, isFlag := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		if arg == "--" { // the rest belongs to another program
			break
		}
		if isFlag && c.Flag(name) == nil {
			return fmt.Errorf("%s has no flag %s", c.CommandPath(), arg)
		}
	}
	return nil
}

var target = regexp.MustCompile(`(?m)^([a-z]+):`)

func checkMake(t *testing.T, args []string) error {
	t.Helper()
	for _, arg := range args {
		if strings.ContainsAny(arg, "=/") {
			continue
		}
		if !slices.ContainsFunc(target.FindAllStringSubmatch(page(t, "Makefile")+page(t, "Tools.mk"), -1), func(m []string) bool { return m[1] == arg }) {
			return fmt.Errorf("the Makefile has no target %s", arg)
		}
	}
	return nil
}

// TestSizingIsWhatWasMeasured: the sizing figures are those of the page that `make bench` writes, to two digits.
func TestSizingIsWhatWasMeasured(t *testing.T) {
	measured, sizing := page(t, "docs/performance.md"), page(t, "docs/deployment.md")
	_, sizing, _ = strings.Cut(sizing, "\n## Sizing")
	for row, says := range map[string]string{
		`\| 1kB, 64 concurrent \| gateway \| (\d+) `:      "about %s requests of 1 kB a second without keys",
		`\| 1kB, 64 concurrent \| gateway, key \| (\d+) `: "%s with keys and ledger",
		`\| idle \| \d+ \| \d+ \| (\d+) `:                 "%s MB in the Go program",
		`\| idle \| \d+ \| (\d+) `:                        "%s MB in Envoy",
	} {
		found := regexp.MustCompile(row).FindStringSubmatch(measured)
		if found == nil {
			t.Fatalf("docs/performance.md has no row %s", row)
		}
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		if n >= 1000 {
			n = (n + 50) / 100 * 100
		}
		written := strconv.Itoa(n)
		if n >= 1000 {
			written = written[:len(written)-3] + "," + written[len(written)-3:]
		}
		if want := fmt.Sprintf(says, written); !strings.Contains(sizing, want) {
			t.Errorf("docs/deployment.md does not say %q", want)
		}
	}
}
