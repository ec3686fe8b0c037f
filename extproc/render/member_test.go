package render

import (
	"encoding/json"
	"testing"

	"bardo.money/gateway/extproc/reasoning"
)

func TestMemberOfEachSurface(t *testing.T) {
	t.Parallel()
	thoughts, cut := "Look.\n\nAct.", "So:\n```go\nx"
	for name, row := range map[string]struct {
		chain reasoning.Chain
		api   any
		web   any
	}{
		"visible":              {reasoning.Chain{Visibility: reasoning.Visible, Content: &thoughts, Tokens: 7}, thoughts, thoughts},
		"cut inside code":      {reasoning.Chain{Visibility: reasoning.Summarized, Content: &cut}, cut, cut + "\n```"},
		"opaque":               {reasoning.Chain{Visibility: reasoning.Opaque, Tokens: 312}, nil, "Reasoning performed (not visible): 312 tokens"},
		"opaque and a guess":   {reasoning.Chain{Visibility: reasoning.Opaque, Tokens: 30, Estimated: true}, nil, "Reasoning performed (not visible): about 30 tokens"},
		"opaque and uncounted": {reasoning.Chain{Visibility: reasoning.Opaque}, nil, "Reasoning performed (not visible)"},
		"none":                 {reasoning.Chain{}, nil, nil},
	} {
		for view, want := range map[View]any{{Full: true}: row.api, {Surface: Web}: row.web, {Surface: Telegram, Full: true}: row.api} {
			b, err := Member(&row.chain, view)
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Reasoning map[string]any }
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatalf("%v: %s", err, b)
			}
			if got.Reasoning["content"] != want || got.Reasoning["visibility"] != row.chain.Visibility.String() {
				t.Errorf("%s, %+v: %s, want %v", name, view, b, want)
			}
		}
		if row.chain.Content != nil && *row.chain.Content != row.api {
			t.Errorf("%s: the chain itself was changed", name)
		}
	}
}
