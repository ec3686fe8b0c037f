package run

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/policy/ledger"
)

// sharers are gateways with separate state directories that share a ledger.
func sharers(t *testing.T, n int) (gs []*gateway, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "shared.db")
	for range n {
		books, err := ledger.Open(t.Context(), path, ledger.Options{Gateway: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := books.Close(); err != nil {
				t.Error(err)
			}
		})
		gs = append(gs, &gateway{start: start{home: home.Dir(t.TempDir())}, dataPath: dataPath{books: books}})
	}
	return gs, path
}

func TestGatewaysThatShareALedgerStartAtOnceWithOneKeyAndOnePepper(t *testing.T) {
	gs, path := sharers(t, 4)
	var secret atomic.Pointer[string]
	var all sync.WaitGroup
	for _, g := range gs {
		all.Go(func() {
			s, err := g.firstKey(t.Context())
			if err != nil {
				t.Error(err)
			}
			if s != "" && !secret.CompareAndSwap(nil, &s) {
				t.Error("two gateways printed a first key")
			}
		})
	}
	all.Wait()
	if secret.Load() == nil {
		t.Fatal("no gateway made a key")
	}
	for i, g := range gs {
		keys, err := g.keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if p, err := verify(t.Context(), keys, *secret.Load(), "127.0.0.1"); err != nil || p.Name != "default" {
			t.Errorf("gateway %d: %+v, %v", i, p, err)
		}
		if _, err := os.Stat(g.home.Path("pepper")); err == nil {
			t.Errorf("gateway %d has a pepper of its own", i)
		}
	}
	st, err := os.Stat(filepath.Join(filepath.Dir(path), "pepper"))
	if err != nil || !home.Private(st.Mode()) {
		t.Errorf("the pepper beside the ledger: %v, %v", st, err)
	}
}

func TestAPepperOfTheStateDirectoryIsTakenToItsLedger(t *testing.T) {
	gs, path := sharers(t, 2)
	old := []byte("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n")
	if err := os.WriteFile(gs[0].home.Path("pepper"), old, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, g := range gs {
		if _, err := g.home.Pepper(g.books.Path()); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(filepath.Dir(path), "pepper")); err != nil || !bytes.Equal(b, old) {
		t.Errorf("the keys that this gateway made before are worth nothing: %v", err)
	}
}
