package run

import (
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/feed"
	"bardo.money/gateway/xds/health"
)

func TestWhatIsKeptIsFoundAgain(t *testing.T) {
	h := home.Dir(t.TempDir())
	if ids, err := loadDisabled(h); err != nil || len(ids) != 0 {
		t.Errorf("before anything was kept: %v, %v", ids, err)
	}
	if v, err := loadView(h); err != nil || v.Secret != "" {
		t.Errorf("before anything was heard: %+v, %v", v, err)
	}
	view := feed.View{
		Version: "1", Secret: "secret", Clusters: []policy.ProviderID{"a.1"},
		Providers: []health.Status{{Provider: "a", State: health.Down, Reason: "why", CoolUntil: time.Unix(1, 0).UTC()}},
	}
	if err := h.WriteFile(viewFile, view); err != nil {
		t.Fatal(err)
	}
	got, err := loadView(h)
	if err != nil || got.Secret != view.Secret || got.Clusters[0] != "a.1" || got.Providers[0] != view.Providers[0] {
		t.Errorf("found %+v, %v", got, err)
	}
	for name, read := range map[string]func() error{
		"disabled.json": func() error { _, err := loadDisabled(h); return err },
		viewFile:        func() error { _, err := loadView(h); return err },
	} {
		if err := h.WriteFile(name, "neither"); err != nil {
			t.Fatal(err)
		}
		if err := read(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a broken %s: %v", name, err)
		}
	}
}
