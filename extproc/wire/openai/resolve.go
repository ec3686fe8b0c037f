package openai

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// resolvedParams are the parameters of a request to a provider: the client's and the profile's, as far as the provider supports them.
type resolvedParams struct {
	chat.Params
	byProfile bool // the profile, not the client, sets the effort of thinking
	mayPrompt bool // the prompt may express what no parameter can
	degraded  []string
}

// resolveParams merges a profile into the client's own parameters. What the profile sets and the provider does not support is named as
// degraded; the client's own parameters stay.
func resolveParams(p *chat.Profile, own chat.Params, o *RequestOptions) resolvedParams {
	merged, overridden := p.Over(own)
	s := resolvedParams{Params: merged, byProfile: merged.Effort != own.Effort || merged.ThinkingBudget != own.ThinkingBudget || merged.Thinking != own.Thinking}
	if p == nil {
		return s
	}
	s.mayPrompt = p.Guides(&own)
	for _, name := range overridden {
		s.degrade(name)
	}
	s.sampling(&own, o)
	if s.CacheKey != own.CacheKey && !o.CacheKey { // its absence increases the cost, and does not affect the answer
		s.CacheKey = own.CacheKey
	}
	if s.Predicted != own.Predicted && !o.Predictions {
		s.Predicted = own.Predicted
		s.degrade("predicted_output")
	}
	if s.WebSearch != nil && *s.WebSearch && !o.WebSearch {
		s.degrade("web_search")
	}
	if s.TEE && !o.TEE {
		s.degrade("tee_mode")
	}
	return s
}

func (s *resolvedParams) degrade(name string) {
	if name == "effort" {
		name = "reasoning_effort"
	}
	s.degraded = wire.AppendDegraded(s.degraded, name)
}

// sampling resolves the sampling parameters.
func (s *resolvedParams) sampling(own *chat.Params, o *RequestOptions) {
	fixed := o.fixed(s.Effort)
	sampled, degraded := wire.ApproximateSampling(*own, s.Params, o.TopK, o.MinP, !fixed)
	s.Params = sampled
	for _, name := range degraded {
		s.degrade(name)
	}
	if !fixed {
		return
	}
	before, now := samplingOf(own), samplingOf(&s.Params)
	for i, text := range now {
		if *text == *before[i] {
			continue
		}
		if !equalsDefault(*text, sampling[i].defaultValue) {
			s.degrade(sampling[i].key)
		}
		*text = ""
	}
}

// samplingOf returns the parameters of the table sampling, in its order.
func samplingOf(p *chat.Params) [len(sampling)]*string {
	return [...]*string{&p.Temperature, &p.TopP, &p.PresencePenalty, &p.FrequencyPenalty}
}
