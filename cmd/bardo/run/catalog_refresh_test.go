package run

import (
	"testing"
	"time"

	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/resolve"
)

func TestJitterIsATenth(t *testing.T) {
	for range 1000 {
		if d := jittered(time.Hour); d < 54*time.Minute || d > 66*time.Minute+1 {
			t.Fatal(d)
		}
	}
	if d := jittered(1); d < 1 || d > 2 {
		t.Error(d)
	}
}

// TestB17PricesChangeWhenTheirTimeHasCome: not before, and repeatedly until they are in force.
func TestB17PricesChangeWhenTheirTimeHasCome(t *testing.T) {
	night := time.Date(2026, 11, 28, 16, 30, 0, 0, time.UTC)
	dataPathAt := func(hours ...modelfile.HourPrice) *dataPath {
		one := policy.Price(1)
		models := catalog.New(modelfile.File{Models: []modelfile.Model{{ID: "m", Price: &modelfile.Price{Input: &one, Output: &one, Hours: hours}}}}).AsOf(night.Add(-90 * time.Second))
		return &dataPath{listsChanged: make(chan struct{}, 1), runtime: &runtime.Config{Resolver: resolve.New(models, nil)}}
	}
	if wait := dataPathAt().applyDuePrices(night); wait != idleInterval {
		t.Errorf("without such prices: %s", wait)
	}
	d := dataPathAt(modelfile.HourPrice{From: "16:30", To: "24:00", Percent: 50})
	if wait := d.applyDuePrices(night.Add(-90 * time.Second)); wait != 90*time.Second || len(d.listsChanged) != 0 {
		t.Errorf("before: %s, %d", wait, len(d.listsChanged))
	}
	for range 2 {
		if wait := d.applyDuePrices(night); wait != priceRetry || len(d.listsChanged) != 1 {
			t.Errorf("then: %s, %d", wait, len(d.listsChanged))
		}
	}
}
