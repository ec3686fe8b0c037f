package modality

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/formdata"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// Request is a request to one of the endpoints, parsed as far as its price depends on it.
type Request struct {
	Op     *Operation
	Model  string // as the client wrote it; "" if it named none
	Stream bool   // the answer is to be an event stream
	Doc    jsonx.Doc

	ContentType string // content type of the body that is sent

	body []byte
	form *formdata.Form // nil for JSON

	images        int64 // number to be generated
	size, quality string
	pixels        int64 // of one image; 0: unknown
	steps         int64 // inference steps; 0: the model's own number
	sent          int64 // number of images in the request
	output        int64 // maximum tokens of the answer; 0: the model's
	characters    int64 // of a text to be spoken
	text          int64 // bytes that may be text tokens
	milliseconds  int64 // of the uploaded audio; an upper bound unless exact
	exact         bool
	unpriced      string // a member whose cost cannot be determined in advance
}

// Limits of what a request may ask for.
const (
	maxImages = 1000
	maxPixels = 1 << 30
	maxWord   = 64
)

// Parse parses a request. The errors are faults.
func Parse(op *Operation, contentType string, body []byte) (*Request, error) {
	r := &Request{Op: op, body: body, images: 1}
	var err error
	if op.form && (!op.formless || strings.HasPrefix(strings.ToLower(contentType), "multipart/")) {
		err = r.parseForm(contentType)
	} else {
		err = r.parseJSON(contentType)
	}
	if err != nil {
		return nil, err
	}
	if r.Model == "" && !op.optional {
		return nil, wire.Invalid("model", "model is missing")
	}
	return r, r.check()
}

func (r *Request) parseForm(contentType string) error {
	form, err := formdata.Parse(contentType, r.body)
	if err == nil {
		err = form.Once()
	}
	if err != nil {
		return fault.Newf(fault.InvalidRequest, "%s", err)
	}
	r.form, r.ContentType = form, form.ContentType
	for i := range form.Parts {
		p := &form.Parts[i]
		name := strings.TrimSuffix(p.Name, "[]")
		switch {
		case p.Filename != "" && name == "file":
			r.milliseconds, r.exact = duration(p.Content)
		case p.Filename != "":
			r.sent++
		default:
			if err := r.value(name, string(p.Content)); err != nil {
				return err
			}
			r.text += int64(len(p.Content))
		}
	}
	return nil
}

func (r *Request) parseJSON(contentType string) error {
	if kind, _, _ := strings.Cut(contentType, ";"); kind != "" && !strings.EqualFold(strings.TrimSpace(kind), header.JSON) {
		return fault.Newf(fault.UnsupportedMedia, "content-type %q: %s takes application/json", fault.Clip(kind), r.Op.Path())
	}
	doc, err := jsonx.Scan(r.body)
	if err != nil {
		return wire.NotJSON(err)
	}
	r.Doc, r.ContentType = doc, header.JSON
	for i := range doc.Members {
		m := &doc.Members[i]
		v := doc.Get(m.Key)
		if r.isText(m.Key) {
			r.text += int64(len(v.Raw))
		}
		switch s, isString := v.Str(); {
		case isString:
			err = r.value(m.Key, s)
		case m.Kind == jsonx.Number, m.Kind == jsonx.Bool:
			err = r.value(m.Key, string(v.Raw))
		case m.Kind == jsonx.Array && (m.Key == "images" || m.Key == "image"):
			for range v.Each {
				r.sent++
			}
		case m.Key == "model":
			err = wire.Invalid("model", "model must be a string")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isText reports whether a member's value may be billed as text tokens. Inline images are not text.
func (r *Request) isText(member string) bool {
	return member != "images" && member != "image" && member != "mask" && member != wire.HintKey
}

// value processes a member of the body.
func (r *Request) value(name, v string) (err error) {
	switch name {
	case "model":
		r.Model = v
	case "stream":
		r.Stream = v == "true"
	case "stream_format":
		r.Stream = v == "sse"
	case "n":
		r.images, err = number(name, v, maxImages)
	case "width", "height":
		var side int64
		if side, err = number(name, v, maxPixels); side > 0 {
			r.pixels = max(r.pixels, 1) * side
		}
	case "steps", "num_inference_steps":
		r.steps, err = number(name, v, maxImages)
	case "max_tokens":
		r.output, err = number(name, v, maxPixels)
	case "size":
		r.size = v
	case "quality":
		r.quality = v
	case "input":
		r.characters = int64(utf8.RuneCountInString(v))
	case "url", "file_url":
		if r.Op.form {
			r.unpriced = name
		}
	}
	return err
}

func number(name, v string, maxValue int64) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 || n > maxValue {
		return 0, wire.Invalid(name, "%s must be a number from 1 to %d", name, maxValue)
	}
	return n, nil
}

// check completes what was read, and refuses words that cannot be looked up.
func (r *Request) check() error {
	for name, v := range map[string]string{"size": r.size, "quality": r.quality} {
		if len(v) > maxWord {
			return wire.Invalid(name, "%s is too long", name)
		}
	}
	width, height, ok := strings.Cut(r.size, "x")
	w, err := strconv.ParseInt(width, 10, 64)
	h, err2 := strconv.ParseInt(height, 10, 64)
	if ok && err == nil && err2 == nil && w > 0 && h > 0 && w < maxPixels && h < maxPixels {
		r.pixels = w * h
	}
	if r.Op.Sealed() && r.Doc.Get("e2ee").Kind() != jsonx.Object {
		return wire.Invalid("e2ee", "e2ee must be an object: the encrypted request")
	}
	if r.pixels > maxPixels {
		return wire.Invalid("size", "an image of %d pixels is too large", r.pixels)
	}
	if r.Op.form && !r.Op.images() && r.unpriced == "" && r.form.Find("file") == nil {
		return wire.Invalid("file", "file is missing")
	}
	return nil
}

// Body returns the request for a provider's name of the model: the client's bytes, if that is the client's name.
func (r *Request) Body(model string) []byte {
	if r.form != nil {
		p := r.form.Find("model")
		switch {
		case p == nil:
			return r.form.Add("model", model)
		case string(p.Content) == model:
			return r.body
		}
		return r.form.Replace(p, model)
	}
	var e jsonx.Edits
	if !r.Doc.Get("model").Equal(model) {
		e.Set(&r.Doc, "model", jsonx.AppendString(nil, model))
	}
	if r.Doc.Get(wire.HintKey).Exists() {
		e.Delete(&r.Doc, wire.HintKey)
	}
	if e.Empty() {
		return r.body
	}
	return e.AppendTo(bytes.Clone(nil), &r.Doc)
}
