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

// linked are the packages that Envoy's process may contain with data_path: module. A panic in one of their goroutines ends Envoy, and all its
// requests.
var linked = []string{"extproc/...", "policy/...", "internal/...", "models/...", "xds/feed", "xds/health", "cmd/bardo/run"}

// goroutines is the number of goroutines that a file may start without package guard, and why a panic in them is impossible, or must end the process.
var goroutines = map[string]struct {
	n   int
	why string
}{
	"extproc/sidecall.go":                   {1, "recovers"},
	"extproc/hedge/race.go":                 {1, "recovers"},
	"extproc/attempt/watch.go":              {1, "cancels a context"},
	"extproc/attempt/do.go":                 {2, "one recovers; one cancels a context"},
	"extproc/stream/module/timer.go":        {1, "a timer, which closes a channel and has the worker look"},
	"extproc/stream/coroutine/coroutine.go": {1, "client.Serve recovers"},
	"extproc/realtime/session.go":           {1, "a timer, which closes a connection"},
	"extproc/structured/checker.go":         {1, "recovers"},
	"policy/ledger/ledger.go":               {2, "no barrier: a ledger that panicked must not go on"},
	"policy/ledger/commit/writer.go":        {1, "no barrier: a ledger that panicked must not go on"},
	"policy/ledger/chargelog/log.go":        {1, "no barrier: a ledger that panicked must not go on"},
	"internal/guard/guard.go":               {1, "recovers"},
	"xds/feed/server.go":                    {1, "of the control plane, which is a process of its own"},
	"cmd/bardo/run/control.go":              {1, "closes a server"},
	"models/pool.go":                        {1, "in the program bardo alone"},
	"cmd/bardo/run/models.go":               {1, "in the program bardo alone"},
	"cmd/bardo/run/stop.go":                 {2, "of the program bardo alone: signals, and the time that is left"},
}

// apartFromEnvoy are files of linked packages that only the program bardo runs.
var apartFromEnvoy = []string{"extproc/stream/processor/...", "extproc/stream/duplex/...", "cmd/bardo/run/plane.go", "cmd/bardo/run/serve.go", "cmd/bardo/run/up.go"}

func TestEveryGoroutineInEnvoyIsListed(t *testing.T) {
	started, err := starts(os.DirFS("../.."), module)
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range started {
		if n > goroutines[name].n {
			t.Errorf("%s starts %d goroutines, %d are listed: a panic in one ends Envoy; start it with internal/guard, or list it in internal/arch", name, n, goroutines[name].n)
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
		"policy/a.go":      {Data: []byte("package policy; func f() { go f(); group.Go(f); time.AfterFunc(1, f); context.AfterFunc(ctx, f); f() }")},
		"policy/b.go":      {Data: []byte("package policy; func f() { guard.Go(f); group.Go(guard.Err(f)); time.AfterFunc(1, guard.Func(f)); guard.Func(f)() }")},
		"policy/c.go":      {Data: []byte("package policy; func f() { go guard.Func(f)(); group.Go(guarded(f)) }")},
		"policy/a_test.go": {Data: []byte("package policy; func f() { go f() }")},
		"e2e/a.go":         {Data: []byte("package e2e; func f() { go f() }")},
	}, "example.org/gateway")
	if err != nil || fmt.Sprint(started) != "map[policy/a.go:4 policy/c.go:2]" {
		t.Error(started, err)
	}
}

// starts counts, by file, go statements and calls of Go and AfterFunc, unless package guard recovers in what they start.
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
			s, ok := x.Fun.(*ast.SelectorExpr)
			if ok && (s.Sel.Name == "Go" || s.Sel.Name == "AfterFunc") && !ofGuard(x) && len(x.Args) > 0 && !ofGuard(x.Args[len(x.Args)-1]) {
				n++
			}
		}
	}
	return n, nil
}

// ofGuard reports whether x is a call of package guard.
func ofGuard(x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := s.X.(*ast.Ident)
	return ok && pkg.Name == "guard"
}
