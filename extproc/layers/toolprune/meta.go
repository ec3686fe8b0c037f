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

// With very many tools the model gets three in their place, by which it finds and calls the others (D-36). It finds them in rounds inside the gateway; a call
// by execute_tool becomes one of the client's own tool. In the requests that follow, such a call is shown to the model as it made it: the list of tools and
// the conversation stay what they were, for the model and for the provider's prompt cache.

// maxPlainTools is up to how many tools are sent as definitions.
const maxPlainTools = 100

// meta is the state of a request whose tools are found by the model.
type meta struct {
	find, show, run string // the names of the three tools
	t               *transcript.Transcript
	tools           []int          // those that are found, by their index in t
	byName          map[string]int // the first of them with a name
}

var metas = pipeline.NewSlot[*meta]()

// usesMeta reports whether a request with n tools gets the three tools.
func (l Layer) usesMeta(x *pipeline.Exchange, n int) bool {
	if l.Meta == Off || !x.MayCall() {
		return false
	}
	return l.Meta == On || n > maxPlainTools
}

// replace puts the three tools in place of those that the conversation does not need to have. Up to a limit, which the three count against, tools stay in an
// order.
func (l Layer) replace(x *pipeline.Exchange, t *transcript.Transcript, lim limit, order []int) error {
	m := &meta{t: t, byName: make(map[string]int, len(t.Tools))}
	keep := l.plain(x, t)
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
	m.find, m.show, m.run = free(t, "search_tools"), free(t, "get_tool_schema"), free(t, "execute_tool")
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
	return change(x, t, pipeline.Entry{Layer: Name, Saved: int64(saved), Note: "meta"}, l.Memory.changes(x, t, keep))
}

// What the three tools count against a limit.
const (
	metaTools  = 3
	metaTokens = 270
)

// take counts a tool against the limit, if there is room.
func (lim *limit) take(t *transcript.Transcript, tool int) bool {
	n := tokens(&t.Tools[tool])
	if lim.tools <= 0 || lim.tokens < n {
		return false
	}
	lim.tools--
	lim.tokens -= n
	return true
}

// sharesTools reports whether ticks of all kinds get the same tools, with the three to find the others. Tools precede everything else in a provider's prompt cache: if
// each kind had its own, each change of kind would write the prompt to the cache again. That costs more than a round for a tool that is not at hand, where reading from
// the cache is much cheaper than sending, and the agent's prompt is long enough for the cache. An agent whose ticks are of one kind needs none of it.
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
	return cheap && all > lim.tokens && prompt+lim.tokens >= to.MinCache && l.Memory.mixes(agentOf(x, t), x.Hints.TickType)
}

// cheapReads is by how much reading a prompt from the provider's cache must be cheaper than sending it.
const cheapReads = 4

// definitionBytes is what a definition has besides its texts.
const definitionBytes = 50

// plain reports for each tool whether its definition is sent: those that the request names or marks, and those that the conversation had called before it
// was seen here first. Later calls were made by execute_tool, and are shown as such.
func (l Layer) plain(x *pipeline.Exchange, t *transcript.Transcript) []bool {
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

// free is a name that no tool of the request has.
func free(t *transcript.Transcript, name string) string {
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

// definitions are the three tools. They are the same for each request with as many tools.
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

// index is where a tool that is found stands in the request; -1 for any other name.
func (m *meta) index(name string) int {
	if i, ok := m.byName[name]; ok {
		return i
	}
	return -1
}

// Translate implements pipeline.Caller: a call by execute_tool becomes one of the client's tool, if its arguments follow the tool's schema.
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

// wrapped is the tool's name and its arguments in a call by execute_tool; no arguments if they are not an object. Models that write the object as a
// string mean the same.
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

// masked finds what layer L7 put in the place of a value, which no pattern or format of a schema fits.
var masked = regexp.MustCompile(`<[A-Z][A-Z0-9_]*_[0-9A-Z]{8}>`)

// issues are what is wrong with the arguments of a tool. A schema that cannot be checked has none.
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
func (l Layer) Answer(ctx context.Context, x *pipeline.Exchange, c *chat.ToolCall, most int) pipeline.Result {
	m := *metas.Of(x)
	v, err := jsonx.Parse([]byte(c.Args))
	if err != nil || v.Kind() != jsonx.Object {
		return pipeline.Result{Text: "The arguments are not a JSON object.", IsError: true}
	}
	switch c.Name {
	case m.find:
		query, _ := v.Get("query").Str()
		return pipeline.Result{Text: m.listed(l.found(ctx, x, m, query), most)}
	case m.show:
		name, _ := v.Get("name").Str()
		if i := m.index(name); i >= 0 {
			return pipeline.Result{Text: clipped(m.shown(i), most)}
		}
		return m.unknown(name, most)
	}
	return m.refuse(c, most)
}

// refuse says what is wrong with a call by execute_tool, and how the tool is called.
func (m *meta) refuse(c *chat.ToolCall, most int) pipeline.Result {
	name, args, _ := wrapped(c.Args)
	i := m.index(name)
	if i < 0 {
		return m.unknown(name, most)
	}
	issues := []string{"arguments must be a JSON object"}
	if len(args) > 0 {
		issues = m.issues(i, args)
	}
	text := "The tool was not called. The arguments of " + name + " are wrong: " + strings.Join(issues, "; ") + ". It is: "
	return pipeline.Result{Text: clipped(text+m.shown(i), most), IsError: true}
}

// unknown says that there is no such tool, and which ones have similar names.
func (m *meta) unknown(name string, most int) pipeline.Result {
	text := "There is no tool " + strconv.Quote(clipped(name, maxName)) + "."
	if near := m.ranked(name); len(near) > 0 {
		var names []string
		for _, i := range near[:min(len(near), maxNear)] {
			names = append(names, m.t.Tools[i].Name)
		}
		text += " Similar ones: " + strings.Join(names, ", ") + "."
	}
	return pipeline.Result{Text: clipped(text, most), IsError: true}
}

const (
	maxName = 128 // bytes of a name that is repeated
	maxNear = 5
)

// How many tools a search finds: so many with their parameters, and so many more by name and the beginning of their description.
const (
	maxFound     = 5
	maxListed    = 15
	maxListedLen = 120
)

// found are the tools that fit a query, best first: those of the nearest meaning and those with most words in common in turn, where the local model knows them all in
// time; else the latter.
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

// has reports whether a tool is one of those that are found.
func (m *meta) has(tool int) bool {
	_, found := slices.BinarySearch(m.tools, tool)
	return found
}

// listed describes the tools that a search found.
func (m *meta) listed(found []int, most int) string {
	if len(found) == 0 {
		return m.list(most)
	}
	var b strings.Builder
	for n, i := range found {
		line := m.shown(i)
		if n >= maxFound || b.Len()+len(line) > most/2 {
			line = m.brief(i)
		}
		if n >= maxListed || b.Len()+len(line)+1 > most {
			break
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// list is the names of all tools, as far as there is room, for a query that finds nothing.
func (m *meta) list(most int) string {
	names := make([]string, len(m.tools))
	for n, i := range m.tools {
		names[n] = m.t.Tools[i].Name
	}
	return clipped("No tool fits these words. The tools are: "+strings.Join(names, ", "), most)
}

// shown is a tool's definition.
func (m *meta) shown(i int) string {
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

// brief is a tool's name and the beginning of its description.
func (m *meta) brief(i int) string {
	tool := &m.t.Tools[i]
	d, _ := tool.Description.Str()
	b := jsonx.AppendString([]byte(`{"name":`), tool.Name)
	return string(append(jsonx.AppendString(append(b, `,"description":`...), clipped(d, maxListedLen)), '}'))
}

// ranked are the tools that have anything in common with a text, best first.
func (m *meta) ranked(text string) []int {
	order, scores := byWords(m.t, text)
	return slices.DeleteFunc(order, func(i int) bool { return scores[i] <= 0 || !m.has(i) })
}

// clipped is the beginning of a text, up to so many bytes. A placeholder stays whole.
func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(pii.Head(s, most), "")
}
