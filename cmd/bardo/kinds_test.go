package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"bardo.money/gateway/cmd/bardo/parts"
)

// namesKinds are the files of policy/ that may contain the name of a kind of provider, with the meaning of the string there.
var namesKinds = map[string]string{
	"catalog/parse.go":  "formats of providers' lists of models, as kind.Kind.List names them",
	"resolve/option.go": "a family of models",
	"resolve/rules.go":  "a value of inference.provider_mode",

	"intent/build.go":                              "the gateway itself",
	"resolve/specialist.go":                        "the gateway itself",
	"ledger/postgres/postgres.go":                  "the gateway itself",
	"ledger/postgres/postgrestest/postgrestest.go": "the gateway itself",
}

// TestPolicyNamesNoKindOfProvider: the properties of a kind are declared by its adapter, in its kind.Kind.
func TestPolicyNamesNoKindOfProvider(t *testing.T) {
	kinds := map[string]bool{}
	for _, k := range parts.Kinds() {
		kinds[k.Name] = true
	}
	tree, used := os.DirFS(filepath.Join("..", "..", "policy")), map[string]bool{}
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, name := range namedKinds(t, tree, path, kinds) {
			if used[path] = true; namesKinds[path] == "" {
				t.Errorf("policy/%s names the kind of provider %q", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range namesKinds {
		if !used[path] {
			t.Errorf("policy/%s names no kind of provider: remove it from namesKinds", path)
		}
	}
}

// namedKinds returns the string literals of a file that are names of kinds.
func namedKinds(t *testing.T, tree fs.FS, path string, kinds map[string]bool) (names []string) {
	t.Helper()
	src, err := fs.ReadFile(tree, path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && kinds[s] {
				names = append(names, s)
			}
		}
		return true
	})
	return names
}
