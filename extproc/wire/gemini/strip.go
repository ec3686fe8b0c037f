package gemini

import (
	"encoding/base64"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// wrapped is how a signature of Anthropic's begins where it was wrapped for a client of this format.
var wrapped = base64.StdEncoding.EncodeToString([]byte(chat.ClaudeThinking[:18]))

// strip takes out of a history what the provider cannot check: thoughts that another maker signed and, where it refused the
// history's signatures, all of them. Calls that no model of Google's made get the signature of such. All other bytes stay.
func strip(e *jsonx.Edits, d *jsonx.Doc, all bool) (degraded []string) {
	lost := false
	for i := range d.Members {
		m := &d.Members[i]
		if camel([]byte(m.Key)) != "contents" {
			continue
		}
		contents := jsonx.Value{Raw: d.Bytes[m.Start:m.End], At: m.Start}
		for _, c := range contents.Each {
			if get(c, "role").Equal("model") {
				lost = stripContent(e, get(c, "parts"), all) || lost
			}
		}
	}
	if lost {
		degraded = []string{"thoughtSignature"}
	}
	return degraded
}

// stripContent strips a turn of the model. Its first call must be signed.
func stripContent(e *jsonx.Edits, parts jsonx.Value, all bool) (lost bool) {
	called := false
	before, kept := 0, 0 // where the part before ends, and how many were kept
	for _, v := range parts.Each {
		p := readPiece(v)
		end := v.At + len(v.Raw)
		isCall := !p.call.IsNull()
		said, _ := p.signature.Str()
		gone := said != "" && (all || isForeign(said))
		isThought, _ := p.thought.Bool()
		switch {
		case gone && isThought && kept > 0:
			e.Replace(before, end, nil)
			lost = true
			continue
		case gone && isThought:
			e.Replace(v.At, pastComma(parts, end), nil)
			lost = true
			continue
		case gone:
			e.Replace(p.signature.At, p.signature.At+len(p.signature.Raw), []byte(`"`+unsignedCall+`"`))
			lost = true
		case isCall && !called && said == "":
			e.Replace(v.At+1, v.At+1, []byte(`"thoughtSignature":"`+unsignedCall+`",`))
		}
		called = called || isCall
		before = end
		kept++
	}
	return lost
}

func isForeign(signature string) bool {
	_, format, _ := keptSignature(signature)
	return format != "" && format != chat.GeminiThinking
}

// pastComma is the offset after the comma that follows i in an array, or i if none does.
func pastComma(array jsonx.Value, i int) int {
	for j := i - array.At; j < len(array.Raw); j++ {
		switch array.Raw[j] {
		case ' ', '\t', '\r', '\n':
		case ',':
			return array.At + j + 1
		default:
			return i
		}
	}
	return i
}
