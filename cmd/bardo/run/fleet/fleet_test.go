package fleet

import (
	"slices"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// TestARemovedProviderKeepsItsClustersForAWhile, however often the configuration is reloaded meanwhile, and is the same as before if it is configured again.
func TestARemovedProviderKeepsItsClustersForAWhile(t *testing.T) {
	for _, total := range []time.Duration{time.Minute, 3 * removalDelay} {
		t.Run(total.String(), func(t *testing.T) { testRemoval(t, total, max(total, removalDelay)) })
	}
}

// testRemoval removes a provider whose requests take at most total, and requires its clusters to stay for the given time.
func testRemoval(t *testing.T, total, stays time.Duration) {
	t.Helper()
	var f Fleet
	start := time.Now()
	for _, step := range []struct {
		after time.Duration
		now   []policy.ProviderID
		want  []string
	}{
		{0, []policy.ProviderID{"a", "b"}, []string{"a", "b"}},
		{time.Second, []policy.ProviderID{"b"}, []string{"b", "a leaves"}},
		{2 * time.Second, []policy.ProviderID{"b"}, []string{"b", "a leaves"}},
		{3 * time.Second, []policy.ProviderID{"c"}, []string{"c", "a leaves", "b leaves"}},
		{4 * time.Second, []policy.ProviderID{"c", "a"}, []string{"c", "a", "b leaves"}},
		{stays, []policy.ProviderID{"c", "a"}, []string{"c", "a", "b leaves"}},
		{stays + 3*time.Second, []policy.ProviderID{"c", "a"}, []string{"c", "a"}},
	} {
		var now []state.Provider
		for _, id := range step.now {
			now = append(now, state.Provider{ID: id})
		}
		var got []string
		for _, p := range f.set(now, start.Add(step.after), total) {
			name := string(p.ID)
			if p.Disabled {
				name += " leaves"
			}
			got = append(got, name)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("after %s: %q, want %q", step.after, got, step.want)
		}
	}
}
