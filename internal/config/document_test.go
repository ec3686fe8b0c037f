package config

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// document is the user's page on the configuration. What stands between its markers is written from the schema.
const document = "../../docs/configuration.md"

func TestTheDocumentShowsTheSchema(t *testing.T) {
	page, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	got := string(page)
	for name, text := range map[string]string{"keys": keysTable(), "variables": variablesTable(), "not built": laterTable()} {
		got = between(t, got, name, text)
	}
	if got == string(page) {
		return
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(document, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s is not what the schema says: run `make golden`", document)
}

// between replaces what stands between a name's markers.
func between(t *testing.T, page, name, text string) string {
	t.Helper()
	begin, end := "<!-- generated: "+name+" -->\n", "<!-- end: "+name+" -->\n"
	before, rest, ok := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no markers %q and %q", document, begin, end)
	}
	return before + begin + text + end + after
}

// keysTable is a table for each section of the schema.
func keysTable() string {
	var b strings.Builder
	section := ""
	for _, f := range Schema() {
		if !f.Built {
			continue
		}
		if top, _, below := strings.Cut(f.Key, "."); top != section || !below {
			section = top
			fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| key | expected | default | what it does |\n|---|---|---|---|\n", section, f.Doc)
			continue
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Key, f.Type, code(f.Default), f.Doc)
	}
	return b.String() + "\n"
}

func laterTable() string {
	var b strings.Builder
	b.WriteString("\n| key | what it will be |\n|---|---|\n")
	for _, l := range laterKeys {
		fmt.Fprintf(&b, "| `%s` | %s |\n", l.key, l.doc)
	}
	return b.String() + "\n"
}

func variablesTable() string {
	var b strings.Builder
	b.WriteString("\n| variable | what it does |\n|---|---|\n")
	for _, id := range defaultOrder {
		for _, v := range variablesOf(id) {
			fmt.Fprintf(&b, "| `%s` | enables `providers.%s`, and is its key if the file has none |\n", v, id)
		}
	}
	b.WriteString("| `BANKR_WALLET_ADDRESS` | is `providers.bankr.wallet` if the file has none |\n")
	for _, o := range overrides {
		if laterAround(o.key) != "" {
			fmt.Fprintf(&b, "| `%s` | accepted with a warning: `%s` has no effect yet |\n", o.variable, o.key)
			continue
		}
		fmt.Fprintf(&b, "| `%s` | overrides `%s` |\n", o.variable, o.key)
	}
	return b.String() + "\n"
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

var variableName = regexp.MustCompile(`"([A-Z]+(?:_[A-Z0-9]+)+)"`)

// Each variable of the environment that the configuration reads has its row.
func TestEveryVariableIsDocumented(t *testing.T) {
	table := variablesTable()
	for _, file := range []string{"environment.go", "providers.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range variableName.FindAllStringSubmatch(string(source), -1) {
			if !strings.Contains(table, "| `"+m[1]+"` |") {
				t.Errorf("docs/configuration.md has no row of %s, which %s reads", m[1], file)
			}
		}
	}
}
