package gateway

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// firstState is the state of a gateway that has one key, which `bardo keys create` made once for this test run: the command takes a tenth of a second, and
// hundreds of gateways start with one key.
var firstState struct {
	once  sync.Once
	files map[string][]byte
	key   string
	err   error
}

// keepsStateElsewhere are the configurations whose gateways share a store, or say how keys are stored: these make a key of their own.
var keepsStateElsewhere = []string{"redis", "postgres", "store:", "auth:", "ledger"}

// createFirstKey makes the key that a test uses: the one of firstState where the gateway has its own new state, as usual.
func (g *Gateway) createFirstKey(ctx context.Context, o Options) error {
	for _, s := range keepsStateElsewhere {
		if o.Home != "" || o.Program != "" || len(o.Env) > 0 || strings.Contains(o.Config, s) {
			return g.makeFirstKey(ctx)
		}
	}
	firstState.once.Do(func() { firstState.err = makeFirstState(ctx, g.bin) })
	if firstState.err != nil {
		return firstState.err
	}
	for name, content := range firstState.files {
		if err := os.WriteFile(filepath.Join(g.Home, name), content, 0o600); err != nil {
			return err
		}
	}
	g.Key = firstState.key
	return nil
}

func (g *Gateway) makeFirstKey(ctx context.Context) error {
	k, err := g.MakeKey(ctx, "--name", "e2e")
	g.Key = k.Key
	return err
}

// makeFirstState fills firstState with the files of a state folder that has nothing but a key.
func makeFirstState(ctx context.Context, bin string) (err error) {
	g := &Gateway{bin: bin}
	if err := g.prepare(Options{}); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(g.Home) }()
	if err := g.makeFirstKey(ctx); err != nil {
		return err
	}
	entries, err := os.ReadDir(g.Home)
	if err != nil {
		return err
	}
	files := make(map[string][]byte)
	for _, e := range entries {
		if e.IsDir() || !e.Type().IsRegular() {
			return fmt.Errorf("the state of a new key has %s", e.Name())
		}
		if e.Name() != filepath.Base(g.File) {
			if files[e.Name()], err = os.ReadFile(filepath.Join(g.Home, e.Name())); err != nil {
				return err
			}
		}
	}
	firstState.files, firstState.key = files, g.Key
	return nil
}
