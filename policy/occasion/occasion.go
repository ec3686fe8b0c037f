// Package occasion says when agents may have embeddings, speech and images of the private provider, as their owner wants it. It does not know what is asked for in
// words, nor when an agent should ask.
package occasion

import "bardo.money/gateway/policy"

// Rules are an owner's wishes for agents' requests. Nil withholds nothing.
type Rules struct {
	Embeddings bool // of agents, which compare what they know with others'
	Alerts     bool // speech, for an agent in trouble
	Artifacts  bool // images, by the last dreams of an agent
}

// Withholds is why an agent's request for a feature is not for the provider, as a half-sentence; "" if it may be, and for callers that are no agents.
func (r *Rules) Withholds(f policy.Feature, h *policy.Hints) string {
	if r == nil || h.GolemID == "" {
		return ""
	}
	switch f { //nolint:exhaustive // the others have no occasion
	case policy.Embeddings:
		if !r.Embeddings {
			return "embeddings of agents are off (multimodal.embeddings)"
		}
	case policy.Speech:
		switch {
		case !r.Alerts:
			return "speech is off (multimodal.tts_alerts)"
		case h.Phase != policy.PhaseConservation && h.Phase != policy.PhaseDeclining && h.Phase != policy.PhaseTerminal:
			return "speech is for alerts, in the phases conservation, declining and terminal (X-Bardo-Phase)"
		}
	case policy.ImageGeneration:
		switch {
		case !r.Artifacts:
			return "images are off (multimodal.image_generation)"
		case h.Phase != policy.PhaseTerminal || h.DreamCycleID == "":
			return "images are for the last dream cycle, in the phase terminal (X-Bardo-Phase, X-Bardo-Dream-Cycle-Id)"
		}
	}
	return ""
}
