package fake

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"bardo.money/gateway/internal/rawjson"
)

// responses is OpenAI Responses, which OpenAI serves beside Chat Completions. It remembers the responses that it gave.
type responses struct {
	openAI
	kept *sync.Map // ids of responses
}

var responsesParams = []string{
	"background", "client_metadata", "context_management", "conversation", "include", "input", "instructions", "max_output_tokens", "max_tool_calls", "metadata",
	"model", "parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_retention", "reasoning",
	"safety_identifier", "service_tier", "store", "stream", "stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs",
	"top_p", "truncation", "user",
}

var responsesTools = []string{
	"function", "custom", "web_search", "web_search_preview", "file_search", "code_interpreter", "mcp", "image_generation", "local_shell",
	"computer_use_preview", "shell", "apply_patch", "tool_search", "namespace",
}

// sealedReasoning begins what this provider encrypts, as the real one's does.
const sealedReasoning = "gAAAAAB"

func (p responses) read(h http.Header, body []byte, cfg *Config) (*asked, *refusal) {
	o, err := rawjson.Parse(body)
	if err != nil || !isJSON(h.Get("Content-Type")) {
		return nil, bad("", "", "We could not parse the JSON body of your request.")
	}
	model := o.Str("model")
	if model == "" {
		return nil, bad("model", "missing_required_parameter", "Missing required parameter: 'model'.")
	}
	if name := o.Unknown(append(slices.Clone(responsesParams), cfg.Allow...)...); name != "" {
		return nil, bad(name, "unknown_parameter", "Unknown parameter: '%s'.", name)
	}
	for _, check := range []func(object) *refusal{openAIRanges, responsesLimits, responsesToolList, responsesFormat, p.input} {
		if e := check(o); e != nil {
			return nil, e
		}
	}
	q := &asked{model: model, stream: o.Bool("stream"), choices: 1, inputTokens: max(1, len(body)/4), custom: map[string]bool{}, form: responsesForm(o)}
	q.sealed = slices.Contains(o.Strings("include"), "reasoning.encrypted_content")
	for _, t := range o.List("tools") {
		if t.Str("type") == "custom" {
			q.custom[t.Str("name")] = true
		}
	}
	return q, nil
}

// responsesLimits checks the numbers that only this API has.
func responsesLimits(o object) *refusal {
	const least = 16
	if n, ok := o.Num("max_output_tokens"); ok && n < least {
		return bad("max_output_tokens", "integer_below_min_value", "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= %d, but got %g instead.", least, n)
	}
	return nil
}

func responsesToolList(o object) *refusal {
	for i, t := range o.List("tools") {
		kind := t.Str("type")
		if !slices.Contains(responsesTools, kind) {
			return bad(fmt.Sprintf("tools[%d].type", i), "invalid_value", "Invalid value: '%s'. Supported values are: 'function', 'custom', and others.", kind)
		}
		if (kind == "function" || kind == "custom") && !validToolName(t.Str("name")) {
			return bad(fmt.Sprintf("tools[%d].name", i), "missing_required_parameter", "Missing required parameter: 'tools[%d].name'.", i)
		}
	}
	return nil
}

// idPrefixes are how the ids of items begin.
var idPrefixes = map[string]string{"message": "msg", "function_call": "fc", "reasoning": "rs", "custom_tool_call": "ctc"}

// input checks what is said as the real provider does: ids by their form, calls and outputs by each other, reasoning by its proof.
func (p responses) input(o object) *refusal {
	if id := o.Str("previous_response_id"); id != "" {
		if _, ok := p.kept.Load(id); !ok {
			return bad("previous_response_id", "previous_response_not_found", "Previous response with id '%s' not found.", id)
		}
	} else if !o.Has("input") {
		return bad("input", "missing_required_parameter", "Missing required parameter: 'input'.")
	}
	var open []string
	for i, it := range o.List("input") {
		kind := or(it.Str("type"), "message")
		at := fmt.Sprintf("input[%d]", i)
		if id, prefix := it.Str("id"), idPrefixes[kind]; id != "" && !strings.HasPrefix(id, prefix) {
			return bad(at+".id", "invalid_value", "Invalid '%s.id': '%s'. Expected an ID that begins with '%s'.", at, id, prefix)
		}
		switch kind {
		case "message":
			if e := responsesMessage(it, at); e != nil {
				return e
			}
		case "reasoning":
			if e := responsesReasoning(it); e != nil {
				return e
			}
		case "function_call", "custom_tool_call":
			open = append(open, it.Str("call_id"))
		case "function_call_output", "custom_tool_call_output":
			n := slices.Index(open, it.Str("call_id"))
			if n < 0 && !o.Has("previous_response_id") {
				return bad("input", "", "No tool call found for function call output with call_id %s.", it.Str("call_id"))
			}
			if n >= 0 {
				open = slices.Delete(open, n, n+1)
			}
		}
	}
	if len(open) > 0 {
		return bad("input", "", "No tool output found for function call %s.", open[0])
	}
	return nil
}

func responsesMessage(it object, at string) *refusal {
	if role := it.Str("role"); !slices.Contains([]string{"user", "assistant", "system", "developer"}, role) {
		return bad(at+".role", "invalid_value", "Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", role)
	}
	for j, part := range it.List("content") {
		known := []string{"input_text", "input_image", "input_file", "input_audio"}
		if it.Str("role") == "assistant" {
			known = []string{"output_text", "refusal"}
		}
		if kind := part.Str("type"); !slices.Contains(known, kind) {
			return bad(fmt.Sprintf("%s.content[%d].type", at, j), "invalid_value", "Invalid value: '%s'. Supported values are: '%s'.", kind, strings.Join(known, "', '"))
		}
	}
	return nil
}

// responsesReasoning refuses reasoning that this provider did not make.
func responsesReasoning(it object) *refusal {
	switch sealed := it.Str("encrypted_content"); {
	case sealed == "":
		return &refusal{
			status: http.StatusNotFound, kind: "invalid_request_error", param: "input",
			message: fmt.Sprintf("Item with id '%s' not found. Items are not persisted when `store` is set to false.", it.Str("id")),
		}
	case !strings.HasPrefix(sealed, sealedReasoning):
		return bad("", "invalid_encrypted_content", "The encrypted content %s... could not be verified.", sealed[:min(8, len(sealed))])
	}
	return nil
}

func (responses) errorFrame(e *refusal) frame {
	return frame{data: fmt.Sprintf("event: error\ndata: {\"type\":\"error\",\"sequence_number\":2,\"error\":{\"type\":%s,\"code\":%s,\"message\":%s,\"param\":%s}}\n\n",
		quote(e.kind), orNull(e.code), quote(e.message), orNull(e.param))}
}

// responsesItem is one output item: as it begins, as it ends, and the events between.
type responsesItem struct {
	begun, done string
	pieces      []frame // their item_id and output_index are put in by the stream
}

// items are what an answer consists of.
func (b *Behaviour) items(q *asked, n int64) []responsesItem {
	var items []responsesItem
	for i := range b.Thoughts {
		items = append(items, b.Thoughts[i].responsesItem(q, fmt.Sprint("rs", n, i)))
	}
	for i := range b.searches() {
		items = append(items, searchItem("ws_"+opaque(fmt.Sprint("ws", n, i), 48)))
	}
	if text := b.pieces(); len(text) > 0 {
		items = append(items, messageItem(text, "msg_"+opaque(fmt.Sprint("msg", n), 48)))
	}
	for i := range b.Between {
		items = append(items, b.Between[i].responsesItem(q, fmt.Sprint("rs between", n, i)))
	}
	for i := range b.ToolCalls {
		items = append(items, b.ToolCalls[i].responsesItem(q, n, i))
	}
	return items
}

// searchItem is a search of the web that the provider made.
func searchItem(id string) responsesItem {
	format := `{"id":%s,"type":"web_search_call","status":%q,"action":{"type":"search","query":"bardo"}}`
	return responsesItem{
		begun:  fmt.Sprintf(format, quote(id), "in_progress"),
		pieces: []frame{piece("web_search_call.searching", `"status":"searching"`, false), piece("web_search_call.completed", `"status":"completed"`, false)},
		done:   fmt.Sprintf(format, quote(id), "completed"),
	}
}

func piece(kind, members string, token bool) frame {
	return frame{token: token, data: `"type":"response.` + kind + `","sequence_number":%d,"item_id":%s,"output_index":%d,` + strings.ReplaceAll(members, "%", "%%")}
}

func messageItem(text []string, id string) responsesItem {
	part := func(s string) string {
		return `{"type":"output_text","annotations":[],"logprobs":[],"text":` + quote(s) + `}`
	}
	whole := strings.Join(text, "")
	it := responsesItem{
		begun: fmt.Sprintf(`{"id":%s,"type":"message","status":"in_progress","content":[],"role":"assistant"}`, quote(id)),
		done:  fmt.Sprintf(`{"id":%s,"type":"message","status":"completed","content":[%s],"role":"assistant"}`, quote(id), part(whole)),
	}
	it.pieces = append(it.pieces, piece("content_part.added", `"content_index":0,"part":`+part(""), false))
	for _, s := range text {
		it.pieces = append(it.pieces, piece("output_text.delta", `"content_index":0,"delta":`+quote(s)+`,"logprobs":[]`, true))
	}
	it.pieces = append(it.pieces, piece("output_text.done", `"content_index":0,"text":`+quote(whole)+`,"logprobs":[]`, false),
		piece("content_part.done", `"content_index":0,"part":`+part(whole), false))
	return it
}

func (t *Thought) responsesItem(q *asked, seed string) responsesItem {
	id, sealed := "rs_"+opaque(seed, 48), ""
	if q.sealed {
		sealed = `,"encrypted_content":` + quote(sealedReasoning+opaque(seed+"sealed", 60))
	}
	summary := `{"type":"summary_text","text":` + quote(t.Text) + `}`
	it := responsesItem{
		begun: fmt.Sprintf(`{"id":%s,"type":"reasoning","summary":[]}`, quote(id)),
		done:  fmt.Sprintf(`{"id":%s,"type":"reasoning","summary":[%s]%s}`, quote(id), summary, sealed),
	}
	it.pieces = append(it.pieces, piece("reasoning_summary_part.added", `"summary_index":0,"part":{"type":"summary_text","text":""}`, false))
	for _, s := range t.pieces() {
		it.pieces = append(it.pieces, piece("reasoning_summary_text.delta", `"summary_index":0,"delta":`+quote(s), true))
	}
	it.pieces = append(it.pieces, piece("reasoning_summary_text.done", `"summary_index":0,"text":`+quote(t.Text), false),
		piece("reasoning_summary_part.done", `"summary_index":0,"part":`+summary, false))
	return it
}

func (c *ToolCall) responsesItem(q *asked, n int64, i int) responsesItem {
	kind, prefix, member, events := "function_call", "fc_", "arguments", "function_call_arguments"
	if q.custom[c.Name] {
		kind, prefix, member, events = "custom_tool_call", "ctc_", "input", "custom_tool_call_input"
	}
	format := fmt.Sprintf(`{"id":%s,"type":%s,"status":%%s,%s:%%s,"call_id":%s,"name":%s}`,
		quote(prefix+opaque(fmt.Sprint(prefix, n, i), 48)), quote(kind), quote(member), quote(c.callID("call_", n, i)), quote(c.Name))
	it := responsesItem{begun: fmt.Sprintf(format, `"in_progress"`, `""`), done: fmt.Sprintf(format, `"completed"`, quote(c.Args))}
	for _, s := range c.pieces() {
		it.pieces = append(it.pieces, piece(events+".delta", `"delta":`+quote(s), true))
	}
	it.pieces = append(it.pieces, piece(events+".done", quote(member)+":"+quote(c.Args), false))
	return it
}

// response is the response object with a status.
func (p responses) response(q *asked, b *Behaviour, n int64, status string) string {
	output, usage, why, failed := []string{}, "null", "null", "null"
	if status != "in_progress" {
		for _, it := range b.items(q, n) {
			output = append(output, it.done)
		}
		if b.Usage == nil || !b.Usage.Missing {
			usage = responsesUsage(b.count(q))
		}
	}
	switch status {
	case "incomplete":
		why = `{"reason":` + quote(b.Stop) + `}`
	case "failed":
		failed = `{"code":"server_error","message":"The server had an error while processing your request."}`
	}
	id := "resp_" + opaque(fmt.Sprint("response", n), 48)
	p.kept.Store(id, true)
	return fmt.Sprintf(`{"id":%s,"object":"response","created_at":%d,"status":%s,"background":false,"error":%s,"incomplete_details":%s,"instructions":null,"max_output_tokens":null,"model":%s,"output":[%s],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"service_tier":%s,"store":true,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"truncation":"disabled","usage":%s,"user":null,"metadata":{}%s}`,
		quote(id), openAICreated, quote(status), failed, why, quote(or(b.AnswerModel, q.model)), strings.Join(output, ","), quote(b.tier()), usage, extra(b))
}

func responsesUsage(u Usage) string {
	in := u.Input + u.Cached + u.CacheWrite5m + u.CacheWrite1h
	return fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`,
		in, u.Cached, u.Output, u.Reasoning, in+u.Output)
}

// ends is the status in which the answer ends. A behaviour's Stop is max_output_tokens, content_filter or failed.
func (b *Behaviour) ends() string {
	switch b.Stop {
	case "":
		return "completed"
	case "failed":
		return "failed"
	}
	return "incomplete"
}

func (p responses) body(q *asked, b *Behaviour, n int64) []byte {
	return []byte(p.response(q, b, n, b.ends()) + "\n")
}

// stream is created and in_progress, each item with its pieces, and the response as it ended.
func (p responses) stream(q *asked, b *Behaviour, n int64) []frame {
	var fs []frame
	add := func(kind, members string) {
		fs = append(fs, frame{data: fmt.Sprintf("event: response.%s\ndata: {\"type\":\"response.%s\",\"sequence_number\":%d,%s}\n\n", kind, kind, len(fs), members)})
	}
	start := `"response":` + p.response(q, b, n, "in_progress")
	add("created", start)
	add("in_progress", start)
	for i, it := range b.items(q, n) {
		begun, _ := rawjson.Parse([]byte(it.begun)) // it is ours
		add("output_item.added", fmt.Sprintf(`"output_index":%d,"item":%s`, i, it.begun))
		for _, f := range it.pieces {
			data := fmt.Sprintf(f.data, len(fs), begun["id"], i)
			kind, _, _ := strings.Cut(strings.TrimPrefix(data, `"type":"`), `"`)
			fs = append(fs, frame{token: f.token, data: "event: " + kind + "\ndata: {" + data + "}\n\n"})
		}
		add("output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, i, it.done))
	}
	add(b.ends(), `"response":`+p.response(q, b, n, b.ends()))
	fs[len(fs)-1].last = true
	return fs
}

// inputTokens is the answer to a count.
func inputTokens(body []byte) []byte {
	return []byte(fmt.Sprintf(`{"object":"response.input_tokens","input_tokens":%d}`, max(1, len(body)/4)))
}
