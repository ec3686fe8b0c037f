package effects_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/effects"
	"bardo.money/gateway/extproc/governor"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/rounds"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
)

// priced returns a candidate whose input costs a dollar per million tokens.
func priced() *policy.Resolution {
	return &policy.Resolution{Provider: "p", Model: "m", Prices: policy.Prices{Known: true, Input: 1_000_000, Output: 1_000_000}}
}

// of returns the effects of a request of 1,000 tokens, from which a layer has omitted as many.
func of() *effects.Effects {
	v := &request.View{Config: &runtime.Config{}}
	v.Request = &chat.Request{Op: chat.Generate, InputTokens: 1000}
	v.Log = []pipeline.Entry{{Layer: "l4", Removed: 1000, Saved: 1000}}
	return &effects.Effects{Report: &report.Report{View: v, Trace: &record.Trace{}, Bill: &meter.Bill{}}}
}

func TestACallSavesWhatALayerLeftOut(t *testing.T) {
	for _, row := range []struct {
		about  string
		change func(e *effects.Effects, u *chat.Usage)
		want   []policy.Saving
	}{
		{"as reported", func(*effects.Effects, *chat.Usage) {}, []policy.Saving{{Layer: "l4", Tokens: 1000, Amount: 1000}}},
		{"an estimate says nothing", func(_ *effects.Effects, u *chat.Usage) { u.Estimated = true }, nil},
		{"a layer that exceeded its time did nothing", func(e *effects.Effects, _ *chat.Usage) { e.Log[0].TimedOut = true }, nil},
		{"embeddings are not layers'", func(e *effects.Effects, _ *chat.Usage) { e.Request.Op = chat.Embed }, nil},
	} {
		e, u := of(), chat.Usage{Input: 1000, Output: 5, Final: true}
		row.change(e, &u)
		e.Called(priced(), &u, &rounds.State{})
		list, sum := e.Saved(priced())
		var want policy.Micro
		for _, s := range row.want {
			want = want.Plus(s.Amount)
		}
		if !slices.Equal(list, row.want) || sum != want {
			t.Errorf("%s: %+v, %d in all; want %+v", row.about, list, sum, row.want)
		}
	}
}

func TestAStoredAnswerSavesWhatItCost(t *testing.T) {
	for _, row := range []struct {
		by    record.CacheStatus
		layer string // "": nothing was saved
	}{
		{record.CacheHash, "l3"},
		{record.CacheSemantic, "l2"},
		{record.CacheStale, ""}, // in the place of an error
	} {
		e := of()
		e.Stored, e.CacheLayer, e.Trace.Cache = &cache.Entry{Served: cache.Served{Cost: policy.Pico(7_000_000), Usage: chat.Usage{Input: 3, Cached: 1, Output: 4}}}, "l3", row.by
		list, sum := e.SavedByCache()
		if row.layer == "" {
			if len(list) > 0 || sum != 0 {
				t.Errorf("%s: %+v, %d", row.by, list, sum)
			}
			continue
		}
		if len(list) != 1 || list[0] != (policy.Saving{Layer: row.layer, Tokens: 8, Amount: 7}) || sum != 7 {
			t.Errorf("%s: %+v, %d", row.by, list, sum)
		}
	}
}

// TestAProfileWithoutGovernedLayersIsNotGoverned, nor is anything where there is no governor.
func TestAProfileWithoutGovernedLayersIsNotGoverned(t *testing.T) {
	g := governor.New(1)
	g.Configure(governor.Options{Mode: governor.On})
	for _, row := range []struct {
		g       *governor.Governor
		profile string
		op      chat.Op
		want    bool
	}{
		{g, pipeline.ProfileStandard, chat.Generate, true},
		{g, "", chat.Generate, true},
		{g, pipeline.ProfileMinimal, chat.Generate, false},
		{g, pipeline.ProfileStandard, chat.Embed, false},
		{nil, pipeline.ProfileStandard, chat.Generate, false},
	} {
		e := of()
		e.Task, e.View.Profile, e.Request.Op = "task", row.profile, row.op
		if e.Govern(row.g); (e.Knobs != policy.Knobs{}) != row.want {
			t.Errorf("%+v: %+v", row, e.Knobs)
		}
	}
}
