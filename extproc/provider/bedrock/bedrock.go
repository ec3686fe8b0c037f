// Package bedrock calls Amazon Bedrock's endpoint for the formats of others (bedrock-mantle): Claude in Anthropic's Messages, all other models in
// OpenAI's Chat Completions. A call carries a Bedrock API key, or is signed with AWS credentials (Signature Version 4).
// Documentation: https://docs.aws.amazon.com/bedrock/latest/userguide/bedrock-mantle.html.
package bedrock

import (
	"cmp"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/dual"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Adapter is the provider of kind "bedrock". The zero value is ready.
type Adapter struct{ formats dual.Formats }

var (
	_ provider.Described = Adapter{}
	_ provider.Amender   = Adapter{}
	_ provider.Charging  = Adapter{}
)

// Name is "bedrock".
func (Adapter) Name() string { return "bedrock" }

// The APIs, below the base URL.
const (
	messagesPath = "/anthropic/v1"
	openAIPath   = "/openai/v1"
)

// inFamily returns the resolution with Claude's family if its model has one of Bedrock's names for Claude: "anthropic.claude-opus-4-8".
func inFamily(to policy.Resolution) policy.Resolution {
	if to.Family == "" && strings.HasPrefix(model(&to), "anthropic.") {
		to.Family = dual.Claude
	}
	return to
}

// model is Bedrock's name of a model.
func model(to *policy.Resolution) string { return cmp.Or(to.Upstream, string(to.Model)) }

// Dialect is Anthropic's for Claude, else OpenAI's.
func (a Adapter) Dialect(to policy.Resolution, at provider.Endpoint, d chat.Dialect) chat.Dialect {
	return a.formats.Dialect(inFamily(to), at, d)
}

// Charges are those of the format: Bedrock is no aggregator.
func (Adapter) Charges(_ *policy.Resolution, _ provider.Endpoint, d chat.Dialect) provider.Charges {
	if d == chat.Anthropic {
		return anthropic.Charges
	}
	return openai.Charges
}

// Encode writes a call in the format of the model's family.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	call, err := a.write(buf, req, inFamily(to), at)
	if err != nil {
		return nil, err
	}
	if err := authorize(call, "POST", at, time.Now()); err != nil {
		return nil, fault.New(fault.Internal, "the request could not be signed for this provider", err)
	}
	return call, nil
}

func (a Adapter) write(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	base := at.BasePath
	if a.formats.Dialect(to, at, req.Dialect) == chat.Anthropic {
		at.BasePath = base + messagesPath
		call, err := anthropic.NewCall(buf, req, to, at, anthropic.StripUnsigned)
		if err != nil {
			return nil, err
		}
		anthropic.Interleave(call, req, to)
		return call, nil
	}
	at.BasePath = base + openAIPath
	return openai.NewCall(buf, req, at, openai.ForHost(&to, openai.ReasoningEffort))
}

// Amend returns the resolution for another attempt without what Bedrock refused: thinking, or beta features.
func (a Adapter) Amend(req *chat.Request, to policy.Resolution, at provider.Endpoint, refusal *chat.ProviderError) (policy.Resolution, bool) {
	if a.Dialect(to, at, req.Dialect) == chat.Anthropic {
		return anthropic.Amend(req, to, refusal)
	}
	return openai.Amend(to, refusal)
}

// NewDecoder reads the answer of such a call.
func (a Adapter) NewDecoder(req *chat.Request, to policy.Resolution, at provider.Endpoint, status int, h header.List) provider.Decoder {
	return a.formats.NewDecoder(req, inFamily(to), at, status, h)
}

// Ping lists the models.
func (Adapter) Ping(at provider.Endpoint) *provider.Call {
	base := at
	base.BasePath += openAIPath
	call := openai.Ping(base)
	if err := authorize(call, "GET", at, time.Now()); err != nil {
		call.Header = nil // it is refused, as with any other wrong credential
	}
	return call
}
