package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// file is what the rules look at in one Go file.
type file struct {
	path    string
	pkg     string   // its folder, relative to the module
	ours    []string // imports of the module's own packages, relative to it too
	others  []string
	environ bool // reads environment variables
	c       bool // contains C
	placed  bool // gives the C compiler its package's folder
	lines   int  // of code that people write; 0 for tests and generated code
}

func (f file) test() bool { return strings.HasSuffix(f.path, "_test.go") }

// read parses every Go file of a module, whatever its build tags.
func read(tree fs.FS, module string) ([]file, error) {
	var files []file
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && ignored(name):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		f, err := parse(name, src, module)
		files = append(files, f)
		return err
	})
	return files, err
}

// ignored reports whether the go command ignores a folder.
func ignored(dir string) bool {
	base := path.Base(dir)
	return dir != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata")
}

func parse(name string, src []byte, module string) (file, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return file{}, err
	}
	f := file{path: name, pkg: path.Dir(name), placed: bytes.Contains(src, []byte("\n#cgo CFLAGS: -I${SRCDIR}\n"))}
	if !f.test() && !ast.IsGenerated(syntax) {
		f.lines = bytes.Count(src, []byte("\n"))
	}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file{}, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		if own, ok := strings.CutPrefix(imported, module+"/"); ok {
			f.ours = append(f.ours, own)
		} else {
			f.others = append(f.others, imported)
		}
		switch imported {
		case "os":
			f.environ = readsEnvironment(syntax, spec.Name)
		case "C":
			f.c = true
		}
	}
	return f, nil
}

// readsEnvironment looks for the functions of package os, under the name that the file imports it by.
func readsEnvironment(syntax *ast.File, name *ast.Ident) bool {
	pkg := "os"
	if name != nil {
		pkg = name.Name
	}
	for node := range ast.Preorder(syntax) {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			continue
		}
		x, ok := selector.X.(*ast.Ident)
		if !ok || x.Name != pkg {
			continue
		}
		switch selector.Sel.Name {
		case "Getenv", "LookupEnv", "Environ", "ExpandEnv":
			return true
		}
	}
	return false
}
