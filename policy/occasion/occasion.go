// Package occasion decides which of agents' requests for embeddings, speech and images the private provider may serve, by the owner's rules. It does
// not know the content of requests, nor when an agent should send one.
package occasion

import "bardo.money/gateway/policy"

// Rules are an owner's rules for agents' requests. Nil withholds nothing.
type Rules struct {
	Embeddings bool // agents may embed what they know, to compare it with others'
	Alerts     bool // speech, for an agent in trouble
	Artifacts  bool // images, by the last dreams of an agent
}

// Withholds returns why the provider may not serve an agent's request for a feature, as a clause; "" if it may, and for clients that are not agents.
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
