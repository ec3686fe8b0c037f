package ranking_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/ranking"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/resolve"
)

// health has providers that are down, and others that an operator disabled; each plan is the trial of one provider.
type health struct {
	down, disabled policy.ProviderID
	trials         []policy.ProviderID
}

func (h *health) Plan(ids []policy.ProviderID) (order []policy.ProviderID, done func()) {
	for _, id := range ids {
		if id != h.down && id != h.disabled {
			order = append(order, id)
		}
	}
	if slices.Contains(ids, h.down) {
		order = append(order, h.down)
	}
	h.trials = append(h.trials, ids[0])
	return order, func() {
		h.trials = slices.DeleteFunc(h.trials, func(id policy.ProviderID) bool { return id == ids[0] })
	}
}

func candidates(providers ...policy.ProviderID) []policy.Resolution {
	var list []policy.Resolution
	for _, id := range providers {
		list = append(list, policy.Resolution{Provider: id, Model: "m", Upstream: "up"})
	}
	return list
}

func names(list []policy.Resolution) string {
	var out []string
	for i := range list {
		out = append(out, string(list[i].Provider))
	}
	return strings.Join(out, " ")
}

// of returns the ranking of a request with three providers, which all list its model.
func of(h *health) *ranking.Ranking {
	all, enabled := map[policy.ProviderID]*runtime.Provider{}, []kind.Provider{}
	for _, id := range []policy.ProviderID{"a", "b", "c"} {
		all[id] = &runtime.Provider{Adapter: custom.Adapter{}}
		enabled = append(enabled, kind.Provider{ID: id, Models: []modelfile.Model{{ID: "m"}}})
	}
	v := &request.View{Config: &runtime.Config{Providers: runtime.ProvidersOf(all), Resolver: resolve.New(catalog.New(modelfile.File{}), enabled)}}
	v.Request, v.Found = &chat.Request{Op: chat.Generate, Dialect: chat.OpenAI}, candidates("a", "b", "c")
	return &ranking.Ranking{Report: &report.Report{View: v, Logger: slog.New(slog.DiscardHandler)}, Health: h, Quarantine: &catalog.Quarantine{}}
}

func TestHealthyProvidersAreCalledFirst(t *testing.T) {
	r := of(&health{down: "a", disabled: "b"})
	if err := r.Arrange(); err != nil || names(r.Order) != "c a" {
		t.Errorf("%s, %v", names(r.Order), err)
	}
	if got := names(r.RankAdditional(candidates("b", "a", "c"))); got != "c a" {
		t.Errorf("beside the order: %s", got)
	}
	if r.RankAdditional(nil) != nil {
		t.Error("somebody is called beside")
	}
	list, done := r.RankSide(candidates("a", "c"))
	if done(); names(list) != "c a" {
		t.Errorf("aside: %s", names(list))
	}
	r.Found = candidates("b")
	if err := r.Arrange(); err == nil {
		t.Error("a disabled provider is called")
	}
}

func TestTheWarmProviderIsCalledFirst(t *testing.T) {
	r := of(&health{})
	r.Affinity.Provider = "c"
	if err := r.Arrange(); err != nil || names(r.Order) != "c a b" {
		t.Errorf("%s, %v", names(r.Order), err)
	}
}

// TestAllTrialsOfARequestEndWithIt, however often its candidates were ranked: a cheaper model may serve it in the end.
func TestAllTrialsOfARequestEndWithIt(t *testing.T) {
	h := &health{}
	r := of(h)
	r.End() // of a request that was not ranked
	if err := r.Arrange(); err != nil {
		t.Fatal(err)
	}
	r.Rank(candidates("b"))
	r.RankAdditional(candidates("c"))
	if len(h.trials) != 3 {
		t.Fatalf("the trials are %v", h.trials)
	}
	if r.End(); len(h.trials) > 0 {
		t.Errorf("the trials of %v did not end", h.trials)
	}
}

func TestAModelThatIsNotThereIsCalledLast(t *testing.T) {
	gone := &upstream.Failure{Provider: "a", Kind: upstream.ByStatus, Status: 410}
	for _, row := range []struct {
		about string
		f     *upstream.Failure
		mayBe func(r *ranking.Ranking, to *policy.Resolution)
		want  string
	}{
		{"gone", gone, func(*ranking.Ranking, *policy.Resolution) {}, "b c a"},
		{"another failure", &upstream.Failure{Kind: upstream.ByStatus, Status: 500}, func(*ranking.Ranking, *policy.Resolution) {}, "a b c"},
		{"of a count of tokens", gone, func(r *ranking.Ranking, _ *policy.Resolution) { r.Request.Op = chat.CountTokens }, "a b c"},
		{"a name that a client invented", gone, func(_ *ranking.Ranking, to *policy.Resolution) { to.Model = "x" }, "a b c"},
	} {
		r := of(&health{})
		to := r.Found[0]
		row.mayBe(r, &to)
		r.DemoteMissing(&to, row.f)
		r.DemoteMissing(&to, row.f) // it is told once
		if err := r.Arrange(); err != nil || names(r.Order) != row.want {
			t.Errorf("%s: %s, %v", row.about, names(r.Order), err)
		}
	}
}
