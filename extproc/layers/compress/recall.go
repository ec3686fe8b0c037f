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

// The model can recall results that were left out and are nowhere else in the conversation (B-15). The client sends them with each request, so nothing is
// stored for this: a result can be recalled through any gateway, as long as it is a part of the conversation, and only in that conversation.

// recallTool is the tool by which the model recalls a result.
const recallTool = "bardo_recall"

// maxRecalls bounds how often the model is called again with recalled results, for one request.
const maxRecalls = 2

var recallDefinition = chat.Tool{
	Name: recallTool, Description: "Shows a result that was left out of this conversation, by the id in its place.",
	Schema: jsonx.Raw(`{"type":"object","properties":{"id":{"type":"string"},"offset":{"type":"integer"}},"required":["id"]}`),
}

// definitionSize is the maximum size in bytes of the definition in a request.
var definitionSize = len(recallDefinition.Name) + len(recallDefinition.Description) + len(recallDefinition.Schema) + 90

// mayRecall reports whether the tool can be offered: the request has tools, none of which has this name.
func mayRecall(x *pipeline.Exchange, t *transcript.Transcript) bool {
	taken := func(tool transcript.Tool) bool { return tool.Name == recallTool }
	return x.MayCall() && len(t.Tools) > 0 && !slices.ContainsFunc(t.Tools, taken)
}

// recallable are the texts of a request that were left out.
type recallable struct {
	t       *transcript.Transcript
	omitted map[string]int
}

var recalls = pipeline.NewSlot[recallable]()

// offer adds the tool to the request; omitted are the texts that were left out, by their ids.
func (l Layer) offer(x *pipeline.Exchange, t *transcript.Transcript, omitted map[string]int) {
	*recalls.Of(x) = recallable{t, omitted}
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

// Translate implements pipeline.Caller: no call is one of the client's.
func (Layer) Translate(*pipeline.Exchange, *chat.ToolCall) (own chat.ToolCall, ok bool) {
	return own, false
}

// Answer implements pipeline.Caller: it shows a result, or the next part of a long one.
func (Layer) Answer(_ context.Context, x *pipeline.Exchange, c *chat.ToolCall, maxBytes int) pipeline.Result {
	r := recalls.Of(x)
	v, err := jsonx.Parse([]byte(c.Args))
	if err != nil {
		return pipeline.Result{Text: "The arguments are not JSON.", IsError: true}
	}
	id, _ := v.Get("id").Str()
	i, ok := r.omitted[id]
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
	return pipeline.Result{Text: page(text, int(offset), maxBytes)}
}

// maxMoreNote is the maximum length in bytes of the note after a part of a result.
const maxMoreNote = 80

// page is the part of a text from an offset on, of at most maxBytes.
func page(text string, offset, maxBytes int) string {
	rest := text[offset:]
	if len(rest) <= maxBytes {
		return strings.ToValidUTF8(rest, "")
	}
	end := offset + len(pii.Head(rest, maxBytes-maxMoreNote))
	return strings.ToValidUTF8(text[offset:end], "") + "\n[It goes on: call " + recallTool + " with offset " + strconv.Itoa(end) + ".]"
}
