package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"testing"
	"testing/fstest"
)

// linked are the packages that Envoy's process may hold with data_path: module. A panic in one of their goroutines ends Envoy, and all requests with it.
var linked = []string{"extproc/...", "policy/...", "internal/...", "xds/feed", "xds/health", "cmd/bardo/run"}

// goroutines says how many a file may start, and why a panic in them is no danger, or that it still is one.
var goroutines = map[string]struct {
	n   int
	why string
}{
	"extproc/sidecall.go":             {1, "recovers"},
	"extproc/attempt/reader.go":       {1, "recovers"},
	"extproc/attempt/do.go":           {3, "recover"},
	"extproc/stream/module/engine.go": {1, "client.serve recovers"},
	"extproc/structured/checker.go":   {1, "recovers"},
	"policy/ledger/ledger.go":         {2, "no barrier: a ledger that panicked must not go on"},
	"policy/ledger/writer.go":         {1, "no barrier: a ledger that panicked must not go on"},
	"policy/ledger/chargelog/log.go":  {1, "no barrier: a ledger that panicked must not go on"},
	"internal/event/sink.go":          {1, "no barrier yet"},
	"xds/feed/client.go":              {2, "no barrier yet"},
	"xds/feed/server.go":              {1, "of the control plane, which is a process of its own"},
	"xds/health/watch.go":             {1, "no barrier yet"},
	"cmd/bardo/run/health.go":         {2, "no barrier yet"},
	"cmd/bardo/run/inside.go":         {6, "no barrier yet"},
	"cmd/bardo/run/sidecar.go":        {1, "no barrier yet"},
	"cmd/bardo/run/stop.go":           {2, "no barrier yet; one waits for signals, in the program bardo alone"},
}

// apartFromEnvoy are files of linked packages that only the program bardo runs.
var apartFromEnvoy = []string{"cmd/bardo/run/plane.go", "cmd/bardo/run/serve.go", "cmd/bardo/run/up.go"}

func TestEveryGoroutineInEnvoyIsListed(t *testing.T) {
	started, err := starts(os.DirFS("../.."), module)
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range started {
		if n > goroutines[name].n {
			t.Errorf("%s starts %d goroutines, %d are listed: a panic in one ends Envoy; recover in it, and list it in internal/arch", name, n, goroutines[name].n)
		}
	}
	for name, g := range goroutines {
		if started[name] < g.n {
			t.Errorf("%s starts %d goroutines, %d are listed (%s)", name, started[name], g.n, g.why)
		}
	}
}

func TestStartsOfGoroutinesAreFound(t *testing.T) {
	started, err := starts(fstest.MapFS{
		"policy/a.go":      {Data: []byte("package policy; func f() { go f(); group.Go(f); f() }")},
		"policy/a_test.go": {Data: []byte("package policy; func f() { go f() }")},
		"e2e/a.go":         {Data: []byte("package e2e; func f() { go f() }")},
	}, "example.org/gateway")
	if err != nil || fmt.Sprint(started) != "map[policy/a.go:2]" {
		t.Error(started, err)
	}
}

// starts counts go statements and calls of methods Go, by file.
func starts(tree fs.FS, module string) (map[string]int, error) {
	started := map[string]int{}
	files, err := read(tree, module)
	for _, f := range files {
		if f.test() || servesTests(f.pkg) || !matchAny(linked, path.Dir(f.path)) || matchAny(apartFromEnvoy, f.path) {
			continue
		}
		src, err := fs.ReadFile(tree, f.path)
		if err != nil {
			return nil, err
		}
		if n, err := startsIn(f.path, src); err != nil {
			return nil, err
		} else if n > 0 {
			started[f.path] = n
		}
	}
	return started, err
}

func startsIn(name string, src []byte) (n int, err error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return 0, err
	}
	for node := range ast.Preorder(syntax) {
		switch x := node.(type) {
		case *ast.GoStmt:
			n++
		case *ast.CallExpr:
			if s, ok := x.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" {
				n++
			}
		}
	}
	return n, nil
}
