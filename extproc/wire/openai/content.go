package openai

import (
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// functionKeys are the members of a call's function that are read, or that hold nothing for a model.
var functionKeys = slices.Concat([]string{"name", "arguments"}, addedKeys)

// readCall reads a function call. Its arguments are JSON in a string; some clients send the object.
func readCall(c *chat.Conversation, id string, f jsonx.Value, at string) (chat.Part, error) {
	wire.UnmapUnknown(c, f, functionKeys...)
	name, _ := f.Get("name").Str()
	if name == "" {
		return chat.Part{}, wire.Invalid(at+".name", "%s.name must be a non-empty string", at)
	}
	v := f.Get("arguments")
	args := string(v.Raw)
	if v.Kind() != jsonx.Object {
		var err error
		if args, err = wire.ReadOptional(at+".arguments", v); err != nil {
			return chat.Part{}, err
		}
	}
	if strings.TrimSpace(args) == "" {
		args = "{}"
	}
	return chat.Part{Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: id, Name: name, Args: args}}, nil
}

// readCustomCall reads a call whose argument is a text in the tool's own grammar. Other formats have objects only.
func readCustomCall(id string, custom jsonx.Value, at string) (chat.Part, error) {
	name, _ := custom.Get("name").Str()
	if name == "" {
		return chat.Part{}, wire.Invalid(at+".name", "%s.name must be a non-empty string", at)
	}
	input, err := wire.ReadOptional(at+".input", custom.Get("input"))
	args := string(jsonx.AppendString([]byte(`{"input":`), input)) + "}"
	return chat.Part{Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: id, Name: name, Args: args}}, err
}

// readContent reads a message's content, a string or an array of parts. Empty text is dropped, because other formats refuse it.
func readContent(c *chat.Conversation, v jsonx.Value, at string) ([]chat.Part, error) {
	switch v.Kind() {
	case jsonx.Invalid, jsonx.Null:
		return nil, nil
	case jsonx.String:
		t, _ := v.Str()
		if t == "" {
			return nil, nil
		}
		return []chat.Part{{Kind: chat.PartText, Text: t}}, nil
	case jsonx.Array:
		return readParts(c, v, at)
	case jsonx.Bool, jsonx.Number, jsonx.Object:
	}
	return nil, wire.WrongKind(at, "a string or an array", v)
}

func readParts(c *chat.Conversation, v jsonx.Value, at string) ([]chat.Part, error) {
	var parts []chat.Part
	for i, e := range v.Each {
		p, err := readPart(c, e)
		if err != nil {
			field := at + "[" + strconv.Itoa(i) + "]" + err.Error()
			return nil, wire.Invalid(field, "%s must be a string", field)
		}
		cc := wire.Present(e.Get("cache_control"))
		if p.Kind == chat.PartText && p.Text == "" {
			if cc != nil {
				mark(c, parts, cc)
			}
			continue
		}
		p.CacheControl = cc
		if p.Kind != chat.PartText {
			p = wire.PartAt(p, at+"["+strconv.Itoa(i)+"]")
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// notString is the path, inside a part, of a value that must be a string.
type notString string

// Error returns the path.
func (e notString) Error() string { return string(e) }

func readPart(c *chat.Conversation, e jsonx.Value) (chat.Part, error) {
	kind, ok := e.Get("type").Str()
	if !ok {
		return chat.Part{}, notString(".type")
	}
	switch kind {
	case "text", "input_text", "output_text":
		wire.UnmapUnknown(c, e, "type", "text", "cache_control")
		t, ok := e.Get("text").Str()
		if !ok {
			return chat.Part{}, notString(".text")
		}
		return chat.Part{Kind: chat.PartText, Text: t}, nil
	case "refusal":
		wire.UnmapUnknown(c, e, "type", "refusal", "cache_control")
		t, ok := e.Get("refusal").Str()
		if !ok {
			return chat.Part{}, notString(".refusal")
		}
		return chat.Part{Kind: chat.PartRefusal, Text: t}, nil
	case "image_url":
		wire.UnmapUnknown(c, e, "type", "image_url", "cache_control")
		return readImage(c, e.Get("image_url"))
	case "input_audio":
		wire.UnmapUnknown(c, e, "type", "input_audio", "cache_control")
		return readAudio(c, e.Get("input_audio"))
	case "audio_url", "video_url": // vLLM, OpenRouter and Alibaba
		wire.UnmapUnknown(c, e, "type", kind, "cache_control")
		return readMedia(c, e.Get(kind), kind)
	case "document_url": // Mistral
		wire.UnmapUnknown(c, e, "type", kind, "document_name", "cache_control")
		u, ok := e.Get(kind).Str()
		if !ok {
			return chat.Part{}, notString("." + kind)
		}
		p := wire.PartOfURL(chat.PartDocument, u)
		p.Name, _ = e.Get("document_name").Str()
		return p, nil
	case "file":
		wire.UnmapUnknown(c, e, "type", "file", "cache_control")
		if p, ok := readFile(c, e.Get("file")); ok {
			return p, nil
		}
	}
	return chat.Part{Kind: chat.PartOther, Name: kind, Raw: e.Raw}, nil
}

// readAudio reads audio data.
func readAudio(c *chat.Conversation, v jsonx.Value) (chat.Part, error) {
	data, ok := v.Get("data").Str()
	if !ok {
		return chat.Part{}, notString(".input_audio.data")
	}
	format, ok := v.Get("format").Str()
	if !ok {
		return chat.Part{}, notString(".input_audio.format")
	}
	wire.UnmapUnknown(c, v, "data", "format")
	return chat.Part{Kind: chat.PartAudio, Media: "audio/" + format, Data: data, Name: "input_audio"}, nil
}

// readMedia reads the URL of audio or video; name is the type of its part.
func readMedia(c *chat.Conversation, v jsonx.Value, name string) (chat.Part, error) {
	u, ok := v.Get("url").Str()
	if !ok {
		return chat.Part{}, notString("." + name + ".url")
	}
	wire.UnmapUnknown(c, v, "url")
	kind := chat.PartAudio
	if name == "video_url" {
		kind = chat.PartVideo
	}
	p := wire.PartOfURL(kind, u)
	p.Name = name
	return p, nil
}

// readImage reads the URL of an image: in an object, or as a string, which some clients send.
func readImage(c *chat.Conversation, v jsonx.Value) (chat.Part, error) {
	if u, ok := v.Str(); ok {
		return wire.PartOfURL(chat.PartImage, u), nil
	}
	u, ok := v.Get("url").Str()
	if !ok {
		return chat.Part{}, notString(".image_url.url")
	}
	wire.UnmapUnknown(c, v, "url", "detail")
	if d := v.Get("detail"); !d.IsNull() && !d.Equal("auto") {
		wire.Unmap(c, "detail")
	}
	return wire.PartOfURL(chat.PartImage, u), nil
}

// readFile reads a file's data, or the id of a file that its provider stores; ok is false for neither.
func readFile(c *chat.Conversation, f jsonx.Value) (p chat.Part, ok bool) {
	wire.UnmapUnknown(c, f, "file_data", "file_id", "filename")
	name, _ := f.Get("filename").Str()
	data, ok := f.Get("file_data").Str()
	if !ok {
		id, ok := f.Get("file_id").Str()
		return chat.Part{Kind: chat.PartFile, File: id, Name: name}, ok
	}
	p = wire.PartOfFile(data)
	switch {
	case p.Kind == chat.PartDocument:
		p.Name = name
	case name != "": // no format has names for other media
		wire.Unmap(c, "filename")
	}
	return p, true
}
