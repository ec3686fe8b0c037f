package gemini

import (
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// piece is the relevant members of a part.
type piece struct {
	text, thought, signature, call, result, data, file jsonx.Value
	other                                              string // first member that is none of these
}

// annotations are members that describe a part and are not its content.
var annotations = []string{"videoMetadata", "partMetadata", "mediaResolution", "mediaProcessing", "speechMetadata"}

// traces are the parts that Google's own tools leave in the model's turn and that mean nothing to another provider. Any other part of this
// format only is content.
var traces = map[string]bool{"executableCode": true, "toolCall": true}

// searches are the tools whose results only Google's models can use: what they found is in the text that follows.
var searches = []string{"GOOGLE_SEARCH_WEB", "GOOGLE_SEARCH_IMAGE", "GOOGLE_MAPS"}

// isTrace reports whether a part means nothing to another provider.
func isTrace(name string, v jsonx.Value) bool {
	kind, _ := get(v.Get(name), "toolType").Str()
	name = camel([]byte(name))
	return traces[name] || name == "toolResponse" && slices.Contains(searches, kind)
}

func readPiece(v jsonx.Value) (p piece) {
	for key, m := range v.Members {
		switch name := camel(key); name {
		case "text":
			p.text = m
		case "thought":
			p.thought = m
		case "thoughtSignature":
			p.signature = m
		case "functionCall":
			p.call = m
		case "functionResponse":
			p.result = m
		case "inlineData":
			p.data = m
		case "fileData":
			p.file = m
		default:
			if p.other == "" && !m.IsNull() && !slices.Contains(annotations, name) {
				p.other = string(key)
			}
		}
	}
	return p
}

// part reads one part and appends its content: the part itself, and its signature before a call or after a text.
func (rd *reader) part(parts []chat.Part, v jsonx.Value, at string) ([]chat.Part, error) {
	if v.Kind() != jsonx.Object {
		return nil, wire.WrongKind(at, "an object", v)
	}
	p := readPiece(v)
	signed, _ := p.signature.Str()
	signature, _, isRedacted := canonicalSignature(signed)
	known := []string{"thought", "thoughtSignature"}
	switch isThought, _ := p.thought.Bool(); {
	case !p.call.IsNull():
		nameUnknown(rd.c, v, append(known, "functionCall")...)
		if signature != "" {
			parts = append(parts, chat.Part{Kind: chat.PartRedacted, Data: signature})
		}
		call, err := rd.call(p.call, at+".functionCall")
		return append(parts, call), err
	case !p.result.IsNull():
		nameUnknown(rd.c, v, append(known, "functionResponse")...)
		result, err := rd.result(p.result, at+".functionResponse")
		return append(parts, result), err
	case !p.data.IsNull():
		nameUnknown(rd.c, v, append(known, "inlineData")...)
		blob, err := rd.blob(p.data, at+".inlineData")
		blob.At = at
		return withRedacted(append(parts, blob), signature), err
	case !p.file.IsNull():
		nameUnknown(rd.c, v, append(known, "fileData")...)
		file, err := rd.file(p.file, at+".fileData")
		file.At = at
		return withRedacted(append(parts, file), signature), err
	case p.other != "" && p.text.IsNull():
		return append(parts, chat.Part{Kind: chat.PartOther, Name: p.other, At: at, Raw: v.Raw, Trace: isTrace(p.other, v)}), nil
	case p.text.IsNull() && signature == "":
		nameUnknown(rd.c, v, known...)
		return parts, nil
	case p.text.Exists() && !p.text.IsNull() && p.text.Kind() != jsonx.String:
		return nil, wire.WrongKind(at+".text", "a string", p.text)
	case isThought:
		nameUnknown(rd.c, v, append(known, "text")...)
		text, _ := p.text.Str()
		return addThought(parts, text, signature, isRedacted), nil
	}
	nameUnknown(rd.c, v, append(known, "text")...)
	if text, _ := p.text.Str(); text != "" {
		parts = append(parts, chat.Part{Kind: chat.PartText, Text: text})
	}
	return withRedacted(parts, signature), nil
}

func withRedacted(parts []chat.Part, signature string) []chat.Part {
	if signature == "" {
		return parts
	}
	return append(parts, chat.Part{Kind: chat.PartRedacted, Data: signature})
}

// addThought adds a thought. Clients that collected it from a stream send its pieces next to each other, with the signature last.
func addThought(parts []chat.Part, text, signature string, isRedacted bool) []chat.Part {
	if isRedacted {
		return withRedacted(parts, signature)
	}
	n := len(parts)
	switch {
	case text == "" && signature == "":
	case n > 0 && parts[n-1].Kind == chat.PartThinking && parts[n-1].Signature == "":
		parts[n-1].Text += text
		parts[n-1].Signature = signature
	default:
		parts = append(parts, chat.Part{Kind: chat.PartThinking, Text: text, Signature: signature})
	}
	return parts
}

// call reads a call. One without an id gets the next one.
func (rd *reader) call(v jsonx.Value, at string) (chat.Part, error) {
	if v.Kind() != jsonx.Object {
		return chat.Part{}, wire.WrongKind(at, "an object", v)
	}
	nameUnknown(rd.c, v, "id", "name", "args")
	call := chat.ToolCall{Args: "{}"}
	call.Name, _ = get(v, "name").Str()
	if call.Name == "" {
		return chat.Part{}, wire.Invalid(at+".name", "%s.name must be a non-empty string", at)
	}
	switch args := get(v, "args"); {
	case args.Kind() == jsonx.Object:
		call.Args = string(args.Raw)
	case !args.IsNull():
		return chat.Part{}, wire.WrongKind(at+".args", "an object", args)
	}
	rd.calls++
	if call.ID, _ = get(v, "id").Str(); call.ID == "" {
		call.ID = "call_" + strconv.Itoa(rd.calls)
	}
	rd.open.add(call.ID, call.Name)
	return chat.Part{Kind: chat.PartToolUse, Tool: call}, nil
}

// result reads a tool result. One without an id answers the first open call of its name.
func (rd *reader) result(v jsonx.Value, at string) (chat.Part, error) {
	if v.Kind() != jsonx.Object {
		return chat.Part{}, wire.WrongKind(at, "an object", v)
	}
	nameUnknown(rd.c, v, "id", "name", "response", "parts")
	id, _ := get(v, "id").Str()
	name, _ := get(v, "name").Str()
	p := chat.Part{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: rd.open.answer(id, name), Name: name}}
	response := get(v, "response")
	if !response.IsNull() && response.Kind() != jsonx.Object {
		return p, wire.WrongKind(at+".response", "an object", response)
	}
	var text string
	if text, p.IsError = responseText(response); text != "" {
		p.Parts = append(p.Parts, chat.Part{Kind: chat.PartText, Text: text})
	}
	more, err := rd.parts(get(v, "parts"), at+".parts")
	p.Parts = append(p.Parts, more...)
	return p, err
}

// responseText returns the text of a response: its only member output or result; that of error for a failed call; else all of it as JSON.
func responseText(v jsonx.Value) (text string, failed bool) {
	var only jsonx.Value
	var name string
	n := 0
	for key, m := range v.Members {
		name, only = string(key), m
		n++
	}
	s, isText := only.Str()
	switch {
	case n == 0:
		return "", false
	case n == 1 && isText && (name == "output" || name == "result"):
		return s, false
	case n == 1 && isText && name == "error":
		return s, true
	case n == 1 && name == "error":
		return string(only.Raw), true
	}
	return string(v.Raw), false
}

// blob reads bytes in the request.
func (rd *reader) blob(v jsonx.Value, at string) (chat.Part, error) {
	nameUnknown(rd.c, v, "mimeType", "data", "displayName")
	media, _ := get(v, "mimeType").Str()
	data, ok := get(v, "data").Str()
	if !ok {
		return chat.Part{}, wire.WrongKind(at+".data", "a string", get(v, "data"))
	}
	name, _ := get(v, "displayName").Str()
	data = strings.NewReplacer("-", "+", "_", "/").Replace(data) // the API accepts both base64 alphabets
	if media == "" {
		return chat.Part{Kind: chat.PartOther, Name: "inlineData", Raw: v.Raw}, nil
	}
	return withWord(chat.Part{Kind: wire.KindOf(media), Media: media, Data: data, Name: name}, "inlineData"), nil
}

// withWord sets the client's name of audio and video, for which formats have no name.
func withWord(p chat.Part, word string) chat.Part {
	if p.Kind == chat.PartAudio || p.Kind == chat.PartVideo {
		p.Name = word
	}
	return p
}

// file reads a file's URL. Other providers cannot use a file that Google stores.
func (rd *reader) file(v jsonx.Value, at string) (chat.Part, error) {
	nameUnknown(rd.c, v, "mimeType", "fileUri", "displayName")
	media, _ := get(v, "mimeType").Str()
	uri, ok := get(v, "fileUri").Str()
	if !ok {
		return chat.Part{}, wire.WrongKind(at+".fileUri", "a string", get(v, "fileUri"))
	}
	name, _ := get(v, "displayName").Str()
	switch {
	case strings.HasPrefix(uri, "https://www.youtube.com/"), strings.HasPrefix(uri, "https://youtu.be/"):
		return chat.Part{Kind: chat.PartVideo, Media: media, URL: uri, Name: "fileData"}, nil
	case !strings.HasPrefix(uri, "https://"), strings.Contains(uri, ".googleapis.com/"), media == "":
		return chat.Part{Kind: chat.PartFile, Media: media, File: uri, Name: name}, nil
	}
	return withWord(chat.Part{Kind: wire.KindOf(media), Media: media, URL: uri, Name: name}, "fileData"), nil
}
