package intent

import (
	"time"

	"bardo.money/gateway/policy"
)

// Task is what a request without hints seems to be about. The rules are coarse on purpose: they choose a class of models where the
// client left the choice to the gateway, and nothing else.
type Task struct {
	Name    string
	Quality policy.Quality
	Latency time.Duration // 0: no bound
}

// The tasks, in the order in which they are looked for. What a request asks for openly comes before what its text suggests.
var (
	taskReasoning = Task{"reasoning", policy.QualityHigh, 0}
	taskAgent     = Task{"agent", policy.QualityHigh, 0}
	taskTools     = Task{"tools", policy.QualityMedium, 0}
	taskVision    = Task{"vision", policy.QualityMedium, 0}
	taskCode      = Task{"code", policy.QualityHigh, 0}
	taskClassify  = Task{"classify", policy.QualityLow, 5 * time.Second}
	taskExtract   = Task{"extract", policy.QualityMedium, 0}
	taskAnalysis  = Task{"analysis", policy.QualityHigh, 0}
	taskTranslate = Task{"translate", policy.QualityLow, 0}
	taskSummarise = Task{"summarize", policy.QualityLow, 0}
	taskLong      = Task{"long", policy.QualityMedium, 0}
	taskChat      = Task{"chat", policy.QualityMedium, 0}
)

// ReadText is how many bytes of the newest user text are looked at, from its beginning.
const ReadText = 2_048

const (
	manyTools   = 8      // an agent's own set
	longSystem  = 8_000  // bytes of a system prompt that only agents have
	shortAnswer = 32     // tokens: a word or a label
	longInput   = 32_000 // tokens
	atBeginning = 200    // bytes in which an instruction is looked for
)

// Infer finds out what a request seems to be about, by the first of these rules that holds:
//
//	reasoning  the caller asks for high effort; for the highest effort the quality is the highest too
//	agent      eight tools or more, or tools with a system prompt of 8,000 bytes
//	tools      any tools
//	vision     images
//	code       the newest user text has a code fence, or words of programs
//	classify   at most 32 tokens of answer
//	extract    the answer must follow a schema
//	analysis   the text asks for a proof, a derivation, a plan or thoughts step by step
//	translate  it begins by asking for a translation
//	summarize  it begins by asking for a summary
//	long       32,000 tokens of input or more
//	chat       everything else
//
// It is pure, and reads at most the first 2 KiB of the text.
func Infer(f *Facts) Task {
	text := f.Text[:min(len(f.Text), ReadText)]
	begin := text[:min(len(text), atBeginning)]
	switch {
	case f.Effort == policy.EffortMax:
		return Task{taskReasoning.Name, policy.QualityMaximum, 0}
	case f.Effort == policy.EffortHigh:
		return taskReasoning
	case f.Tools >= manyTools || f.Tools > 0 && f.SystemBytes >= longSystem:
		return taskAgent
	case f.Tools > 0:
		return taskTools
	case f.Images:
		return taskVision
	case hasAny(text, codeWords):
		return taskCode
	case f.MaxTokens > 0 && f.MaxTokens <= shortAnswer:
		return taskClassify
	case f.Schema:
		return taskExtract
	case hasAny(text, analysisWords):
		return taskAnalysis
	case hasAny(begin, translateWords):
		return taskTranslate
	case hasAny(begin, summaryWords):
		return taskSummarise
	case f.InputTokens >= longInput:
		return taskLong
	}
	return taskChat
}

// The words are matched as they are, and with a capital at their beginning: no copy of the text is made.
var (
	codeWords = words("```", "func ", "def ", "#include", "SELECT ", "console.log", "public static", "=> {", "stack trace", "Traceback",
		"refactor", "unit test", "compiler", "regex", "python", "javascript", "typescript", "golang")
	analysisWords  = words("step by step", "prove ", "derive ", "trade-off", "root cause", "analyze", "analyse", "reason about", "strategy for", "plan for")
	translateWords = words("translate")
	summaryWords   = words("summarize", "summarise", "summary of", "tl;dr")
)

// wordSet are words of two bytes or more by their first byte, so that a text is gone through once.
type wordSet [256][]string

func words(ws ...string) *wordSet {
	var set wordSet
	add := func(w string) { set[w[0]] = append(set[w[0]], w) }
	for _, w := range ws {
		add(w)
		if c := w[0]; c >= 'a' && c <= 'z' {
			add(string(c-'a'+'A') + w[1:])
		}
	}
	return &set
}

func hasAny(text string, set *wordSet) bool {
	for i := range len(text) {
		for _, w := range set[text[i]] {
			if len(text)-i >= len(w) && text[i+1] == w[1] && text[i:i+len(w)] == w {
				return true
			}
		}
	}
	return false
}
