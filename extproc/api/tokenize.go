package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/models/tokens"
)

// MaxTokenizeBody is the maximum size of a body of POST /tokenize, in bytes.
const MaxTokenizeBody = 1 << 20

// tokenizeRequest is the body of POST /tokenize, as vLLM's.
type tokenizeRequest struct {
	model, prompt string
	strings       bool // return_token_strs
}

// tokenizeReply is the answer, as vLLM's.
type tokenizeReply struct {
	Count   int      `json:"count"`
	Window  int      `json:"max_model_len,omitempty"`
	Tokens  []int32  `json:"tokens"`
	Strings []string `json:"token_strs,omitempty"`
}

// Tokenize answers with the tokens of a text in a model's vocabulary. It knows those of OpenAI's models whose vocabulary is published, and refuses others.
func (s *Server) Tokenize(_ context.Context, c *Caller) (stream.Reply, error) {
	r, err := parseTokenize(c.Body)
	if err != nil {
		return stream.Reply{}, err
	}
	if !tokens.Published(r.model) {
		f := fault.Newf(fault.ModelNotFound, "the tokens of the model %q are not known here: only those of the models %s…", fault.Clip(r.model), strings.Join(tokens.Families(), "…, "))
		f.Param = "model"
		return stream.Reply{}, f
	}
	ids, pieces := tokens.Encode(r.prompt)
	reply := tokenizeReply{Count: len(ids), Tokens: append([]int32{}, ids...)}
	if o, ok := c.Catalog.Model(r.model); ok {
		reply.Window = o.Context
	}
	if r.strings {
		reply.Strings = make([]string, len(pieces))
		for i, piece := range pieces {
			reply.Strings[i] = printable(piece)
		}
	}
	body, err := json.Marshal(&reply)
	return c.Head.JSON(body), err
}

// parseTokenize parses a body. The error is a fault that names the member.
func parseTokenize(body []byte) (r tokenizeRequest, err error) {
	root, err := jsonx.Unique.Parse(body)
	if se, ok := errors.AsType[*jsonx.SyntaxError](err); ok {
		return r, fault.New(fault.InvalidRequest, se.Error(), err)
	}
	if err != nil || root.Kind() != jsonx.Object {
		return r, fault.Newf(fault.InvalidRequest, `expected a JSON object: {"model": "…", "prompt": "…"}`)
	}
	hasModel, hasPrompt := false, false
	for key, m := range root.Members {
		var ok bool
		name, want := string(key), "a text"
		switch name {
		case "model":
			r.model, ok = m.Str()
			hasModel = true
		case "prompt":
			r.prompt, ok = m.Str()
			hasPrompt = true
		case "add_special_tokens": // these vocabularies add none to a text
			_, ok = m.Bool()
			want = "true or false"
		case "return_token_strs":
			r.strings, ok = m.Bool()
			ok, want = ok || m.IsNull(), "true or false"
		case "messages":
			return r, memberFault(name, "messages: the tokens that a provider adds to messages are not published: send a prompt here, or count them with /v1/responses/input_tokens or /v1/messages/count_tokens")
		default:
			return r, memberFault(fault.Clip(name), fault.Clip(name)+": expected model, prompt, add_special_tokens or return_token_strs")
		}
		if !ok {
			return r, memberFault(name, name+": expected "+want)
		}
	}
	switch {
	case !hasModel:
		return r, memberFault("model", "model: it is missing")
	case !hasPrompt:
		return r, memberFault("prompt", "prompt: it is missing")
	}
	return r, nil
}

// printable writes the bytes of a token as one character each, as files of tokenizers do: itself if it is printable and not a space, otherwise one from U+0100 on.
func printable(piece string) string {
	var b strings.Builder
	for i := range len(piece) {
		b.WriteRune(byteRunes[piece[i]])
	}
	return b.String()
}

// byteRunes are the characters of bytes.
var byteRunes = func() (runes [256]rune) {
	next := rune(0x100)
	for i := range runes {
		if b := rune(i); b > ' ' && b <= '~' || b >= 0xA1 && b != 0xAD {
			runes[i] = b
			continue
		}
		runes[i] = next
		next++
	}
	return runes
}()
