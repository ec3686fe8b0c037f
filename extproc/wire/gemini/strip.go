package gemini

import (
	"encoding/base64"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// encodedPrefixes are the beginnings of signatures of Anthropic's and OpenAI's that were encoded for a client of this format. Those of others are found when the
// provider refuses them.
var encodedPrefixes = []string{encodedPrefix(chat.ClaudeThinking), encodedPrefix(chat.ResponsesThinking)}

// encodedPrefix returns the beginning of all signatures of a format, as far as it does not depend on what follows: three bytes are four characters of base64.
func encodedPrefix(format string) string {
	return base64.StdEncoding.EncodeToString([]byte(format[:len(format)/3*3]))
}

// mayHaveForeign reports whether a history may have thoughts that another vendor signed.
func mayHaveForeign(d *jsonx.Doc) bool {
	return slices.ContainsFunc(encodedPrefixes, d.MayContain)
}

// strip removes from a history what the provider cannot verify: thoughts signed by another vendor; if all is set, because the provider
// refused the history's signatures, all signed thoughts. Calls whose signature is removed get the documented replacement. All other bytes
// stay.
func strip(e *jsonx.Edits, d *jsonx.Doc, all bool) (degraded []string) {
	changed := false
	for key, contents := range wire.TopMembers(d) {
		if camel([]byte(key)) != "contents" {
			continue
		}
		for _, c := range contents.Each {
			if get(c, "role").Equal("model") {
				changed = stripContent(e, get(c, "parts"), all) || changed
			}
		}
	}
	if changed {
		degraded = []string{"thoughtSignature"}
	}
	return degraded
}

// stripContent strips a turn of the model. Its first call must have a signature.
func stripContent(e *jsonx.Edits, parts jsonx.Value, all bool) (changed bool) {
	called := false
	before, left := 0, 0 // end of the previous part; number of parts that stay
	for _, v := range parts.Each {
		p := readPiece(v)
		end := v.At + len(v.Raw)
		isCall := !p.call.IsNull()
		signature, _ := p.signature.Str()
		remove := signature != "" && (all || isForeign(signature))
		isThought, _ := p.thought.Bool()
		switch {
		case remove && isThought && left > 0:
			e.Replace(before, end, nil)
			changed = true
			continue
		case remove && isThought:
			e.Replace(v.At, pastComma(parts, end), nil)
			changed = true
			continue
		case remove:
			e.Replace(p.signature.At, p.signature.At+len(p.signature.Raw), []byte(`"`+unsignedCall+`"`))
			changed = true
		case isCall && !called && signature == "":
			e.Replace(v.At+1, v.At+1, []byte(`"thoughtSignature":"`+unsignedCall+`",`))
		}
		called = called || isCall
		before = end
		left++
	}
	return changed
}

func isForeign(signature string) bool {
	_, format, _ := canonicalSignature(signature)
	return format != "" && format != chat.GeminiThinking
}

// pastComma returns the offset after the comma that follows i in an array; i if there is none.
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
