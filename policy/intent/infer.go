package intent

import (
	"time"

	"bardo.money/gateway/policy"
)

// Task is the inferred kind of a request, and its inferred needs.
type Task struct {
	Name       string
	Difficulty float64 // 0 to 1
	Quality    policy.Quality
	Latency    time.Duration // 0: no bound
	Output     int64         // usual tokens of its answer

	Reconsidered string // how a classifier changed the quality: easier, more difficult; "" for no change

	points [maxPoints]Point
	n      int
}

// Point is one property of a request that raises or lowers its difficulty.
type Point struct {
	What  string  `json:"what"`
	Worth float64 `json:"worth"` // of difficulty; below zero: easier
}

const maxPoints = 16

// Points returns the components of the difficulty, in no order. Their sum, clamped to 0 to 1, is the difficulty.
func (t *Task) Points() []Point { return t.points[:t.n] }

func (t *Task) add(what string, worth float64) {
	if worth != 0 && t.n < maxPoints {
		t.points[t.n] = Point{what, worth}
		t.n++
	}
}

// kind is a kind of task: its base difficulty, and the tokens of a usual answer.
type kind struct {
	name   string
	base   float64
	output int64
}

var (
	kindReasoning = kind{"reasoning", 0.6, 1500}
	kindAgent     = kind{"agent", 0.35, 800}
	kindTools     = kind{"tools", 0.05, 150}
	kindVision    = kind{"vision", 0.2, 300}
	kindClassify  = kind{"classify", 0.02, 60}
	kindExtract   = kind{"extract", 0.05, 300}
	kindTranslate = kind{"translate", 0.05, 150}
	kindSummarize = kind{"summarize", 0.05, 350}
	kindRewrite   = kind{"rewrite", 0.05, 250}
	kindMaths     = kind{"maths", 0.12, 500}
	kindCode      = kind{"code", 0.1, 700}
	kindData      = kind{"data", 0.08, 400}
	kindAnalysis  = kind{"analysis", 0.1, 800}
	kindLong      = kind{"long", 0.2, 500}
	kindChat      = kind{"chat", 0.05, 300}
)

// The parts of a conversation that are read.
const (
	ReadText  = readHead + readTail // bytes of the latest user message, from its beginning and its end
	ReadTurns = 8                   // earlier user messages
	ReadTurn  = 512                 // bytes of each
)

const (
	manyTools   = 8      // as many as only agents offer
	longSystem  = 8_000  // bytes of a system prompt as long as only agents use
	shortAnswer = 32     // tokens: a word or a label
	longInput   = 32_000 // tokens
)

// The lowest difficulty of each quality class.
const (
	fromMedium  = 0.18
	fromHigh    = 0.3
	fromMaximum = 0.38
)

func qualityFor(difficulty float64) policy.Quality {
	switch {
	case difficulty >= fromMaximum:
		return policy.QualityMaximum
	case difficulty >= fromHigh:
		return policy.QualityHigh
	case difficulty >= fromMedium:
		return policy.QualityMedium
	}
	return policy.QualityLow
}

// kindOf returns the kind of task, by the request's content first, then by its words.
func kindOf(f *Facts, t *features) kind {
	switch {
	case f.Effort >= policy.EffortHigh:
		return kindReasoning
	case f.Tools >= manyTools || f.Tools > 0 && f.SystemBytes >= longSystem:
		return kindAgent
	case f.Tools > 0:
		return kindTools
	case f.Images:
		return kindVision
	case f.MaxTokens > 0 && f.MaxTokens <= shortAnswer:
		return kindClassify
	case f.Schema:
		return kindExtract
	}
	for _, row := range [...]struct {
		class wordClass
		kind  kind
	}{
		{translate, kindTranslate},
		{summarize, kindSummarize},
		{rewrite, kindRewrite},
		{extract, kindExtract},
		{classify, kindClassify},
		{data, kindData},
		{code, kindCode},
		{maths, kindMaths},
		{analyse, kindAnalysis},
	} {
		if t.has[row.class] > 0 {
			return row.kind
		}
	}
	switch {
	case t.fence || t.code > 4:
		return kindCode
	case t.maths > 2:
		return kindMaths
	case f.InputTokens >= longInput:
		return kindLong
	}
	return kindChat
}

// share returns n/full, clamped to 0 to 1.
func share(n, most float64) float64 { return min(max(n/most, 0), 1) }

// Infer estimates what a request is about and how difficult it is.
//
// The kind of task follows from explicit properties (high effort, tools, images, a limit of a few tokens, a schema), else from the words of its
// instruction. Its difficulty is a sum of points: for the kind, the length of the instruction and its clauses, words that ask for reasons,
// mathematical symbols, code, lists, tools, the length of the input, and the conversation so far. Most of them count the structure of the text, which
// is the same in every language and script. It is pure, reads at most 3 KiB of the latest text and 512 bytes of each of eight earlier ones, and
// allocates nothing.
func Infer(f *Facts) Task {
	t := rate(f, f.Text)
	for _, text := range f.Earlier {
		if text == "" {
			continue
		}
		earlier := Facts{Text: text, Tools: f.Tools, SystemBytes: f.SystemBytes}
		if e := rate(&earlier, text); e.Difficulty > t.Difficulty {
			t.add("the conversation so far", e.Difficulty-t.Difficulty)
			t.Difficulty = e.Difficulty
		}
	}
	t.Quality = qualityFor(t.Difficulty)
	switch f.Effort { //nolint:exhaustive // the others say nothing of quality
	case policy.EffortMax:
		t.Quality = policy.QualityMaximum
	case policy.EffortHigh:
		t.Quality = max(t.Quality, policy.QualityHigh)
	}
	return t
}

func rate(f *Facts, message string) Task {
	var text features
	text.read(message)
	k := kindOf(f, &text)
	t := Task{Name: k.name}
	t.add("a task of this kind", k.base)
	t.add("length of the instruction", 0.35*share(text.size-6, 54))
	t.add("clauses", 0.2*share(float64(text.clauses)-1, 8))
	t.add("words of reasoning", 0.1*share(float64(text.has[demanding]), 1)+0.24*share(float64(text.has[demanding]-1), 4))
	if k == kindMaths && text.has[demanding] > 0 {
		t.add("a proof is wanted", 0.12)
	}
	t.add("symbols of mathematics", 0.2*share(float64(text.maths), 6))
	if text.fence {
		t.add("a program", 0.1)
	}
	t.add("tokens of programs", 0.05*share(float64(text.code), 10))
	t.add("a list", 0.05*share(float64(text.items), 5))
	if text.has[simple] > 0 {
		t.add("a simple answer is wanted", -0.08)
	}
	if f.Tools >= manyTools {
		t.add("many tools", 0.1)
	}
	t.add("length of the input", 0.15*share(float64(f.InputTokens), 60_000))
	for _, p := range t.Points() {
		t.Difficulty += p.Worth
	}
	t.Difficulty = min(max(t.Difficulty, 0), 1)
	t.Output = outputOf(k, &t, f)
	if k == kindClassify {
		t.Latency = 5 * time.Second
	}
	return t
}

// outputOf returns the usual tokens of an answer: more for difficult tasks.
func outputOf(k kind, t *Task, f *Facts) int64 {
	output := int64(float64(k.output) * (0.3 + 2*t.Difficulty))
	if f.MaxTokens > 0 {
		output = min(output, int64(f.MaxTokens))
	}
	return max(output, 1)
}
