package policy

import "slices"

// The features: one closed set, each with one spelling.
const (
	Privacy              Feature = "privacy"
	VisibleThinking      Feature = "visible_thinking"
	InterleavedThinking  Feature = "interleaved_thinking"
	AdaptiveThinking     Feature = "adaptive_thinking"
	LowEffort            Feature = "low_effort"
	Citations            Feature = "citations"
	Compaction           Feature = "compaction"
	StructuredOutputs    Feature = "structured_outputs"
	PredictedOutputs     Feature = "predicted_outputs"
	BatchAPI             Feature = "batch_api"
	ExplicitCaching      Feature = "explicit_caching"
	ResponsesAPI         Feature = "responses_api"
	DirectPassthrough    Feature = "direct_passthrough"
	PromptCaching        Feature = "prompt_caching"
	WebSearch            Feature = "web_search"
	TEEAttested          Feature = "tee_attested"
	NoLog                Feature = "no_log"
	Tools                Feature = "tools"
	Vision               Feature = "vision"
	Audio                Feature = "audio"            // audio input
	Video                Feature = "video"            // video input
	Documents            Feature = "documents"        // input of files such as PDF
	TextCompletions      Feature = "text_completions" // OpenAI's legacy completions endpoint
	Embeddings           Feature = "embeddings"       // creates embeddings only
	ImageGeneration      Feature = "image_generation" // creates images only
	Speech               Feature = "speech"           // text to speech only
	Transcription        Feature = "transcription"    // speech to text only
	Moderation           Feature = "moderation"       // classifies content only
	Rerank               Feature = "rerank"           // orders documents by a query only
	Realtime             Feature = "realtime"         // holds realtime sessions only
	SelfFunding          Feature = "self_funding"
	CrossVerify          Feature = "cross_verify"
	NativeAPI            Feature = "native_api"
	NoContextEngineering Feature = "no_context_engineering"
	EndToEndEncryption   Feature = "e2ee"
	aliasPrivate         Feature = "private"
	aliasResponseSchema  Feature = "response_schema"
)

var features = []Feature{
	Privacy, VisibleThinking, InterleavedThinking, AdaptiveThinking, LowEffort, Citations, Compaction, StructuredOutputs,
	PredictedOutputs, BatchAPI, ExplicitCaching, ResponsesAPI, DirectPassthrough, PromptCaching, WebSearch, TEEAttested, NoLog,
	Tools, Vision, SelfFunding, CrossVerify, NativeAPI, NoContextEngineering, EndToEndEncryption, Audio, Video, Documents, Embeddings, TextCompletions,
	ImageGeneration, Speech, Transcription, Moderation, Rerank, Realtime,
}

// Features returns a copy of the closed set.
func Features() []Feature { return slices.Clone(features) }

// VendorFeatures returns the features that only a vendor's own API has.
func VendorFeatures() []Feature {
	return []Feature{PredictedOutputs, BatchAPI, ExplicitCaching, ResponsesAPI, DirectPassthrough}
}

// ParseFeature reads a feature by its spelling or an accepted alias; ok is false for anything else.
func ParseFeature(s string) (f Feature, ok bool) {
	switch f = Feature(s); f {
	case aliasPrivate:
		return Privacy, true
	case aliasResponseSchema:
		return StructuredOutputs, true
	default:
		return f, slices.Contains(features, f)
	}
}

// SpecialFeatures returns the features of models that serve a single kind of endpoint, and no conversations.
func SpecialFeatures() []Feature {
	return []Feature{Embeddings, ImageGeneration, Speech, Transcription, Moderation, Rerank, Realtime}
}

// Special returns the single feature of a special model, "" for a chat model.
func Special(features []Feature) Feature {
	for _, f := range SpecialFeatures() {
		if slices.Contains(features, f) {
			return f
		}
	}
	return ""
}

// KeepsPrivate reports whether a feature means that a provider does not retain, or cannot read, its input.
func (f Feature) KeepsPrivate() bool {
	return f == Privacy || f == NoLog || f == TEEAttested || f == EndToEndEncryption
}
