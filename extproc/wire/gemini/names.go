package gemini

import (
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Names is the form of a request: the members of the API, in both spellings.
var Names = func() *jsonx.Form {
	f := jsonx.NewCamelForm(
		// Top level.
		"model", "contents", "tools", "toolConfig", "safetySettings", "systemInstruction", "generationConfig", "cachedContent", "store",
		"serviceTier", "generateContentRequest",
		// Nested.
		"role", "parts", "text", "thought", "thoughtSignature", "inlineData", "mimeType", "data", "displayName", "fileData", "fileUri", "functionCall",
		"id", "name", "partialArgs", "willContinue", "jsonPath", "stringValue", "numberValue", "boolValue", "nullValue", "functionResponse",
		"scheduling", "executableCode", "code", "language", "codeExecutionResult", "toolCall", "toolResponse", "toolType", "outcome", "output", "videoMetadata", "startOffset", "endOffset",
		"fps", "mediaResolution", "level", "functionDeclarations", "description", "behavior", "googleSearch", "googleSearchRetrieval",
		"dynamicRetrievalConfig", "dynamicThreshold", "timeRangeFilter", "startTime", "endTime", "excludeDomains", "codeExecution", "urlContext",
		"computerUse", "environment", "excludedPredefinedFunctions", "fileSearch", "fileSearchStoreNames", "metadataFilter", "googleMaps",
		"enableWidget", "retrieval", "enterpriseWebSearch", "functionCallingConfig", "mode", "allowedFunctionNames", "streamFunctionCallArguments",
		"includeServerSideToolInvocations", "retrievalConfig", "latLng", "latitude", "longitude", "languageCode", "category", "threshold", "method",
		"stopSequences", "responseMimeType", "responseModalities", "candidateCount", "maxOutputTokens", "temperature", "topP", "topK", "seed",
		"presencePenalty", "frequencyPenalty", "responseLogprobs", "logprobs", "enableEnhancedCivicAnswers", "audioTimestamp", "speechConfig",
		"voiceConfig", "prebuiltVoiceConfig", "voiceName", "multiSpeakerVoiceConfig", "speakerVoiceConfigs", "speaker", "thinkingConfig",
		"includeThoughts", "thinkingBudget", "thinkingLevel", "imageConfig", "aspectRatio", "imageSize", wire.HintKey)
	f.Add(wire.CamelSchema, "parameters", "responseSchema")
	f.Add(wire.Schema, "parametersJsonSchema", "responseJsonSchema", "_responseJsonSchema")
	f.Add(nil, "args", "response", "labels", "partMetadata")
	return f.Clone().Add(wire.Hints, wire.HintKey)
}()
