package cache

import "bardo.money/gateway/internal/jsonx"

// What the dialects' requests may hold and still be said completely by the canonical form. A test changes every value of requests
// of these shapes and looks for another key.

var openAIRequest = of(map[string]*shape{
	"model": text, "stream": truth, "stream_options": whole, "bardo": hint,
	"max_tokens": tokens, "max_completion_tokens": tokens, "n": tokens,
	"messages":    listOf(openAIMessage),
	"tools":       listOf(openAITool),
	"tool_choice": either(word("auto", "none", "required"), openAIChoice), "parallel_tool_calls": truth,
	"temperature": number, "top_p": number, "presence_penalty": number, "frequency_penalty": number, "seed": number,
	"stop": either(text, listOf(text)), "user": text, "reasoning_effort": text,
	"response_format": {tag: "type", kinds: map[string]*shape{
		"text":        of(nil),
		"json_schema": of(map[string]*shape{"json_schema": of(map[string]*shape{"name": text, "schema": object})}),
	}},
})

var openAIMessage = &shape{tag: "role", kinds: map[string]*shape{
	"system": of(map[string]*shape{"content": openAIContent, "bardo": hint, "cache_control": mark}),
	"user":   of(map[string]*shape{"content": openAIContent, "bardo": hint, "cache_control": mark}),
	"tool":   of(map[string]*shape{"content": openAIContent, "tool_call_id": text, "bardo": hint, "cache_control": mark}),
	"assistant": of(map[string]*shape{
		"content": openAIContent, "refusal": text, "reasoning_content": text, "tool_calls": listOf(openAICall), "bardo": hint, "cache_control": mark,
	}),
}}

var openAIContent = either(text, listOf(&shape{tag: "type", kinds: map[string]*shape{
	"text":      of(map[string]*shape{"text": text, "bardo": hint, "cache_control": mark}),
	"refusal":   of(map[string]*shape{"refusal": text, "bardo": hint}),
	"image_url": of(map[string]*shape{"image_url": of(map[string]*shape{"url": located}), "bardo": hint, "cache_control": mark}),
	"file": of(map[string]*shape{
		"file": of(map[string]*shape{"filename": text, "file_data": located}), "bardo": hint, "cache_control": mark,
	}),
}}))

var openAICall = &shape{tag: "type", kinds: map[string]*shape{
	"function": of(map[string]*shape{
		"id": text, "function": of(map[string]*shape{"name": text, "arguments": text}), "cache_control": mark,
	}),
}}

var openAITool = &shape{tag: "type", kinds: map[string]*shape{
	"function": of(map[string]*shape{
		"function": of(map[string]*shape{"name": text, "description": text, "parameters": object, "strict": truth}), "bardo": hint, "cache_control": mark,
	}),
}}

var openAIChoice = &shape{tag: "type", kinds: map[string]*shape{
	"function": of(map[string]*shape{"function": of(map[string]*shape{"name": text})}),
}}

var anthropicRequest = of(map[string]*shape{
	"model": text, "stream": truth, "bardo": hint, "max_tokens": tokens,
	"system":      either(text, listOf(anthropicText)),
	"messages":    listOf(anthropicMessage),
	"tools":       listOf(anthropicTool),
	"tool_choice": anthropicChoice,
	"temperature": number, "top_p": number, "top_k": number, "stop_sequences": listOf(text),
	"metadata": of(map[string]*shape{"user_id": text}),
	"thinking": {tag: "type", kinds: map[string]*shape{"enabled": of(map[string]*shape{"budget_tokens": tokens})}},
	"output_config": of(map[string]*shape{"effort": text, "format": {tag: "type", kinds: map[string]*shape{
		"json_schema": of(map[string]*shape{"schema": object}),
	}}}),
})

var anthropicMessage = &shape{tag: "role", kinds: map[string]*shape{
	"user":      of(map[string]*shape{"content": either(text, listOf(anthropicBlock)), "bardo": hint}),
	"assistant": of(map[string]*shape{"content": either(text, listOf(anthropicBlock)), "bardo": hint}),
}}

var anthropicText = &shape{tag: "type", kinds: map[string]*shape{
	"text": of(map[string]*shape{"text": text, "bardo": hint, "cache_control": mark}),
}}

var anthropicImage = of(map[string]*shape{
	"source": {tag: "type", kinds: map[string]*shape{
		"base64": of(map[string]*shape{"media_type": text, "data": text}),
		"url":    of(map[string]*shape{"url": text}),
	}},
	"bardo": hint, "cache_control": mark,
})

var anthropicDocument = of(map[string]*shape{
	"source": {tag: "type", kinds: map[string]*shape{
		"base64": of(map[string]*shape{"media_type": text, "data": text}),
		"text":   of(map[string]*shape{"media_type": word("text/plain"), "data": text}),
		"url":    of(map[string]*shape{"url": text}),
	}},
	"title": text, "bardo": hint, "cache_control": mark,
})

var anthropicBlock = &shape{tag: "type", kinds: map[string]*shape{
	"text":              anthropicText.kinds["text"],
	"image":             anthropicImage,
	"document":          anthropicDocument,
	"tool_use":          of(map[string]*shape{"id": text, "name": text, "input": object, "bardo": hint, "cache_control": mark}),
	"thinking":          of(map[string]*shape{"thinking": text, "signature": text}),
	"redacted_thinking": of(map[string]*shape{"data": text}),
	"tool_result": of(map[string]*shape{
		"tool_use_id": text, "is_error": truth, "bardo": hint, "cache_control": mark,
		"content": either(text, listOf(&shape{tag: "type", kinds: map[string]*shape{
			"text": anthropicText.kinds["text"], "image": anthropicImage, "document": anthropicDocument,
		}})),
	}),
}}

var anthropicTool = of(map[string]*shape{
	"type": word("custom"), "name": text, "description": text, "input_schema": object, "strict": truth, "bardo": hint, "cache_control": mark,
})

var anthropicChoice = &shape{tag: "type", kinds: map[string]*shape{
	"auto": of(map[string]*shape{"disable_parallel_tool_use": truth}),
	"any":  of(map[string]*shape{"disable_parallel_tool_use": truth}),
	"none": of(nil),
	"tool": of(map[string]*shape{"name": text, "disable_parallel_tool_use": truth}),
}}

var responsesRequest = of(map[string]*shape{
	"model": text, "stream": truth, "stream_options": whole, "bardo": hint, "max_output_tokens": tokens,
	"instructions": text,
	"input":        either(text, listOf(responsesItem)),
	"tools":        listOf(responsesTool),
	"tool_choice":  either(word("auto", "none", "required"), responsesChoice), "parallel_tool_calls": truth,
	"temperature": number, "top_p": number, "user": text,
	"reasoning": of(map[string]*shape{"effort": text}),
	"store":     {is: func(v jsonx.Value) bool { return string(v.Raw) == "false" }}, // nothing is kept, whoever answers
	"text": of(map[string]*shape{"format": {tag: "type", kinds: map[string]*shape{
		"text":        of(nil),
		"json_schema": of(map[string]*shape{"name": text, "schema": object}),
	}}}),
})

// What a message is may be left unsaid.
var (
	responsesMessage = of(map[string]*shape{"role": word("user", "assistant"), "content": responsesContent, "bardo": hint})
	responsesItem    = &shape{tag: "type", kinds: map[string]*shape{
		"": responsesMessage, "message": responsesMessage,
		"function_call":        of(map[string]*shape{"call_id": text, "name": text, "arguments": text, "bardo": hint}),
		"function_call_output": of(map[string]*shape{"call_id": text, "output": responsesContent, "bardo": hint}),
	}}
)

var responsesContent = either(text, listOf(&shape{tag: "type", kinds: map[string]*shape{
	"input_text":  of(map[string]*shape{"text": text, "bardo": hint}),
	"output_text": of(map[string]*shape{"text": text, "bardo": hint}),
	"refusal":     of(map[string]*shape{"refusal": text, "bardo": hint}),
	"input_image": of(map[string]*shape{"image_url": located, "detail": word("auto"), "bardo": hint}),
	"input_file":  of(map[string]*shape{"filename": text, "file_data": located, "bardo": hint}),
}}))

var responsesTool = &shape{tag: "type", kinds: map[string]*shape{
	"function": of(map[string]*shape{"name": text, "description": text, "parameters": object, "strict": truth, "bardo": hint}),
}}

var responsesChoice = &shape{tag: "type", kinds: map[string]*shape{"function": of(map[string]*shape{"name": text})}}
