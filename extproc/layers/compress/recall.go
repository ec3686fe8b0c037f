package compress

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/jsonx"
)

// Results that are out of date, and nowhere else in the conversation, can be fetched back by the model (B-15). The client sends them with each request, so
// nothing is kept for that: a result can be recalled as long as it is a part of the conversation, from any gateway, and by nobody else.

// recallTool is the tool by which the model fetches a result back.
const recallTool = "bardo_recall"

// maxRecalls is how often the model may be called again with results that it recalled, for one request.
const maxRecalls = 2

var recallDefinition = chat.Tool{
	Name: recallTool, Description: "Shows a result that was left out of this conversation, by the id in its place.",
	Schema: jsonx.Raw(`{"type":"object","properties":{"id":{"type":"string"},"offset":{"type":"integer"}},"required":["id"]}`),
}

// definitionSize is how long the definition is in a request at most, in bytes.
var definitionSize = len(recallDefinition.Name) + len(recallDefinition.Description) + len(recallDefinition.Schema) + 90

// mayRecall reports whether the tool can be offered: the request has tools, and none of this name.
func mayRecall(x *pipeline.Exchange, t *transcript.Transcript) bool {
	taken := func(tool transcript.Tool) bool { return tool.Name == recallTool }
	return x.MayCall() && len(t.Tools) > 0 && !slices.ContainsFunc(t.Tools, taken)
}

// recallable are the texts of a request that were left out, by their ids.
type recallable struct {
	t    *transcript.Transcript
	lost map[string]int
}

var recalls = pipeline.NewSlot[recallable]()

// offer adds the tool.
func (l Layer) offer(x *pipeline.Exchange, t *transcript.Transcript, lost map[string]int) {
	*recalls.Of(x) = recallable{t, lost}
	t.AddTool(&recallDefinition)
	x.AnswerCalls(Name, l, maxRecalls, recallTool)
}

func with(m map[string]int, key string, value int) map[string]int {
	if m == nil {
		m = map[string]int{}
	}
	m[key] = value
	return m
}

// Translate implements pipeline.Caller: no call becomes one of the client's.
func (Layer) Translate(*pipeline.Exchange, *chat.ToolCall) (own chat.ToolCall, ok bool) {
	return own, false
}

// Answer implements pipeline.Caller: it shows a result, or the next part of a long one.
func (Layer) Answer(_ context.Context, x *pipeline.Exchange, c *chat.ToolCall, most int) pipeline.Result {
	r := recalls.Of(x)
	v, err := jsonx.Parse([]byte(c.Args))
	if err != nil {
		return pipeline.Result{Text: "The arguments are not JSON.", IsError: true}
	}
	id, _ := v.Get("id").Str()
	i, ok := r.lost[id]
	if !ok {
		return pipeline.Result{Text: "Nothing was left out under this id.", IsError: true}
	}
	offset, _ := v.Get("offset").Int()
	text := r.t.String(i)
	if offset < 0 || offset >= int64(len(text)) {
		return pipeline.Result{Text: "The result has " + strconv.Itoa(len(text)) + " bytes.", IsError: true}
	}
	x.NoteOf(Name, "recalled", 1)
	x.Recalled(Name)
	return pipeline.Result{Text: page(text, int(offset), most)}
}

// moreNote is the longest note behind a part of a result, in bytes.
const moreNote = 80

// page is the part of a text from an offset on, in at most so many bytes.
func page(text string, offset, most int) string {
	rest := text[offset:]
	if len(rest) <= most {
		return strings.ToValidUTF8(rest, "")
	}
	end := offset + len(pii.Head(rest, most-moreNote))
	return strings.ToValidUTF8(text[offset:end], "") + "\n[It goes on: call " + recallTool + " with offset " + strconv.Itoa(end) + ".]"
}
