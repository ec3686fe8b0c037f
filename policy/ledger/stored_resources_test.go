package ledger

import (
	"fmt"
	"testing"

	"bardo.money/gateway/internal/polltest"
)

func TestAResourceHasOneOwner(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	if _, ok, err := l.StoredResource(t.Context(), "file-1"); ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	mine := StoredResource{ID: "file-1", Account: "a", Provider: "direct/openai"}
	if err := l.AddStoredResources(t.Context(), mine, StoredResource{ID: "batch-1", Account: "a", Provider: "direct/openai"}); err != nil {
		t.Fatal(err)
	}
	if err := l.AddStoredResources(t.Context(), StoredResource{ID: "file-1", Account: "b", Provider: "direct/openai-2"}); err != nil {
		t.Fatal(err)
	}
	if k, ok, err := l.StoredResource(t.Context(), "file-1"); !ok || err != nil || k != mine {
		t.Errorf("%+v, %v, %v", k, ok, err)
	}
	if err := l.RemoveStoredResource(t.Context(), "file-1"); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := l.StoredResource(t.Context(), "file-1"); ok || err != nil {
		t.Errorf("after its removal: %v, %v", ok, err)
	}
	if _, ok, err := l.StoredResource(t.Context(), "batch-1"); !ok || err != nil {
		t.Errorf("the other resource: %v, %v", ok, err)
	}
	if err := l.AddStoredResources(t.Context()); err != nil {
		t.Errorf("no resources: %v", err)
	}
}

// The owner's entry may be stored while another account's entry still waits.
func TestAResourceKeepsItsOwnerWhileAnotherEntryWaits(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	mine := StoredResource{ID: "file-1", Account: "a", Provider: "p"}
	if err := l.AddStoredResources(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the entry is stored", func() bool { _, waits := l.pending.resource(mine.ID); return !waits })
	unlock := lockStore(t, path)
	if err := l.AddStoredResources(t.Context(), StoredResource{ID: "file-1", Account: "b", Provider: "q"}); err != nil {
		t.Fatal(err)
	}
	if k, ok, err := l.StoredResource(t.Context(), "file-1"); !ok || err != nil || k != mine {
		t.Errorf("%+v, %v, %v", k, ok, err)
	}
	if known, err := l.StoredResources(t.Context(), []string{"file-1"}); err != nil || known["file-1"] != mine {
		t.Errorf("%+v, %v", known, err)
	}
	unlock()
}

func TestAResourceOutlivesAGateway(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	if err := l.AddStoredResources(t.Context(), StoredResource{ID: "x", Account: "", Provider: "p"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if k, ok, err := gateway(t, path).StoredResource(t.Context(), "x"); !ok || err != nil || k.Provider != "p" {
		t.Errorf("%+v, %v, %v", k, ok, err)
	}
}

func TestManyResourcesAreFound(t *testing.T) {
	l := gateway(t, storePath(t))
	var resources []StoredResource
	ids := []string{"unknown"}
	for i := range 1500 {
		k := StoredResource{ID: fmt.Sprintf("file-%d", i), Account: "a", Provider: "p"}
		resources, ids = append(resources, k), append(ids, k.ID)
	}
	if err := l.AddStoredResources(t.Context(), resources...); err != nil {
		t.Fatal(err)
	}
	known, err := l.StoredResources(t.Context(), ids)
	if err != nil || len(known) != len(resources) || known["file-7"] != resources[7] {
		t.Errorf("%d of %d, %+v, %v", len(known), len(resources), known["file-7"], err)
	}
	if known, err = l.StoredResources(t.Context(), nil); err != nil || len(known) != 0 {
		t.Errorf("of nothing: %v, %v", known, err)
	}
}
