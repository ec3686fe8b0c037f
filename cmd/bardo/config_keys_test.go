package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/cmd/bardo/parts"
	"bardo.money/gateway/internal/config"
)

// warnedKeys are keys without effect, each with a configuration for which that is reported.
var warnedKeys = map[string]string{
	"listen.tls.client_ca": "listen: {tls: {client_ca: ca.pem}}",
}

func isWarnedOf(key string) bool {
	text, ok := warnedKeys[key]
	if !ok {
		return false
	}
	_, problems := config.Parse("x.yaml", []byte(text), func(string) (string, bool) { return "", false }, parts.Kinds()...)
	return slices.ContainsFunc(problems, func(p config.Problem) bool { return p.Key == key })
}

// TestEveryKeyOfTheConfigurationActs: each key is read outside of its parsing and validation, or its use is warned about.
func TestEveryKeyOfTheConfigurationActs(t *testing.T) {
	read := map[string]bool{}
	programs, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	dirs := []string{"../../internal/config", ".", "../../policy/catalog", "../../extproc", "../../policy/resolve", "../../policy/profile"}
	for _, path := range programs {
		dirs = append(dirs, filepath.Dir(path))
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		addSelected(t, dir, read)
	}
	for path, field := range configKeys(reflect.TypeFor[config.Config](), "", map[reflect.Type]bool{}) {
		if !read[field] && !isWarnedOf(path) {
			t.Errorf("nothing reads %s", path)
		}
	}
}

// addSelected adds the names of all fields and methods that a package's code uses, except tests and the validation of configurations.
func addSelected(t *testing.T, dir string, names map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", dir, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == "check.go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				names[s.Sel.Name] = true
			}
			return true
		})
	}
}

// configKeys returns the keys below a key, with their field names.
func configKeys(typ reflect.Type, at string, seen map[reflect.Type]bool) map[string]string {
	keys := map[string]string{}
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || seen[typ] {
		return keys
	}
	seen[typ] = true
	for f := range typ.Fields() {
		key, ok := f.Tag.Lookup("key")
		if !ok {
			continue
		}
		path := strings.TrimPrefix(at+"."+key, ".")
		keys[path] = f.Name
		maps.Copy(keys, configKeys(f.Type, path, seen))
	}
	return keys
}
