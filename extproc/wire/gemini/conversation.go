package gemini

import (
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// words maps canonical names, which are Anthropic's, to this format's names.
var words = map[string]string{
	"system": "systemInstruction", "thinking": "thought", "tool_use": "functionCall", "tool_result": "functionResponse", "image": "inlineData",
	"document": "inlineData", "max_tokens": "maxOutputTokens", "top_p": "topP", "top_k": "topK", "presence_penalty": "presencePenalty",
	"frequency_penalty": "frequencyPenalty", "stop_sequences": "stopSequences", "n": "candidateCount", "format": "responseSchema",
	"effort": "thinkingLevel", "budget_tokens": "thinkingBudget", "tool_choice": "toolConfig", "file_id": "fileData",
	"messages": "contents",
}

// readConversation parses a request. What the canonical form lacks is listed in Unmapped: unknown top-level members, and those of contents,
// parts, tools and configurations, by their keys.
func readConversation(r *chat.Request) (*chat.Conversation, error) {
	c := &chat.Conversation{Words: words}
	members := r.Doc.Root()
	if whole := get(members, "generateContentRequest"); whole.Kind() == jsonx.Object { // a form of token count requests
		members = whole
	}
	rd := reader{c: c}
	for key, v := range members.Members {
		if v.IsNull() {
			continue
		}
		if err := rd.member(string(key), v); err != nil {
			return nil, err
		}
	}
	c.Messages = joinModelTurns(c.Messages)
	wire.NoteUndocumented(c, Names)
	return c, nil
}

// reader converts contents into messages. It assigns ids to calls without one.
type reader struct {
	c     *chat.Conversation
	calls int
	open  openCalls
}

// openCalls are the unanswered calls of the model's last turn. A turn may have thousands of calls, answered in any order.
type openCalls struct {
	all    []openCall
	byID   map[string]int
	byName map[string][]int // in order
}

type openCall struct {
	id   string
	done bool
}

func (o *openCalls) add(id, name string) {
	if o.byID == nil {
		o.byID, o.byName = map[string]int{}, map[string][]int{}
	}
	n := len(o.all)
	o.all = append(o.all, openCall{id: id})
	if i, exists := o.byID[id]; !exists || o.all[i].done {
		o.byID[id] = n
	}
	o.byName[name] = append(o.byName[name], n)
}

// answer returns the id of the call that a result answers, and marks it as answered: the call that the result names, else the first one of
// its function.
func (o *openCalls) answer(id, name string) string {
	if i, ok := o.byID[id]; ok && id != "" && !o.all[i].done {
		o.all[i].done = true
		return id
	}
	for queue := o.byName[name]; len(queue) > 0; queue = queue[1:] {
		o.byName[name] = queue[1:]
		if c := &o.all[queue[0]]; !c.done {
			c.done = true
			return c.id
		}
	}
	return id
}

func (rd *reader) member(key string, v jsonx.Value) error {
	switch camel([]byte(key)) {
	case "model", wire.HintKey:
		return nil
	case "contents":
		return rd.contents(key, v)
	case "systemInstruction":
		return rd.system(key, v)
	case "tools":
		return readTools(rd.c, v)
	case "toolConfig":
		return readToolConfig(rd.c, key, v)
	case "generationConfig":
		return readConfig(rd.c, key, v)
	case "serviceTier":
		if v.Equal(chat.TierStandard) {
			rd.c.Params.ServiceTier = chat.TierStandard
			return nil
		}
	case "cachedContent": // a part of the prompt that Google stores
		rd.c.System = append(rd.c.System, chat.Part{Kind: chat.PartOther, Name: key, At: key, Raw: v.Raw})
		return nil
	case "safetySettings", "labels":
		if wire.IsEmpty(v) {
			return nil
		}
	}
	wire.Unmap(rd.c, key)
	return nil
}

func (rd *reader) contents(key string, v jsonx.Value) error {
	if v.Kind() == jsonx.Object {
		return rd.content(v, key)
	}
	for i, e := range v.Each {
		if err := rd.content(e, key+"["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	return nil
}

// system reads the system prompt: a content, or a string, which some clients send.
func (rd *reader) system(key string, v jsonx.Value) error {
	if t, ok := v.Str(); ok {
		if t != "" {
			rd.c.System = append(rd.c.System, chat.Part{Kind: chat.PartText, Text: t})
		}
		return nil
	}
	if v.Kind() != jsonx.Object {
		return wire.WrongKind(key, "an object", v)
	}
	nameUnknown(rd.c, v, "role", "parts")
	parts, err := rd.parts(get(v, "parts"), key+".parts")
	rd.c.System = append(rd.c.System, parts...)
	return err
}

func (rd *reader) content(v jsonx.Value, at string) error {
	if v.Kind() != jsonx.Object {
		return wire.WrongKind(at, "an object", v)
	}
	nameUnknown(rd.c, v, "role", "parts")
	role := chat.RoleUser
	switch name, _ := get(v, "role").Str(); strings.ToLower(name) {
	case "", "user", "function":
	case "model":
		role = chat.RoleAssistant
		if n := len(rd.c.Messages); n == 0 || rd.c.Messages[n-1].Role != role { // otherwise the turn continues
			rd.open = openCalls{}
		}
	case "system":
		role = chat.RoleSystem
	default:
		return wire.Invalid(at+".role", "%s.role must be user or model", at)
	}
	parts, err := rd.parts(get(v, "parts"), at+".parts")
	if err != nil {
		return err
	}
	if role == chat.RoleUser {
		rd.c.Messages = wire.AppendUser(rd.c.Messages, at, parts)
		return nil
	}
	rd.c.Messages = append(rd.c.Messages, chat.Message{Role: role, At: at, Parts: parts})
	return nil
}

// parts reads the parts of a content. Empty text is dropped.
func (rd *reader) parts(v jsonx.Value, at string) ([]chat.Part, error) {
	switch v.Kind() {
	case jsonx.Invalid, jsonx.Null:
		return nil, nil
	case jsonx.Object:
		return rd.part(nil, v, at)
	case jsonx.Array:
	case jsonx.Bool, jsonx.Number, jsonx.String:
		return nil, wire.WrongKind(at, "an array", v)
	}
	var parts []chat.Part
	var err error
	for i, e := range v.Each {
		if parts, err = rd.part(parts, e, at+"["+strconv.Itoa(i)+"]"); err != nil {
			return nil, err
		}
	}
	return parts, nil
}
