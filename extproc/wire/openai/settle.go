package openai

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// settled is what a request says to a provider once the client, its profile and the provider's ways have had their say.
type settled struct {
	chat.Params
	profiled bool // the profile says how hard to think, not the client
	guides   bool // and what no parameter can say may be written into the prompt
	names    []string
}

// settle puts a profile behind, or over, what the client says itself, as far as the provider has words for it. What the profile says and
// the provider does not take is named; the client's own stays as it is.
func settle(p *chat.Profile, own chat.Params, o *RequestOptions) settled {
	said, overridden := p.Over(own)
	s := settled{Params: said, profiled: said.Effort != own.Effort || said.ThinkingBudget != own.ThinkingBudget || said.Thinking != own.Thinking}
	if p == nil {
		return s
	}
	s.guides = p.Guides(&own)
	for _, name := range overridden {
		s.lose(name)
	}
	s.sampling(&own, o)
	if s.CacheKey != own.CacheKey && !o.CacheKey { // costs more, and changes nothing
		s.CacheKey = own.CacheKey
	}
	if s.Predicted != own.Predicted && !o.Predictions {
		s.Predicted = own.Predicted
		s.lose("predicted_output")
	}
	if s.WebSearch != nil && *s.WebSearch && !o.WebSearch {
		s.lose("web_search")
	}
	if s.TEE && !o.TEE {
		s.lose("tee_mode")
	}
	return s
}

func (s *settled) lose(name string) {
	if name == "effort" {
		name = "reasoning_effort"
	}
	s.names = wire.Named(s.names, name)
}

// sampling settles how the model draws its words.
func (s *settled) sampling(own *chat.Params, o *RequestOptions) {
	fixed := o.fixed(s.Effort)
	drawn, lost := wire.Draws(*own, s.Params, o.TopK, o.MinP, !fixed)
	s.Params = drawn
	for _, name := range lost {
		s.lose(name)
	}
	if !fixed {
		return
	}
	before, now := samplingOf(own), samplingOf(&s.Params)
	for i, text := range now {
		if *text == *before[i] {
			continue
		}
		if !usual(*text, sampling[i].usual) {
			s.lose(sampling[i].key)
		}
		*text = ""
	}
}

// samplingOf are the parameters that sampling names, in its order.
func samplingOf(p *chat.Params) [len(sampling)]*string {
	return [...]*string{&p.Temperature, &p.TopP, &p.PresencePenalty, &p.FrequencyPenalty}
}
