package cache

import "bardo.money/gateway/internal/jsonx"

// The parts of each dialect's requests that the canonical form represents completely. A test changes every value of requests with these
// shapes and expects a different key.

var openAIRequest = objectOf(map[string]*shape{
	"model": text, "stream": boolean, "stream_options": anyValue, "bardo": gatewayHint,
	"max_tokens": positiveInt, "max_completion_tokens": positiveInt, "n": positiveInt,
	"messages":    listOf(openAIMessage),
	"tools":       listOf(openAITool),
	"tool_choice": either(oneOf("auto", "none", "required"), openAIChoice), "parallel_tool_calls": boolean,
	"temperature": number, "top_p": number, "presence_penalty": number, "frequency_penalty": number, "seed": number,
	"stop": either(text, listOf(text)), "user": text, "reasoning_effort": text,
	"response_format": {tag: "type", kinds: map[string]*shape{
		"text":        objectOf(nil),
		"json_schema": objectOf(map[string]*shape{"json_schema": objectOf(map[string]*shape{"name": text, "schema": object})}),
	}},
})

var openAIMessage = &shape{tag: "role", kinds: map[string]*shape{
	"system": objectOf(map[string]*shape{"content": openAIContent, "bardo": gatewayHint, "cache_control": cacheControl}),
	"user":   objectOf(map[string]*shape{"content": openAIContent, "bardo": gatewayHint, "cache_control": cacheControl}),
	"tool":   objectOf(map[string]*shape{"content": openAIContent, "tool_call_id": text, "bardo": gatewayHint, "cache_control": cacheControl}),
	"assistant": objectOf(map[string]*shape{
		"content": openAIContent, "refusal": text, "reasoning_content": text, "tool_calls": listOf(openAICall), "bardo": gatewayHint, "cache_control": cacheControl,
	}),
}}

var openAIContent = either(text, listOf(&shape{tag: "type", kinds: map[string]*shape{
	"text":      objectOf(map[string]*shape{"text": text, "bardo": gatewayHint, "cache_control": cacheControl}),
	"refusal":   objectOf(map[string]*shape{"refusal": text, "bardo": gatewayHint}),
	"image_url": objectOf(map[string]*shape{"image_url": objectOf(map[string]*shape{"url": urlText}), "bardo": gatewayHint, "cache_control": cacheControl}),
	"file": objectOf(map[string]*shape{
		"file": objectOf(map[string]*shape{"filename": text, "file_data": urlText}), "bardo": gatewayHint, "cache_control": cacheControl,
	}),
}}))

var openAICall = &shape{tag: "type", kinds: map[string]*shape{
	"function": objectOf(map[string]*shape{
		"id": text, "function": objectOf(map[string]*shape{"name": text, "arguments": text}), "cache_control": cacheControl,
	}),
}}

var openAITool = &shape{tag: "type", kinds: map[string]*shape{
	"function": objectOf(map[string]*shape{
		"function": objectOf(map[string]*shape{"name": text, "description": text, "parameters": object, "strict": boolean}), "bardo": gatewayHint, "cache_control": cacheControl,
	}),
}}

var openAIChoice = &shape{tag: "type", kinds: map[string]*shape{
	"function": objectOf(map[string]*shape{"function": objectOf(map[string]*shape{"name": text})}),
}}

var anthropicRequest = objectOf(map[string]*shape{
	"model": text, "stream": boolean, "bardo": gatewayHint, "max_tokens": positiveInt,
	"system":      either(text, listOf(anthropicText)),
	"messages":    listOf(anthropicMessage),
	"tools":       listOf(anthropicTool),
	"tool_choice": anthropicChoice,
	"temperature": number, "top_p": number, "top_k": number, "stop_sequences": listOf(text),
	"metadata": objectOf(map[string]*shape{"user_id": text}),
	"thinking": {tag: "type", kinds: map[string]*shape{"enabled": objectOf(map[string]*shape{"budget_tokens": positiveInt})}},
	"output_config": objectOf(map[string]*shape{"effort": text, "format": {tag: "type", kinds: map[string]*shape{
		"json_schema": objectOf(map[string]*shape{"schema": object}),
	}}}),
})

var anthropicMessage = &shape{tag: "role", kinds: map[string]*shape{
	"user":      objectOf(map[string]*shape{"content": either(text, listOf(anthropicBlock)), "bardo": gatewayHint}),
	"assistant": objectOf(map[string]*shape{"content": either(text, listOf(anthropicBlock)), "bardo": gatewayHint}),
}}

var anthropicText = &shape{tag: "type", kinds: map[string]*shape{
	"text": objectOf(map[string]*shape{"text": text, "bardo": gatewayHint, "cache_control": cacheControl}),
}}

var anthropicImage = objectOf(map[string]*shape{
	"source": {tag: "type", kinds: map[string]*shape{
		"base64": objectOf(map[string]*shape{"media_type": text, "data": text}),
		"url":    objectOf(map[string]*shape{"url": text}),
	}},
	"bardo": gatewayHint, "cache_control": cacheControl,
})

var anthropicDocument = objectOf(map[string]*shape{
	"source": {tag: "type", kinds: map[string]*shape{
		"base64": objectOf(map[string]*shape{"media_type": text, "data": text}),
		"text":   objectOf(map[string]*shape{"media_type": oneOf("text/plain"), "data": text}),
		"url":    objectOf(map[string]*shape{"url": text}),
	}},
	"title": text, "bardo": gatewayHint, "cache_control": cacheControl,
})

var anthropicBlock = &shape{tag: "type", kinds: map[string]*shape{
	"text":              anthropicText.kinds["text"],
	"image":             anthropicImage,
	"document":          anthropicDocument,
	"tool_use":          objectOf(map[string]*shape{"id": text, "name": text, "input": object, "bardo": gatewayHint, "cache_control": cacheControl}),
	"thinking":          objectOf(map[string]*shape{"thinking": text, "signature": text}),
	"redacted_thinking": objectOf(map[string]*shape{"data": text}),
	"tool_result": objectOf(map[string]*shape{
		"tool_use_id": text, "is_error": boolean, "bardo": gatewayHint, "cache_control": cacheControl,
		"content": either(text, listOf(&shape{tag: "type", kinds: map[string]*shape{
			"text": anthropicText.kinds["text"], "image": anthropicImage, "document": anthropicDocument,
		}})),
	}),
}}

var anthropicTool = objectOf(map[string]*shape{
	"type": oneOf("custom"), "name": text, "description": text, "input_schema": object, "strict": boolean, "bardo": gatewayHint, "cache_control": cacheControl,
})

var anthropicChoice = &shape{tag: "type", kinds: map[string]*shape{
	"auto": objectOf(map[string]*shape{"disable_parallel_tool_use": boolean}),
	"any":  objectOf(map[string]*shape{"disable_parallel_tool_use": boolean}),
	"none": objectOf(nil),
	"tool": objectOf(map[string]*shape{"name": text, "disable_parallel_tool_use": boolean}),
}}

var responsesRequest = objectOf(map[string]*shape{
	"model": text, "stream": boolean, "stream_options": anyValue, "bardo": gatewayHint, "max_output_tokens": positiveInt,
	"instructions": text,
	"input":        either(text, listOf(responsesItem)),
	"tools":        listOf(responsesTool),
	"tool_choice":  either(oneOf("auto", "none", "required"), responsesChoice), "parallel_tool_calls": boolean,
	"temperature": number, "top_p": number, "user": text,
	"reasoning": objectOf(map[string]*shape{"effort": text}),
	"store":     {is: func(v jsonx.Value) bool { return string(v.Raw) == "false" }}, // store: true means different things at different providers
	"text": objectOf(map[string]*shape{"format": {tag: "type", kinds: map[string]*shape{
		"text":        objectOf(nil),
		"json_schema": objectOf(map[string]*shape{"name": text, "schema": object}),
	}}}),
})

// The type of a message is optional.
var (
	responsesMessage = objectOf(map[string]*shape{"role": oneOf("user", "assistant"), "content": responsesContent, "bardo": gatewayHint})
	responsesItem    = &shape{tag: "type", kinds: map[string]*shape{
		"": responsesMessage, "message": responsesMessage,
		"function_call":        objectOf(map[string]*shape{"call_id": text, "name": text, "arguments": text, "bardo": gatewayHint}),
		"function_call_output": objectOf(map[string]*shape{"call_id": text, "output": responsesContent, "bardo": gatewayHint}),
	}}
)

var responsesContent = either(text, listOf(&shape{tag: "type", kinds: map[string]*shape{
	"input_text":  objectOf(map[string]*shape{"text": text, "bardo": gatewayHint}),
	"output_text": objectOf(map[string]*shape{"text": text, "bardo": gatewayHint}),
	"refusal":     objectOf(map[string]*shape{"refusal": text, "bardo": gatewayHint}),
	"input_image": objectOf(map[string]*shape{"image_url": urlText, "detail": oneOf("auto"), "bardo": gatewayHint}),
	"input_file":  objectOf(map[string]*shape{"filename": text, "file_data": urlText, "bardo": gatewayHint}),
}}))

var responsesTool = &shape{tag: "type", kinds: map[string]*shape{
	"function": objectOf(map[string]*shape{"name": text, "description": text, "parameters": object, "strict": boolean, "bardo": gatewayHint}),
}}

var responsesChoice = &shape{tag: "type", kinds: map[string]*shape{"function": objectOf(map[string]*shape{"name": text})}}
