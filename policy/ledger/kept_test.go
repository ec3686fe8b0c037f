package ledger

import (
	"fmt"
	"testing"

	"bardo.money/gateway/internal/polltest"
)

func TestAResourceHasOneOwner(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	if _, ok, err := l.Kept(t.Context(), "file-1"); ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	mine := Kept{ID: "file-1", Account: "a", Provider: "direct/openai"}
	if err := l.Keep(t.Context(), mine, Kept{ID: "batch-1", Account: "a", Provider: "direct/openai"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Keep(t.Context(), Kept{ID: "file-1", Account: "b", Provider: "direct/openai-2"}); err != nil {
		t.Fatal(err)
	}
	if k, ok, err := l.Kept(t.Context(), "file-1"); !ok || err != nil || k != mine {
		t.Errorf("%+v, %v, %v", k, ok, err)
	}
	if err := l.Drop(t.Context(), "file-1"); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := l.Kept(t.Context(), "file-1"); ok || err != nil {
		t.Errorf("after Drop: %v, %v", ok, err)
	}
	if _, ok, err := l.Kept(t.Context(), "batch-1"); !ok || err != nil {
		t.Errorf("the other thing: %v, %v", ok, err)
	}
	if err := l.Keep(t.Context()); err != nil {
		t.Errorf("nothing to keep: %v", err)
	}
}

// The owner's entry may be stored while another account's entry still waits.
func TestAResourceKeepsItsOwnerWhileAnotherEntryWaits(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	mine := Kept{ID: "file-1", Account: "a", Provider: "p"}
	if err := l.Keep(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the entry is stored", func() bool { _, waits := l.pending.resource(mine.ID); return !waits })
	unlock := lockStore(t, path)
	if err := l.Keep(t.Context(), Kept{ID: "file-1", Account: "b", Provider: "q"}); err != nil {
		t.Fatal(err)
	}
	if k, ok, err := l.Kept(t.Context(), "file-1"); !ok || err != nil || k != mine {
		t.Errorf("%+v, %v, %v", k, ok, err)
	}
	if known, err := l.KeptOf(t.Context(), []string{"file-1"}); err != nil || known["file-1"] != mine {
		t.Errorf("%+v, %v", known, err)
	}
	unlock()
}

func TestAResourceOutlivesAGateway(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	if err := l.Keep(t.Context(), Kept{ID: "x", Account: "", Provider: "p"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if k, ok, err := gateway(t, path).Kept(t.Context(), "x"); !ok || err != nil || k.Provider != "p" {
		t.Errorf("%+v, %v, %v", k, ok, err)
	}
}

func TestKeptOfFindsManyResources(t *testing.T) {
	l := gateway(t, storePath(t))
	var things []Kept
	ids := []string{"unknown"}
	for i := range 1500 {
		k := Kept{ID: fmt.Sprintf("file-%d", i), Account: "a", Provider: "p"}
		things, ids = append(things, k), append(ids, k.ID)
	}
	if err := l.Keep(t.Context(), things...); err != nil {
		t.Fatal(err)
	}
	known, err := l.KeptOf(t.Context(), ids)
	if err != nil || len(known) != len(things) || known["file-7"] != things[7] {
		t.Errorf("%d of %d, %+v, %v", len(known), len(things), known["file-7"], err)
	}
	if known, err = l.KeptOf(t.Context(), nil); err != nil || len(known) != 0 {
		t.Errorf("of nothing: %v, %v", known, err)
	}
}
