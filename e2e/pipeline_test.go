package e2e

import (
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestProfilesOfThePipelineRunTheirLayers: by the caller's word, by the subsystem, and by the operator's.
func TestProfilesOfThePipelineRunTheirLayers(t *testing.T) {
	t.Parallel()
	one, other := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "one"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "other"})
	g := gateway.Run(t, gateway.Options{
		Config:    quick + "\npipeline: {default: minimal, hash: all}\n",
		Providers: []gateway.Provider{{ID: "one", Fake: one}, {ID: "other", Fake: other}},
	})
	for _, row := range []struct {
		about  string
		header []string
		layers string
	}{
		{"nobody says anything", nil, "l3"},
		{"a subsystem", []string{"X-Bardo-Subsystem: operator"}, "l3,l1,l6"},
		{"a caller", []string{"X-Bardo-Pipeline: fast"}, "l3,l1,l6"},
		{"a caller, of a part", []string{"X-Bardo-Pipeline: minimal", "X-Bardo-Subsystem: operator"}, "l3"},
	} {
		got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: talk{"m", lengthy(row.about), false}.turn(1), Header: row.header})
		if got.Status != http.StatusOK || got.Err != nil {
			t.Fatalf("%s: %d %v %s", row.about, got.Status, got.Err, got.Body)
		}
		var ran []string
		for entry := range strings.SplitSeq(got.Header.Get("X-Bardo-Pipeline"), ", ") {
			name, _, _ := strings.Cut(entry, ";")
			ran = append(ran, name)
		}
		if layers := strings.Join(ran, ","); layers != row.layers {
			t.Errorf("%s: %s, want %s", row.about, layers, row.layers)
		}
	}
}
