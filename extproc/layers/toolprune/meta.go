package toolprune

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/jsonx"
)

// With very many tools the model gets three instead, by which it finds and calls the others (D-36). It searches in rounds inside the gateway; a call by
// execute_tool becomes a call of the client's own tool. In later requests such a call is shown to the model as it made it, so that the list of tools and the
// conversation are stable, for the model and for the provider's prompt cache.

// maxPlainTools is the maximum number of tools that are sent as definitions.
const maxPlainTools = 100

// meta is the state of a request with the three tools.
type meta struct {
	find, show, run string // the names of the three tools
	t               *transcript.Transcript
	tools           []int          // the tools that they find, by their index in t
	byName          map[string]int // the first of these with a name
}

var metas = pipeline.NewSlot[*meta]()

// usesMeta reports whether a request with n tools gets the three tools.
func (l Layer) usesMeta(x *pipeline.Exchange, n int) bool {
	if l.Meta == Off || !x.MayCall() {
		return false
	}
	return l.Meta == On || n > maxPlainTools
}

// replace replaces the tools that the conversation does not need by the three. Further tools are kept in an order, up to a limit, in which the three count.
func (l Layer) replace(x *pipeline.Exchange, t *transcript.Transcript, lim limit, order []int) error {
	m := &meta{t: t, byName: make(map[string]int, len(t.Tools))}
	keep := l.keepsDefinition(x, t)
	lim.tools -= metaTools
	lim.tokens -= metaTokens
	for i := range keep {
		if keep[i] {
			lim.take(t, i)
		}
	}
	for _, i := range order {
		keep[i] = keep[i] || lim.take(t, i)
	}
	saved := 0
	for i := range t.Tools {
		if !keep[i] {
			m.tools = append(m.tools, i)
			if _, ok := m.byName[t.Tools[i].Name]; !ok {
				m.byName[t.Tools[i].Name] = i
			}
			saved += tokens(&t.Tools[i])
		}
	}
	m.find, m.show, m.run = freeName(t, "search_tools"), freeName(t, "get_tool_schema"), freeName(t, "execute_tool")
	defs := m.definitions()
	for i := range defs {
		saved -= tokensOf(len(defs[i].Name) + len(defs[i].Description) + len(defs[i].Schema) + definitionBytes)
	}
	if saved <= 0 || !t.ReplaceTools(func(i int) bool { return keep[i] }, defs...) {
		x.Log = append(x.Log, pipeline.Entry{Layer: Name})
		return nil
	}
	t.WrapCalls(m.run, func(tool string) bool { return m.index(tool) >= 0 })
	*metas.Of(x) = m
	x.AnswerCalls(Name, l, pipeline.MaxRounds, m.find, m.show, m.run)
	l.prepare(x, t)
	return change(x, t, pipeline.Entry{Layer: Name, Saved: int64(saved), Note: "meta"}, l.Memory.breaksCache(x, t, keep))
}

// The three tools in a limit.
const (
	metaTools  = 3
	metaTokens = 270
)

// take subtracts a tool from the limit, and reports whether there was room.
func (lim *limit) take(t *transcript.Transcript, tool int) bool {
	n := tokens(&t.Tools[tool])
	if lim.tools <= 0 || lim.tokens < n {
		return false
	}
	lim.tools--
	lim.tokens -= n
	return true
}

// sharesTools reports whether ticks of all kinds get the same tools, with the three to find the others. Tools precede everything else in a provider's prompt
// cache: if each kind had its own, each change of kind would write the prompt to the cache again. That costs more than a round for a missing tool, if reading
// from the cache is much cheaper than sending, and the agent's prompt is long enough for the cache. It is not needed for agents with ticks of one kind.
func (l Layer) sharesTools(x *pipeline.Exchange, t *transcript.Transcript, lim limit) bool {
	if l.Meta == Off || !x.MayCall() || lim.tokens == 0 || len(x.Found) == 0 || len(l.tasks().order(x.Hints.TickType, t)) == 0 {
		return false
	}
	all, prompt := 0, 0
	for i := range t.Tools {
		all += tokens(&t.Tools[i])
	}
	for i := range t.Texts {
		if at := &t.Texts[i]; at.Kind == transcript.System {
			prompt += tokensOf(len(at.Value.Raw))
		}
	}
	to := &x.Found[0]
	cheap := to.MinCache > 0 && to.Prices.CachedInput*cheapReads <= to.Prices.Input && to.Prices.Input > 0
	return cheap && all > lim.tokens && prompt+lim.tokens >= to.MinCache && l.Memory.hasMixedTicks(agentOf(x, t), x.Hints.TickType)
}

// cheapReads is the factor by which reading a prompt from the provider's cache must be cheaper than sending it.
const cheapReads = 4

// definitionBytes is the size in bytes of a definition without its texts.
const definitionBytes = 50

// keepsDefinition reports for each tool whether its definition is sent: those that the request names or marks, and those that were called before the layer's
// first request of the conversation. Later calls were made by execute_tool, and are shown as such.
func (l Layer) keepsDefinition(x *pipeline.Exchange, t *transcript.Transcript) []bool {
	key := keyOf(x, t)
	key.parts[tickPart] = "" // all kinds of ticks have the same tools
	key.parts = append(key.parts, "meta")
	known, found := l.Memory.find(key)
	keep := requiredBy(x.Request, t, !found)
	for i := range t.Tools {
		keep[i] = keep[i] || t.Tools[i].Value.Get("type").Equal(chat.CustomTool) || found && known.has(t.Tools[i].Name)
	}
	if !found {
		l.Memory.store(key, names(t, keep))
	}
	return keep
}

// freeName is the name, or if a tool of the request has it, a variant that none has.
func freeName(t *transcript.Transcript, name string) string {
	taken := func(name string) bool {
		return slices.ContainsFunc(t.Tools, func(tool transcript.Tool) bool { return tool.Name == name })
	}
	if !taken(name) {
		return name
	}
	name = "bardo_" + name
	for n := 2; taken(name); n++ {
		name = strings.TrimRight(name, "0123456789") + strconv.Itoa(n)
	}
	return name
}

// definitions are the three tools. They depend only on their names and the number of tools.
func (m *meta) definitions() []chat.Tool {
	return []chat.Tool{
		{
			Name: m.find, Schema: jsonx.Raw(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`),
			Description: "Finds tools: there are " + strconv.Itoa(len(m.tools)) + " more than are listed here. Say in a few words what a tool should do. The result has names, descriptions and parameters.",
		},
		{
			Name: m.show, Schema: jsonx.Raw(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
			Description: "Shows the description and the parameters of a tool that " + m.find + " found.",
		},
		{
			Name: m.run, Schema: jsonx.Raw(`{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object","additionalProperties":true}},"required":["name","arguments"]}`),
			Description: "Calls a tool that " + m.find + " found, by its name and with arguments that follow its parameters.",
		},
	}
}

// index is the index in the request of a tool that can be found; -1 for any other name.
func (m *meta) index(name string) int {
	if i, ok := m.byName[name]; ok {
		return i
	}
	return -1
}

// Translate implements pipeline.Caller: a call by execute_tool becomes one of the client's tool, if its arguments are valid by the tool's schema.
func (l Layer) Translate(x *pipeline.Exchange, c *chat.ToolCall) (own chat.ToolCall, ok bool) {
	m := *metas.Of(x)
	if c.Name != m.run {
		return own, false
	}
	name, args, _ := wrapped(c.Args)
	i := m.index(name)
	if i < 0 || len(args) == 0 || len(m.issues(i, args)) > 0 {
		return own, false
	}
	return chat.ToolCall{ID: c.ID, Name: name, Args: string(args)}, true
}

// wrapped is the tool's name and its arguments in a call by execute_tool; no arguments if they are not an object. An object that is written as a string is
// accepted.
func wrapped(args string) (name string, inner jsonx.Raw, err error) {
	v, err := jsonx.Parse([]byte(args))
	if err != nil {
		return "", nil, err
	}
	name, _ = v.Get("name").Str()
	own := v.Get("arguments")
	if text, ok := own.Str(); ok {
		if own, err = jsonx.Parse([]byte(text)); err != nil {
			return name, nil, err
		}
	}
	switch {
	case own.IsNull():
		return name, jsonx.Raw("{}"), nil
	case own.Kind() != jsonx.Object:
		return name, nil, nil
	}
	return name, own.Raw, nil
}

// masked matches placeholders of layer L7, which do not comply with patterns and formats of schemas.
var masked = regexp.MustCompile(`<[A-Z][A-Z0-9_]*_[0-9A-Z]{8}>`)

// issues are the violations of a tool's schema by arguments. A schema that cannot be compiled has none.
func (m *meta) issues(tool int, args jsonx.Raw) []string {
	schema := m.t.Tools[tool].Schema
	if schema.Kind() != jsonx.Object || masked.Match(args) {
		return nil
	}
	s, err := structured.Compile("", schema.Raw)
	if err != nil {
		return nil
	}
	return s.Issues(args)
}

// Answer implements pipeline.Caller.
func (l Layer) Answer(ctx context.Context, x *pipeline.Exchange, c *chat.ToolCall, maxBytes int) pipeline.Result {
	m := *metas.Of(x)
	v, err := jsonx.Parse([]byte(c.Args))
	if err != nil || v.Kind() != jsonx.Object {
		return pipeline.Result{Text: "The arguments are not a JSON object.", IsError: true}
	}
	switch c.Name {
	case m.find:
		query, _ := v.Get("query").Str()
		return pipeline.Result{Text: m.listed(l.found(ctx, x, m, query), maxBytes)}
	case m.show:
		name, _ := v.Get("name").Str()
		if i := m.index(name); i >= 0 {
			return pipeline.Result{Text: clipped(m.definitionOf(i), maxBytes)}
		}
		return m.unknown(name, maxBytes)
	}
	return m.explainIssues(c, maxBytes)
}

// explainIssues answers an invalid call by execute_tool with its issues and the tool's definition.
func (m *meta) explainIssues(c *chat.ToolCall, maxBytes int) pipeline.Result {
	name, args, _ := wrapped(c.Args)
	i := m.index(name)
	if i < 0 {
		return m.unknown(name, maxBytes)
	}
	issues := []string{"arguments must be a JSON object"}
	if len(args) > 0 {
		issues = m.issues(i, args)
	}
	text := "The tool was not called. The arguments of " + name + " are wrong: " + strings.Join(issues, "; ") + ". It is: "
	return pipeline.Result{Text: clipped(text+m.definitionOf(i), maxBytes), IsError: true}
}

// unknown answers that there is no such tool, with similar names.
func (m *meta) unknown(name string, maxBytes int) pipeline.Result {
	text := "There is no tool " + strconv.Quote(clipped(name, maxName)) + "."
	if similar := m.ranked(name); len(similar) > 0 {
		var names []string
		for _, i := range similar[:min(len(similar), maxSimilar)] {
			names = append(names, m.t.Tools[i].Name)
		}
		text += " Similar ones: " + strings.Join(names, ", ") + "."
	}
	return pipeline.Result{Text: clipped(text, maxBytes), IsError: true}
}

const (
	maxName    = 128 // bytes of an unknown name in an answer
	maxSimilar = 5
)

// The number of tools that a search finds with their parameters, the number of all, and the length in bytes of the others' descriptions.
const (
	maxFound     = 5
	maxListed    = 15
	maxListedLen = 120
)

// found are the tools that match a query, best first: alternately those nearest in meaning and those with most words in common, if the local model has embedded
// them all in time; otherwise the latter.
func (l Layer) found(ctx context.Context, x *pipeline.Exchange, m *meta, query string) []int {
	words := m.ranked(query)
	near, ok := l.nearest(ctx, x, m.t, query)
	if !ok {
		return words
	}
	x.NoteOf(Name, "meaning", 1)
	var out []int
	for n := range near {
		for _, list := range [...][]int{near, words} {
			if n < len(list) && !slices.Contains(out, list[n]) && m.has(list[n]) {
				out = append(out, list[n])
			}
		}
		if len(out) >= maxListed {
			break
		}
	}
	return out
}

// has reports whether a tool is one of those that can be found.
func (m *meta) has(tool int) bool {
	_, found := slices.BinarySearch(m.tools, tool)
	return found
}

// listed describes the tools that a search found.
func (m *meta) listed(found []int, maxBytes int) string {
	if len(found) == 0 {
		return m.list(maxBytes)
	}
	var b strings.Builder
	for n, i := range found {
		line := m.definitionOf(i)
		if n >= maxFound || b.Len()+len(line) > maxBytes/2 {
			line = m.briefOf(i)
		}
		if n >= maxListed || b.Len()+len(line)+1 > maxBytes {
			break
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// list is the names of all tools, as far as there is room, for a query without matches.
func (m *meta) list(maxBytes int) string {
	names := make([]string, len(m.tools))
	for n, i := range m.tools {
		names[n] = m.t.Tools[i].Name
	}
	return clipped("No tool fits these words. The tools are: "+strings.Join(names, ", "), maxBytes)
}

// definitionOf is a tool's definition as JSON.
func (m *meta) definitionOf(i int) string {
	tool := &m.t.Tools[i]
	b := jsonx.AppendString([]byte(`{"name":`), tool.Name)
	if d, _ := tool.Description.Str(); d != "" {
		b = jsonx.AppendString(append(b, `,"description":`...), d)
	}
	if tool.Schema.Exists() {
		b = append(append(b, `,"parameters":`...), tool.Schema.Raw...)
	}
	return string(append(b, '}'))
}

// briefOf is a tool's name and the beginning of its description.
func (m *meta) briefOf(i int) string {
	tool := &m.t.Tools[i]
	d, _ := tool.Description.Str()
	b := jsonx.AppendString([]byte(`{"name":`), tool.Name)
	return string(append(jsonx.AppendString(append(b, `,"description":`...), clipped(d, maxListedLen)), '}'))
}

// ranked are the tools that have words in common with a text, best first.
func (m *meta) ranked(text string) []int {
	order, scores := byWords(m.t, text)
	return slices.DeleteFunc(order, func(i int) bool { return scores[i] <= 0 || !m.has(i) })
}

// clipped is the beginning of a text, of at most maxBytes. Placeholders are not split.
func clipped(s string, maxBytes int) string {
	if len(s) <= maxBytes {
		return s
	}
	return strings.ToValidUTF8(pii.Head(s, maxBytes), "")
}
