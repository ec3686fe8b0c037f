package catalog_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
)

// K-19: a model's efforts come from data, also for unlisted models, and at any provider.
func TestFamiliesK19SayHowAModelIsToldToThink(t *testing.T) {
	c := catalog.New(catalogtest.Embedded())
	for _, row := range []struct {
		id, upstream string
		control      policy.ReasoningControl
		efforts      []string
	}{
		{"gpt-4o", "", "none", []string{}},
		{"gpt-5-mini", "", "effort", []string{"minimal", "low", "medium", "high"}},
		{"gpt-5-pro", "", "effort", []string{"high"}},
		{"gpt-5-chat-latest", "", "none", []string{}},
		{"gpt-5.1", "", "effort", []string{"none", "low", "medium", "high"}},
		{"gpt-5.9-tomorrow", "", "effort", []string{"none", "low", "medium", "high", "xhigh"}},
		{"o3-mini", "", "effort", []string{"low", "medium", "high"}},
		{"mine", "openai/gpt-5.9", "effort", []string{"none", "low", "medium", "high", "xhigh"}},
		{"openai/o4-tomorrow:nitro", "", "effort", []string{"low", "medium", "high"}},
		{"claude-3-5-sonnet-20241022", "", "none", []string{}},
		{"claude-haiku-4.5", "", "budget", nil},
		{"claude-opus-4-1", "", "budget", nil},
		{"claude-opus-5", "", "adaptive", []string{"low", "medium", "high", "xhigh", "max"}},
		{"claude-opus-5-5", "", "adaptive", []string{"low", "medium", "high", "xhigh", "max"}},
		{"claude-haiku-5-5", "", "adaptive", []string{"low", "medium", "high", "xhigh", "max"}},
		{"claude-tomorrow-6", "", "adaptive", nil},
		{"gemini-4-tomorrow", "", "level", []string{"low", "high"}},
		{"anthropic/claude-opus-4.6", "", "adaptive", []string{"low", "medium", "high", "max"}},
		{"gemini-2.5-pro", "", "budget", nil},
		{"gemini-3-flash", "", "level", []string{"minimal", "low", "medium", "high"}},
		{"deepseek/deepseek-r1", "", "always", []string{}},
		{"qwen3-32b", "", "streamed", nil},
		{"qwen-plus", "", "toggle", nil},
		{"llama-3.3-70b", "", "none", []string{}},
		{"somebodys-own", "", "", nil},
	} {
		m := c.At("p", modelfile.Model{ID: row.id, UpstreamID: row.upstream})
		if m.Thinking.Control != row.control || !slices.Equal(m.Thinking.Efforts, row.efforts) || (m.Thinking.Efforts == nil) != (row.efforts == nil) {
			t.Errorf("%s (%s): %q %q", row.id, row.upstream, m.Thinking.Control, m.Thinking.Efforts)
		}
	}
}

func TestTheOperatorSaysMoreThanTheFamily(t *testing.T) {
	c := catalog.New(catalogtest.Embedded(), parse(t, `
families:
  - {id: "acme-*", family: acme, thinking: {control: toggle}, tool_format: qwen, context: 1000}
  - {id: "acme-big-*", context: 2000}
  - {id: "gpt-5*", thinking: {efforts: [low]}}
models:
  - {id: acme-big-1, max_output: 5}
  - {id: gpt-5-mini, thinking: {display: true}}
  - {id: o3, thinking: {control: none}}
`))
	for _, row := range []struct {
		about     string
		got, want any
	}{
		{"the longest beginning counts", c.Unlisted("p", "acme-big-2").Context, 2000},
		{"what it leaves out comes from the shorter one", c.Unlisted("p", "acme-big-2").ToolFormat, "qwen"},
		{"the shorter one", c.Unlisted("p", "org/acme-1").Context, 1000},
		{"a model has its own", look(c, "acme-big-1").MaxOutput, 5},
		{"and its family's", look(c, "acme-big-1").Thinking.Control, policy.ControlToggle},
		{"a part of how it thinks", look(c, "gpt-5-mini").Thinking.Display, true},
		{"leaves the rest", look(c, "gpt-5-mini").Thinking.Control, policy.ControlEffort},
		{"another control has no efforts of the one before", len(look(c, "o3").Thinking.Efforts), 0},
	} {
		if row.got != row.want {
			t.Errorf("%s: got %v, want %v", row.about, row.got, row.want)
		}
	}
}

func TestQualityIsSaidOrComesOfStrengths(t *testing.T) {
	number := func(f float64) *float64 { return &f }
	c := catalog.New()
	for _, row := range []struct {
		about     string
		said      string
		strengths *modelfile.Strengths
		want      policy.Quality
	}{
		{"said", "low", &modelfile.Strengths{Reasoning: number(1)}, policy.QualityLow},
		{"nothing is known", "", nil, policy.QualityUnset},
		{"no strength is known", "", &modelfile.Strengths{}, policy.QualityUnset},
		{"0.24", "", &modelfile.Strengths{Reasoning: number(0.24)}, policy.QualityMinimum},
		{"0.25", "", &modelfile.Strengths{CodeGeneration: number(0.25)}, policy.QualityLow},
		{"0.45", "", &modelfile.Strengths{ToolCallAccuracy: number(0.45)}, policy.QualityMedium},
		{"0.65", "", &modelfile.Strengths{SchemaAdherence: number(0.65)}, policy.QualityHigh},
		{"0.85", "", &modelfile.Strengths{DeFiKnowledge: number(0.85)}, policy.QualityMaximum},
		{"the mean of those that are known", "", &modelfile.Strengths{Reasoning: number(1), InstructionFollowing: number(0.2)}, policy.QualityMedium},
	} {
		if got := c.At("p", modelfile.Model{ID: "m", Quality: row.said, Strengths: row.strengths}).Quality; got != row.want {
			t.Errorf("%s: got %s, want %s", row.about, got, row.want)
		}
	}
	both := catalog.New(
		parse(t, "models: [{id: m, strengths: {reasoning: 1, defi_knowledge: 0}}]"), parse(t, "models: [{id: m, strengths: {defi_knowledge: 0.8}}]"),
	)
	if got := look(both, "m"); got.Quality != policy.QualityMaximum || got.Strengths.Known()["defi_knowledge"] != 0.8 {
		t.Errorf("merged to %v %v", got.Quality, got.Strengths.Known())
	}
}
