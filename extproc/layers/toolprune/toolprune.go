// Package toolprune is layer L4: it leaves out tool definitions that a request does not need (D-36). It keeps tools that the conversation uses. The choice is
// the same for all requests of a conversation, since a changed list of tools invalidates the provider's prompt cache, which costs more than it saves.
package toolprune

import (
	"context"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/jsonx"
)

// Name is the layer's name in X-Bardo-Pipeline.
const Name = "l4"

// Limits for agents' requests, and for those of other clients.
const (
	MaxAgentTools  = 12 // tools of an agent's request
	maxAgentTokens = 1500
	maxTools       = 40 // tools of other clients' requests
)

// Mode is which requests are pruned.
type Mode string

// The modes.
const (
	Auto Mode = "auto" // agents' requests, and requests with more than 40 tools
	On   Mode = "on"   // all requests, as those of agents
	Off  Mode = "off"
)

// Layer chooses tools. Safe for concurrent use.
type Layer struct {
	Mode   Mode     // "" means Auto
	Meta   Mode     // which requests get three tools to find the others: "" and Auto mean those with more than 100, On all that are pruned
	Tasks  TaskMap  // nil means DefaultTasks
	Memory *Choices // shared across changes of the configuration

	Embedder    Embedder    // ranks tools by meaning, for requests and searches; nil: they are ranked by words
	Vectors     *Vectors    // as Memory; only used with an embedder
	VectorStore VectorStore // nil: vectors are only in Vectors
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Timed     = Layer{}
	_ pipeline.Caller    = Layer{}
	_ pipeline.Waiting   = Layer{}
)

// Name is "l4".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileStandard}

// Profiles implements pipeline.Layer.
func (Layer) Profiles() []string { return profiles }

// limit is the number of tools that a request may keep, and the tokens of their definitions.
type limit struct{ tools, tokens int }

// limitOf is the limit of a request; ok is false if none applies.
func (l Layer) limitOf(x *pipeline.Exchange, n int) (limit, bool) {
	h, agentTools := &x.Hints, MaxAgentTools
	if k := x.Knobs.MaxTools; k > 0 && k < agentTools {
		agentTools = k
	}
	agent := l.Mode == On || h.GolemID != "" || h.Subsystem != "" || h.TickType != ""
	switch {
	case l.Mode == Off:
		return limit{}, false
	case agent: // without a task, tools are only left out if there are too many
		return limit{agentTools, maxAgentTokens}, n > agentTools || h.TickType != ""
	}
	return limit{tools: maxTools}, n > maxTools
}

// Applies reports whether the request has tools that may be left out.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	if l.Mode == Off || x.Request.Op != chat.Generate || x.ForSealed() {
		return false
	}
	n := count(x.Request.Member("tools", "functions"))
	_, ok := l.limitOf(x, n)
	return n > 0 && ok
}

// count is the number of tools. In Gemini's format, an element of the list has a list of functions.
func count(tools jsonx.Value) (n int) {
	for _, e := range tools.Each {
		declared := e.Get("functionDeclarations")
		if !declared.Exists() {
			declared = e.Get("function_declarations")
		}
		if declared.Kind() != jsonx.Array {
			n++
			continue
		}
		for range declared.Each {
			n++
		}
	}
	return n
}

// expected is the expected time of Request, including the local model.
const expected = 50 * time.Millisecond

// Expected implements pipeline.Timed.
func (Layer) Expected(*pipeline.Exchange) time.Duration { return expected }

// Request removes the tools that the request does not need, or replaces them by three to find them.
func (l Layer) Request(ctx context.Context, x *pipeline.Exchange) error {
	t, err := x.Transcript()
	if err != nil {
		return err
	}
	lim, ok := l.limitOf(x, len(t.Tools))
	if !ok {
		return nil
	}
	switch {
	case l.usesMeta(x, len(t.Tools)):
		return l.replace(x, t, limit{}, nil)
	case l.sharesTools(x, t, lim):
		return l.replace(x, t, lim, l.tasks().shared(t))
	}
	keep, note := l.choose(ctx, x, t, lim)
	rewritten := l.Memory.breaksCache(x, t, keep)
	saved := 0
	for i := range t.Tools {
		if !keep[i] {
			t.RemoveTool(i)
			saved += tokens(&t.Tools[i])
		}
	}
	if saved == 0 {
		x.Log = append(x.Log, pipeline.Entry{Layer: Name, Note: note})
		return nil
	}
	return change(x, t, pipeline.Entry{Layer: Name, Saved: int64(saved), Note: note}, rewritten)
}

// change changes the request and adds the log entry. rewritten: the provider's cache had the client's own list; since tools precede everything else, all but the
// last turn is written to the cache again.
func change(x *pipeline.Exchange, t *transcript.Transcript, e pipeline.Entry, rewritten bool) error {
	last := 0
	if n := len(t.Turns); n > 0 {
		last = t.Size(n - 1)
	}
	if err := x.Change(t); err != nil {
		return err
	}
	if rewritten {
		e.Change.Again = max(0, x.Request.InputTokens-int64(2*last)/7)
	}
	x.Log = append(x.Log, e)
	return nil
}

// tokens estimates the tokens of a definition.
func tokens(t *transcript.Tool) int { return tokensOf(len(t.Value.Raw)) }

func tokensOf(bytes int) int { return (2*bytes + 6) / 7 }

// choose reports for each tool whether it is kept. The note is "meaning" if the local model ranked them.
func (l Layer) choose(ctx context.Context, x *pipeline.Exchange, t *transcript.Transcript, lim limit) (keep []bool, note string) {
	keep = requiredBy(x.Request, t, true)
	key := keyOf(x, t)
	known, found := l.Memory.find(key)
	left := lim
	for i := range t.Tools {
		keep[i] = keep[i] || found && known.has(t.Tools[i].Name)
		if keep[i] {
			left.tools--
			left.tokens -= tokens(&t.Tools[i])
		}
	}
	if found {
		return keep, ""
	}
	order, note := l.rank(ctx, x, t)
	for _, i := range order {
		n := tokens(&t.Tools[i])
		if left.tools <= 0 || lim.tokens > 0 && left.tokens < n {
			continue
		}
		if !keep[i] {
			keep[i] = true
			left.tools--
			left.tokens -= n
		}
	}
	l.Memory.store(key, names(t, keep))
	return keep, note
}

func (l Layer) tasks() TaskMap {
	if l.Tasks == nil {
		return DefaultTasks
	}
	return l.Tasks
}

// rank is the order in which tools are kept: by the task of the agent's tick, otherwise by similarity with the last user message, in meaning or, without a local
// model, in words.
func (l Layer) rank(ctx context.Context, x *pipeline.Exchange, t *transcript.Transcript) (order []int, note string) {
	if order := l.tasks().order(x.Hints.TickType, t); len(order) > 0 {
		return order, ""
	}
	text := lastUserText(t)
	if l.ranksByMeaning(x) {
		if order, ok := l.nearest(ctx, x, t, text); ok {
			return order, "meaning"
		}
	}
	return bySimilarity(t, text), ""
}

// requiredBy reports for each tool whether it must be kept: it was called before (with countCalls), the request names it, it has a cache mark, or it is the
// provider's own.
func requiredBy(r *chat.Request, t *transcript.Transcript, countCalls bool) []bool {
	named := map[string]bool{}
	for i := range t.Turns {
		for _, c := range t.Turns[i].Calls {
			named[c.Name] = countCalls
		}
	}
	for _, key := range [...]string{"tool_choice", "function_call", "toolConfig", "tool_config"} {
		for s, isName := range r.Doc.Get(key).Strings {
			if name, ok := s.Str(); ok && !isName {
				named[name] = true
			}
		}
	}
	keep := make([]bool, len(t.Tools))
	for i := range t.Tools {
		tool := &t.Tools[i]
		keep[i] = tool.Builtin || tool.Marked || named[tool.Name]
	}
	return keep
}

func names(t *transcript.Transcript, keep []bool) []string {
	var out []string
	for i := range t.Tools {
		if keep[i] {
			out = append(out, t.Tools[i].Name)
		}
	}
	return out
}

// lastUserText is the text of the last turn with a text of the user.
func lastUserText(t *transcript.Transcript) string {
	for i := range slices.Backward(t.Turns) {
		var texts []string
		for j := t.Turns[i].First; j < t.Turns[i].End; j++ {
			if t.Texts[j].Kind == transcript.User {
				texts = append(texts, t.String(j))
			}
		}
		if len(texts) > 0 {
			return strings.Join(texts, " ")
		}
	}
	return ""
}
