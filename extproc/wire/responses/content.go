package responses

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// readContent reads a message's content or a call's output, a string or an array of parts. Empty text is dropped, because other formats
// refuse it.
func readContent(c *chat.Conversation, v jsonx.Value, at string) ([]chat.Part, error) {
	switch v.Kind() {
	case jsonx.Invalid, jsonx.Null:
		return nil, nil
	case jsonx.String:
		if t, _ := v.Str(); t != "" {
			return []chat.Part{{Kind: chat.PartText, Text: t}}, nil
		}
		return nil, nil
	case jsonx.Array:
	case jsonx.Bool, jsonx.Number, jsonx.Object:
		return nil, wire.WrongKind(at, "a string or an array", v)
	}
	var parts []chat.Part
	for i, e := range v.Each {
		place := at + "[" + strconv.Itoa(i) + "]"
		p, err := readPart(c, e, place)
		if err != nil {
			return nil, err
		}
		p = wire.PartAt(p, place)
		if p.Kind != chat.PartText || p.Text != "" {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

func readPart(c *chat.Conversation, e jsonx.Value, at string) (p chat.Part, err error) {
	kind, err := readRequired(at+".type", e.Get("type"))
	if err != nil {
		return p, err
	}
	switch kind {
	case "input_text", "output_text", "text", "summary_text", "reasoning_text":
		wire.UnmapUnknown(c, e, "type", "text")
		p.Text, err = wire.ReadText(at+".text", e.Get("text"))
		return p, err
	case "refusal":
		wire.UnmapUnknown(c, e, "type", "refusal")
		p.Kind = chat.PartRefusal
		p.Text, err = wire.ReadText(at+".refusal", e.Get("refusal"))
		return p, err
	case "input_image":
		return readImage(c, e, at)
	case "input_file":
		return readFile(c, e, at)
	case "input_audio":
		return readAudio(c, e, at)
	}
	return chat.Part{Kind: chat.PartOther, Name: kind, Raw: e.Raw}, nil
}

// readImage reads an image from a data URL, a URL, or the id of a file that the provider stores.
func readImage(c *chat.Conversation, e jsonx.Value, at string) (chat.Part, error) {
	u, err := wire.ReadOptional(at+".image_url", e.Get("image_url"))
	if err != nil {
		return chat.Part{}, err
	}
	wire.UnmapUnknown(c, e, "type", "image_url", "file_id", "detail")
	if d := e.Get("detail"); !d.IsNull() && !d.Equal("auto") {
		wire.Unmap(c, "detail")
	}
	if u == "" {
		return storedFile(e, at, "image_url", "image/*")
	}
	return wire.PartOfURL(chat.PartImage, u), nil
}

func readAudio(c *chat.Conversation, e jsonx.Value, at string) (p chat.Part, err error) {
	wire.UnmapUnknown(c, e, "type", "input_audio")
	v := e.Get("input_audio")
	wire.UnmapUnknown(c, v, "data", "format")
	p = chat.Part{Kind: chat.PartAudio, Name: "input_audio"}
	if p.Data, err = wire.ReadText(at+".input_audio.data", v.Get("data")); err != nil {
		return p, err
	}
	format, err := wire.ReadText(at+".input_audio.format", v.Get("format"))
	p.Media = "audio/" + format
	return p, err
}

func readFile(c *chat.Conversation, e jsonx.Value, at string) (p chat.Part, err error) {
	data, err := wire.ReadOptional(at+".file_data", e.Get("file_data"))
	if err != nil {
		return p, err
	}
	u, err := wire.ReadOptional(at+".file_url", e.Get("file_url"))
	if err != nil {
		return p, err
	}
	switch {
	case data != "":
		p = wire.PartOfFile(data)
	case u != "":
		p = wire.PartOfURL(chat.PartDocument, u)
	default:
		if p, err = storedFile(e, at, "file_data", ""); err != nil {
			return p, err
		}
	}
	wire.UnmapUnknown(c, e, "type", "file_data", "file_url", "file_id", "filename", "detail")
	if d := e.Get("detail"); !d.IsNull() && !d.Equal("auto") {
		wire.Unmap(c, "detail")
	}
	name, err := wire.ReadOptional(at+".filename", e.Get("filename"))
	switch {
	case err != nil:
		return p, err
	case p.Kind == chat.PartDocument || p.Kind == chat.PartFile:
		p.Name = name
	case name != "": // no format has names for other media
		wire.Unmap(c, "filename")
	}
	return p, nil
}

// storedFile reads the id of a file that the provider stores; wants is the member that could hold its data instead, and media is its type
// as far as it is known.
func storedFile(e jsonx.Value, at, wants, media string) (chat.Part, error) {
	if e.Get("file_id").IsNull() {
		return chat.Part{}, wire.Invalid(at, "%s must have a %s", at, wants)
	}
	id, err := wire.ReadText(at+".file_id", e.Get("file_id"))
	return chat.Part{Kind: chat.PartFile, File: id, Media: media}, err
}

// readRequired reads a string that must not be empty.
func readRequired(field string, v jsonx.Value) (string, error) {
	t, err := wire.ReadText(field, v)
	if err == nil && t == "" {
		err = wire.Invalid(field, "%s must not be empty", field)
	}
	return t, err
}
