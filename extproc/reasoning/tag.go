package reasoning

import "bytes"

// Tags are how a model marks its thoughts in its text, byte by byte as it writes them. No tag is the beginning of another one that is
// looked for at the same time. They are not to be changed.
type Tags struct{ open, close []byte }

// The spellings, and who documents them.
var (
	// DeepSeek R1 and V3, Qwen 3 and QwQ, GLM, Hermes 4, Phi 4, SmolLM 3, MiniMax: the parsers of reasoning of vLLM, SGLang and mistral.rs.
	thinkTags = spelled("<think>", "</think>")
	// Magistral and Ministral Reasoning: vLLM's parser "mistral".
	mistralTags = spelled("[THINK]", "[/THINK]")
	// Kimi's first thinking models: SGLang's parser "kimi_k2".
	kimiTags = spelled("◁think▷", "◁/think▷")
	// Seed-OSS: vLLM's parser "seed_oss".
	seedTags = spelled("<seed:think>", "</seed:think>")
	// Gemma 4: the parser of channels of mistral.rs.
	gemmaTags = spelled("<|channel>thought\n", "<channel|>")
	// Models that were trained, or are asked, to write so: the defaults of Open WebUI. Callers ask for these themselves, and read them in
	// the text, so they are looked for only where an operator says so.
	askedTags = []Tags{
		spelled("<thinking>", "</thinking>"), spelled("<thought>", "</thought>"), spelled("<reasoning>", "</reasoning>"), spelled("<reason>", "</reason>"),
	}
)

func spelled(open, shut string) Tags { return Tags{[]byte(open), []byte(shut)} }

// Limits in bytes on what is held back of a text until it is known whether a tag stands there.
const (
	maxTag   = 32   // of a tag
	maxSpace = 1024 // of white space before a tag, or behind one
)

// spaces is how much white space a text begins with.
func spaces(b []byte) int {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// begins compares the beginning of a text with a tag: whole is true when it is there, some when what there is may become it.
func begins(b, tag []byte) (whole, some bool) {
	n := min(len(b), len(tag))
	if !bytes.Equal(b[:n], tag[:n]) {
		return false, false
	}
	return n == len(tag), n < len(tag)
}

// shift is how far a tag, of which n bytes came before one that does not fit, must move until what came fits again.
func shift(tag []byte, n int) int {
	for by := 1; by < n; by++ {
		if bytes.Equal(tag[by:n], tag[:n-by]) {
			return by
		}
	}
	return n
}
