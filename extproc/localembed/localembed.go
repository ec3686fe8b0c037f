// Package localembed serves OpenAI's embeddings API with the local model: texts to vectors, on this machine. It knows the format and the model's
// limits; not the caller, nor the price.
package localembed

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/models"
	"bardo.money/gateway/policy"
)

// Provider is the provider named in the local model's answers.
const Provider policy.ProviderID = "local"

// Limits of requests.
const (
	MaxTexts  = 2048            // per request, as at OpenAI
	requests  = 8               // concurrent requests
	busyAgain = 2 * time.Second // Retry-After of a refused request
)

// Model is a local model as clients see it. Safe for concurrent use.
type Model struct {
	ID    policy.ModelID // local/NAME
	About models.About
	by    models.Measurer
	slots chan struct{}
}

// New returns the model of a measurer; nil if it has none.
func New(about models.About, by models.Measurer) *Model {
	if about.Name == "" {
		return nil
	}
	return &Model{ID: policy.ModelID(string(Provider) + "/" + about.Name), About: about, by: by, slots: make(chan struct{}, requests)}
}

// Request is a valid request.
type Request struct {
	Texts  []string
	Base64 bool // vectors are written in base64
}

// Parse parses a request for the model. The error is a fault.
func (m *Model) Parse(doc *jsonx.Doc) (r Request, err error) {
	if r.Base64, err = encoding(doc.Get("encoding_format")); err != nil {
		return r, err
	}
	if d := doc.Get("dimensions"); !d.IsNull() {
		if n, ok := d.Int(); !ok || n != int64(m.About.Dimensions) {
			return r, wire.Invalid("dimensions", "the vectors of %s have %d dimensions, and cannot be made shorter or longer", m.ID, m.About.Dimensions)
		}
	}
	if r.Texts, err = texts(doc.Get("input")); err != nil {
		return r, err
	}
	return r, nil
}

func encoding(v jsonx.Value) (inBase64 bool, err error) {
	switch {
	case v.IsNull(), v.Equal("float"):
		return false, nil
	case v.Equal("base64"):
		return true, nil
	}
	return false, wire.Invalid("encoding_format", "encoding_format must be float or base64")
}

// texts returns the inputs: a text, or an array of them.
func texts(v jsonx.Value) (list []string, err error) {
	if text, ok := v.Str(); ok {
		return []string{text}, checkText(text, "input")
	}
	for i, e := range v.Each {
		if i == MaxTexts {
			return nil, wire.Invalid("input", "input has more than %d texts", MaxTexts)
		}
		at := "input[" + strconv.Itoa(i) + "]"
		text, ok := e.Str()
		if !ok {
			return nil, wire.Invalid("input", "%s must be a text, not %s: lists of tokens are of another model's vocabulary", at, e.Kind())
		}
		if err := checkText(text, at); err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, nil
}

func checkText(text, at string) error {
	if text == "" {
		return wire.Invalid("input", "%s must not be empty", at)
	}
	return nil
}

// Answer is a complete answer.
type Answer struct {
	Body   []byte
	Tokens int64 // of all texts, as the model counts them
}

// Do runs the model on the texts of a request. The error is a fault, or that of ctx.
func (m *Model) Do(ctx context.Context, r *Request) (Answer, error) {
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	default:
		return Answer{}, busy(nil)
	}
	all := make([]models.Vector, len(r.Texts))
	for i, text := range r.Texts { // one at a time, so that other users of the model do not wait for all of them
		var err error
		if all[i], err = m.one(ctx, text, i); err != nil {
			return Answer{}, err
		}
	}
	return m.write(all, r.Base64), nil
}

// one returns the vector of a text that fits the model's window.
func (m *Model) one(ctx context.Context, text string, i int) (models.Vector, error) {
	v, err := m.by.Measure(ctx, text)
	switch {
	case err == nil && v.Cut:
		return v, wire.Invalid("input", "input[%d] has more than the %d tokens that %s reads", i, m.About.Window, m.ID)
	case err == nil:
		return v, nil
	case errors.Is(err, models.ErrBusy):
		return v, busy(err)
	case errors.Is(err, models.ErrOff):
		return v, fault.New(fault.NoProvider, "the local model "+m.About.Name+" is off: bardo doctor says why", err)
	case errors.Is(err, context.DeadlineExceeded):
		return v, fault.New(fault.UpstreamTimeout, "the local model was too slow", err)
	case ctx.Err() != nil:
		return v, err
	}
	return v, fault.New(fault.Internal, "the local model failed", err)
}

func busy(reason error) *fault.Fault {
	f := fault.New(fault.Overloaded, "too many texts wait for the local model", reason)
	f.RetryAfter = busyAgain
	return f
}

// write returns the answer in OpenAI's format.
func (m *Model) write(all []models.Vector, inBase64 bool) (a Answer) {
	const perNumber = 14
	b := make([]byte, 0, len(all)*(m.About.Dimensions*perNumber+64)+256)
	b = append(b, `{"object":"list","data":[`...)
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"object":"embedding","index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"embedding":`...)
		if inBase64 {
			b = appendBase64(b, all[i].Values)
		} else {
			b = appendFloats(b, all[i].Values)
		}
		b = append(b, '}')
		a.Tokens += int64(all[i].Tokens)
	}
	b = append(b, `],"model":`...)
	b = jsonx.AppendString(b, m.ID)
	for i, name := range [...]string{`,"usage":{"prompt_tokens":`, `,"total_tokens":`} {
		b = append(b, name...)
		if b = strconv.AppendInt(b, a.Tokens, 10); i > 0 {
			b = append(b, "}}"...)
		}
	}
	a.Body = b
	return a
}

func appendFloats(b []byte, values []float32) []byte {
	b = append(b, '[')
	for i, x := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
	}
	return append(b, ']')
}

// appendBase64 writes float32 values, little-endian, as OpenAI does.
func appendBase64(b []byte, values []float32) []byte {
	raw := make([]byte, 0, 4*len(values))
	for _, x := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, raw)
	return append(b, '"')
}
