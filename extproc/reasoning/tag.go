package reasoning

import "bytes"

// Tags are the exact bytes around reasoning in a model's text. No tag is a prefix of another one in the same list. Read-only.
type Tags struct{ open, close []byte }

// The known tags, and the parsers that document them.
var (
	// DeepSeek R1 and V3, Qwen 3 and QwQ, GLM, Hermes 4, Phi 4, SmolLM 3, MiniMax: the reasoning parsers of vLLM, SGLang and mistral.rs.
	thinkTags = newTags("<think>", "</think>")
	// Magistral and Ministral Reasoning: vLLM's parser "mistral".
	mistralTags = newTags("[THINK]", "[/THINK]")
	// Kimi's first thinking models: SGLang's parser "kimi_k2".
	kimiTags = newTags("◁think▷", "◁/think▷")
	// Seed-OSS: vLLM's parser "seed_oss".
	seedTags = newTags("<seed:think>", "</seed:think>")
	// Gemma 4: the channel parser of mistral.rs.
	gemmaTags = newTags("<|channel>thought\n", "<channel|>")
	// The defaults of Open WebUI. Clients ask for such tags in their prompts and parse them from the text, so they are recognised only if the
	// operator configures it (reasoning: tags).
	promptedTags = []Tags{
		newTags("<thinking>", "</thinking>"), newTags("<thought>", "</thought>"), newTags("<reasoning>", "</reasoning>"), newTags("<reason>", "</reason>"),
	}
)

func newTags(open, shut string) Tags { return Tags{[]byte(open), []byte(shut)} }

// Limits in bytes of what is held back until it is known whether there is a tag.
const (
	maxTag   = 32   // length of a tag
	maxSpace = 1024 // white space before or behind a tag
)

// spaces is the length of the white space at the start of a text.
func spaces(b []byte) int {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// hasPrefix compares the start of a text with a tag: whole is true if it starts with the tag, some if the text ends within it.
func hasPrefix(b, tag []byte) (whole, some bool) {
	n := min(len(b), len(tag))
	if !bytes.Equal(b[:n], tag[:n]) {
		return false, false
	}
	return n == len(tag), n < len(tag)
}

// realign is the distance by which to move a tag after n matched bytes and a mismatch, so that the matched bytes fit again (as in KMP).
func realign(tag []byte, n int) int {
	for by := 1; by < n; by++ {
		if bytes.Equal(tag[by:n], tag[:n-by]) {
			return by
		}
	}
	return n
}
