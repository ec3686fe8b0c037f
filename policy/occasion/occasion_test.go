package occasion_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/occasion"
)

// TestP17WhenAgentsHaveWhatOfThePrivateProvider: by the owner's rules, the agent's phase and its dreams; others always.
func TestP17WhenAgentsHaveWhatOfThePrivateProvider(t *testing.T) {
	t.Parallel()
	all := &occasion.Rules{Embeddings: true, Alerts: true, Artifacts: true}
	for _, row := range []struct {
		rules *occasion.Rules
		f     policy.Feature
		phase policy.Phase
		dream string
		want  string
	}{
		{nil, policy.ImageGeneration, policy.PhaseUnset, "", ""},
		{all, policy.Embeddings, policy.PhaseUnset, "", ""},
		{&occasion.Rules{}, policy.Embeddings, policy.PhaseTerminal, "d", "multimodal.embeddings"},
		{all, policy.Speech, policy.PhaseUnset, "", "alerts"},
		{all, policy.Speech, policy.PhaseStable, "", "alerts"},
		{all, policy.Speech, policy.PhaseConservation, "", ""},
		{all, policy.Speech, policy.PhaseDeclining, "", ""},
		{all, policy.Speech, policy.PhaseTerminal, "", ""},
		{&occasion.Rules{}, policy.Speech, policy.PhaseTerminal, "", "multimodal.tts_alerts"},
		{all, policy.ImageGeneration, policy.PhaseTerminal, "d", ""},
		{all, policy.ImageGeneration, policy.PhaseTerminal, "", "last dream"},
		{all, policy.ImageGeneration, policy.PhaseDeclining, "d", "last dream"},
		{&occasion.Rules{}, policy.ImageGeneration, policy.PhaseTerminal, "d", "multimodal.image_generation"},
		{&occasion.Rules{}, policy.Transcription, policy.PhaseUnset, "", ""},
	} {
		h := &policy.Hints{GolemID: "g", Phase: row.phase, DreamCycleID: row.dream}
		if got := row.rules.Withholds(row.f, h); (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%+v of %v in %v, dream %q: %q", row.f, row.rules, row.phase, row.dream, got)
		}
		h.GolemID = ""
		if got := row.rules.Withholds(row.f, h); got != "" {
			t.Errorf("%v for no agent: %q", row.f, got)
		}
	}
}
