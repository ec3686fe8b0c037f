package openrouter

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	wire "bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
)

// Members that bypass the operator's list of models or run a plugin; online is a plugin that the model's name requests.
const (
	plugins    = "plugins"
	preset     = "preset"
	online     = ":online"
	presetName = "@preset/"
)

// Charges are those of the format and of OpenRouter's own members, except those that the operator allows.
func (Adapter) Charges(_ *policy.Resolution, at provider.Endpoint, _ chat.Dialect) provider.Charges {
	own := slices.DeleteFunc(provider.Aggregator(), func(m provider.ChargedMember) bool { return slices.Contains(at.Allow, m.Path[0]) })
	c := wire.Charges.With(own...)
	for name, ending := range map[string]string{plugins: online, preset: presetName} {
		if !slices.Contains(at.Allow, name) {
			c.Models = append(c.Models, ending)
		}
	}
	return c
}
