package fake

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"bardo.money/gateway/e2e/fake/check"
	"bardo.money/gateway/internal/rawjson"
)

// responses is OpenAI Responses, which OpenAI serves beside Chat Completions. It remembers the responses that it gave.
type responses struct {
	openAI
	kept *sync.Map // ids of responses and their items
}

func (p responses) read(h http.Header, body []byte, cfg *Config) (*asked, *refusal) {
	o, e := check.Responses(h, body, cfg.checked(), func(id string) bool { _, ok := p.kept.Load(id); return ok })
	if e != nil {
		return nil, e
	}
	q := &asked{model: o.Str("model"), stream: o.Bool("stream"), choices: 1, inputTokens: max(1, len(body)/4), custom: map[string]bool{}, form: check.ResponsesForm(o)}
	q.unkept = o.Has("store") && !o.Bool("store")
	q.sealed = slices.Contains(o.Strings("include"), "reasoning.encrypted_content")
	for _, t := range o.List("tools") {
		if t.Str("type") == "custom" {
			q.custom[t.Str("name")] = true
		}
	}
	return q, nil
}

func (responses) errorFrame(e *refusal) frame {
	return frame{data: fmt.Sprintf("event: error\ndata: {\"type\":\"error\",\"sequence_number\":2,\"error\":{\"type\":%s,\"code\":%s,\"message\":%s,\"param\":%s}}\n\n",
		quote(e.Kind), orNull(e.Code), quote(e.Message), orNull(e.Param))}
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
		sealed = `,"encrypted_content":` + quote(check.SealedReasoning+opaque(seed+"sealed", 60))
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
			if done, _ := rawjson.Parse([]byte(it.done)); !q.unkept {
				p.kept.Store(done.Str("id"), true)
			}
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
	if !q.unkept {
		p.kept.Store(id, true)
	}
	return fmt.Sprintf(`{"id":%s,"object":"response","created_at":%d,"status":%s,"background":false,"error":%s,"incomplete_details":%s,"instructions":null,"max_output_tokens":null,"model":%s,"output":[%s],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"service_tier":%s,"store":%v,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"truncation":"disabled","usage":%s,"user":null,"metadata":{}%s}`,
		quote(id), openAICreated, quote(status), failed, why, quote(or(b.AnswerModel, q.model)), strings.Join(output, ","), quote(b.tier()), !q.unkept, usage, extra(b))
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
