// Package tooleval measures how well layer l4 keeps what a request needs: whether the tool that a user's words ask for is among those that are kept of many, or is
// found by the model's search for it, and how many tokens of definitions are left out.
package tooleval

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/toolprune"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/extproc/wire/openai"
)

//go:embed testdata/tools.txt
var files embed.FS

// Tool is a tool, what a user says who needs it, and what a model searches for then.
type Tool struct{ Name, Description, Request, Query string }

// Tools are the labelled ones.
func Tools() (out []Tool, err error) {
	text, err := files.ReadFile("testdata/tools.txt")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		parts := strings.Split(line, " | ")
		if len(parts) != 4 {
			return nil, fmt.Errorf("%q: expected name | description | request | query", line)
		}
		out = append(out, Tool{parts[0], parts[1], parts[2], parts[3]})
	}
	return out, nil
}

// Way is how tools are chosen.
type Way struct {
	Name   string
	Meta   toolprune.Mode
	Search bool  // the model searches for the tool
	Kept   int   // requests whose tool is kept, or found
	Before int64 // tokens of definitions, over all requests
	After  int64
	Missed []string
}

// ways are those that are measured: the tools that are kept, and those that the model finds by a search, each by words and, with an embedder, by meaning.
func ways(e toolprune.Embedder) []Way {
	out := []Way{{Name: "kept, by words", Meta: toolprune.Off}}
	if e != nil {
		out = append(out, Way{Name: "kept, by meaning", Meta: toolprune.Off})
	}
	out = append(out, Way{Name: "found by a search", Meta: toolprune.On, Search: true})
	if e != nil {
		out = append(out, Way{Name: "found by a search, by meaning", Meta: toolprune.On, Search: true})
	}
	return out
}

// Measure has a request made for each tool, with the definitions of all. A nil embedder leaves out what needs one.
func Measure(ctx context.Context, e toolprune.Embedder, tools []Tool) ([]Way, error) {
	if e != nil {
		if _, err := e.Embed(ctx, tools[0].Request); err != nil { // a request does not wait until the model is read
			return nil, err
		}
	}
	out := ways(e)
	for i := range out {
		w := &out[i]
		l := toolprune.Layer{Mode: toolprune.On, Meta: w.Meta, Memory: toolprune.NewChoices()}
		if strings.HasSuffix(w.Name, "meaning") {
			l.Embedder, l.Vectors = e, toolprune.NewVectors()
		}
		for k := range tools {
			if err := w.measure(ctx, l, tools, &tools[k]); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (w *Way) measure(ctx context.Context, l toolprune.Layer, tools []Tool, wanted *Tool) error {
	x, err := w.pass(ctx, l, tools, wanted)
	if err != nil {
		return err
	}
	sent, err := x.Transcript()
	if err != nil {
		return err
	}
	r, err := request(tools, wanted)
	if err != nil {
		return err
	}
	asked, err := transcript.Of(r)
	if err != nil {
		return err
	}
	w.Before, w.After = w.Before+sizeOf(asked), w.After+sizeOf(sent)
	ok := false
	for i := range sent.Tools {
		ok = ok || sent.Tools[i].Name == wanted.Name
	}
	if w.Search {
		found, err := search(ctx, x, l.Embedder != nil, wanted.Query)
		if err != nil {
			return err
		}
		ok = strings.Contains(found, fmt.Sprintf(`"name":%q`, wanted.Name))
	}
	if !ok {
		w.Missed = append(w.Missed, wanted.Name+": "+wanted.Request)
		return nil
	}
	w.Kept++
	return nil
}

// search is what a search finds; by meaning once the model has done so in time.
func search(ctx context.Context, x *pipeline.Exchange, byMeaning bool, query string) (string, error) {
	args, _ := json.Marshal(map[string]string{"query": query}) // it can be
	for range mostPasses {
		found := x.RoundResults(ctx, []chat.ToolCall{{ID: "c", Name: "search_tools", Args: string(args)}})
		if !byMeaning || strings.Contains(x.Log[0].Note, "meaning=") {
			return found[0].Text, nil
		}
	}
	return "", fmt.Errorf("the model did not find the tools in time")
}

// mostPasses is how often a request is made until it is ranked in time, which takes long on a busy machine: each waits 60 ms at most.
const mostPasses = 2_000

// pass runs the layer on a request; where it ranks by meaning, until it does.
func (w *Way) pass(ctx context.Context, l toolprune.Layer, tools []Tool, wanted *Tool) (*pipeline.Exchange, error) {
	for n := range mostPasses {
		r, err := request(tools, wanted)
		if err != nil {
			return nil, err
		}
		x := &pipeline.Exchange{Request: r, Profile: pipeline.ProfileStandard}
		x.Hints.SessionID = fmt.Sprint(wanted.Name, n) // a conversation keeps its choice
		if err := pipeline.New(l).Request(ctx, x); err != nil {
			return nil, err
		}
		if l.Embedder == nil || w.Search || x.Log[0].Note == "meaning" {
			return x, nil
		}
	}
	return nil, fmt.Errorf("the model did not rank the tools")
}

// request is a user's words with the definitions of all tools.
func request(tools []Tool, wanted *Tool) (*chat.Request, error) {
	type function struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  map[string]any `json:"parameters"`
	}
	type tool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	of := func(what string) map[string]any { return map[string]any{"type": "string", "description": what} }
	body := map[string]any{"model": "m", "messages": []map[string]string{{"role": "user", "content": wanted.Request}}}
	var all []tool
	for i := range tools {
		all = append(all, tool{"function", function{tools[i].Name, tools[i].Description, map[string]any{
			"type": "object", "properties": map[string]any{"subject": of("What it is about."), "options": of("Further settings, in the words of the interface.")}, "required": []string{"subject"},
		}}})
	}
	body["tools"] = all
	raw, _ := json.Marshal(body) // it can be
	return openai.Dialect{}.Decode(chat.Generate, nil, "", raw)
}

// sizeOf estimates the tokens of a request's definitions.
func sizeOf(t *transcript.Transcript) (n int64) {
	for i := range t.Tools {
		n += int64(2*len(t.Tools[i].Value.Raw)+6) / 7
	}
	return n
}

// Row is the way's line in docs/context.md.
func (w *Way) Row(tools int) string {
	return fmt.Sprintf("| %s | %d of %d | %.0f %% |", w.Name, w.Kept, tools, 100*(1-float64(w.After)/float64(w.Before)))
}

// Write prints a table; with misses, also the requests whose tool is not there.
func Write(to io.Writer, all []Way, tools int, misses bool) error {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TOOLS\tTHERE\tOF\tTOKENS OF DEFINITIONS SAVED")
	for i := range all {
		w := &all[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1f %%\n", w.Name, w.Kept, tools, 100*(1-float64(w.After)/float64(w.Before)))
	}
	if err := t.Flush(); err != nil || !misses {
		return err
	}
	for i := range all {
		for _, line := range all[i].Missed {
			if _, err := fmt.Fprintf(to, "%s: %s\n", all[i].Name, line); err != nil {
				return err
			}
		}
	}
	return nil
}
