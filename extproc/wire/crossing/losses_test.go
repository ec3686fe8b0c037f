package crossing_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// hints are the names of what a request or an answer may lose on its way to another dialect, by what they are (D-86). Content is not
// among them: a part that the client asks about is carried or refused; see wire.ClassOf.
var hints = map[string][]string{
	"marks for a provider's prompt cache":          {"cache_control", "prompt_cache_key"},
	"labels of content that itself is carried":     {"detail", "filename", "citations", "search_result", "system", "custom", "caller"},
	"how the model thinks, and what it thought":    {"thinking", "effort", "reasoning_effort", "budget_tokens", "thinking_budget", "reasoning", "signature", "encrypted_content"},
	"how words are drawn":                          {"temperature", "min_p", "seed", "presence_penalty", "frequency_penalty"},
	"how long the answer is, and where it ends":    {"max_tokens", "stop_sequences", "verbosity", "prefill"},
	"how the answer looks":                         {"format", "response_format", "response_schema", "output_format", "description", "text", "strict", "n"},
	"how tools are used":                           {"tool_choice", "disable_parallel_tool_use", "allowedFunctionNames"},
	"who asks":                                     {"user_id"},
	"what else is wanted beside the answer":        {"include", "web_search", "tee_mode", "prediction", "predicted_output"},
	"of an answer: how it ended":                   {"stop_sequence", "pause_turn"},
	"of an answer: counts":                         {"cache_creation_input_tokens", "ephemeral_1h_input_tokens"},
	"of an answer: what its client cannot be told": {"choices", "tool_calls"},
}

// unnamed are the functions that lose something under a name that is not written there: a client's own key that nobody knows, the type of
// a tool that a provider runs, or a name that another function of this list has.
var unnamed = map[string]string{
	"wire.Writer.Name": "hands on", "wire.Writer.Lose": "hands on", "wire.Writer.LosePart": "a trace", "wire.Losses.Lose": "hands on",
	"wire.Unmap": "hands on", "wire.UnmapUnknown": "the client's own key", "wire.ReadUser": "one of two names of the user", "wire.LostWithin": "hands on",
	"wire.Reshape.request":         "no loss",
	"anthropic.envelope.isContent": "of an answer", "anthropic.envelope.translateExtra": "of an answer", "anthropic.writer.loseNumber": "hands on",
	"anthropic.writer.request": "hands on", "anthropic.writer.outputConfig": "response_schema", "anthropic.writer.tools": "the type of a tool",
	"anthropic.adjuster.name": "hands on", "anthropic.readParam": "the client's own key", "anthropic.plan.drop": "hands on", "anthropic.plan.settle": "of a profile",
	"anthropic.adjuster.config": "of a profile", "anthropic.plan.draw": "of a profile", "anthropic.plan.exclusive": "of a profile", "anthropic.plan.loseEffort": "of a profile",
	"gemini.envelope.extra": "of an answer", "gemini.writer.loseIf": "hands on", "gemini.writer.settle": "of a profile",
	"gemini.writer.request": "hands on", "gemini.writer.tools": "the type of a tool", "gemini.reader.member": "the client's own key",
	"gemini.nameUnknown": "the client's own key", "gemini.readParam": "the client's own key",
	"openai.envelope.keeps": "of an answer", "openai.writer.beyond": "a parameter", "openai.writer.sampling": "a parameter", "openai.writer.prepare": "hands on",
	"openai.writer.slashed": "reasoning_effort", "openai.writer.request": "hands on", "openai.writer.tools": "the type of a tool", "openai.adjuster.lose": "hands on",
	"openai.settled.lose": "hands on", "openai.readInto": "the client's own key", "openai.readDetails": "reasoning_details", "openai.readParam": "the client's own key",
	"openai.readToolChoice": "tool_choice", "openai.adjuster.adjust": "hands on", "openai.adjuster.format": "of a profile", "openai.adjuster.think": "of a profile",
	"openai.settled.sampling": "a parameter", "openai.settle": "of a profile", "openai.Decoder.details": "no loss",
	"responses.writer.request": "hands on", "responses.writer.settle": "of a profile", "responses.writer.inWords": "of a profile",
	"responses.writer.profileEffort": "of a profile", "responses.writer.tools": "the type of a tool", "responses.writer.sampling": "a parameter",
	"responses.writer.reportDropped": "a parameter",
	"anthropic.envelope.cite":        "of an answer", "gemini.envelope.cite": "of an answer", "openai.envelope.cited": "of an answer",
	"responses.encoder.cite": "of an answer", "responses.encoder.extra": "of an answer", "responses.adjuster.lose": "hands on", "responses.readParam": "the client's own key", "responses.readToolChoice": "tool_choice",
	"responses.adjuster.adjust": "of a profile", "responses.adjuster.dropSampling": "a parameter", "responses.adjuster.sampling": "a parameter", "responses.adjuster.reportUnsupported": "of a profile",
	"compatible.Adapter.fit":    "a parameter",
	"completions.envelope.lose": "hands on", "completions.envelope.note": "of an answer",
}

// TestD86EachLossIsOfAHint: whoever loses something has to say here what kind of hint it is. There is no name for content.
func TestD86EachLossIsOfAHint(t *testing.T) {
	var known []string
	for _, names := range hints {
		known = append(known, names...)
	}
	losses, seen := 0, map[string]bool{}
	for _, path := range sources(t, "..", "../../provider") {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			for _, name := range lossesOf(f) {
				losses++
				where := file.Name.Name + "." + funcName(f)
				seen[where] = seen[where] || name == ""
				switch {
				case name == "" && unnamed[where] == "":
					t.Errorf("%s: %s loses something under a name that is not written there", path, where)
				case name != "" && !slices.Contains(known, name):
					t.Errorf("%s: %s loses %q, of which nobody says what kind of hint it is", path, where, name)
				}
			}
		}
	}
	for where := range unnamed {
		if !seen[where] {
			t.Errorf("%s loses nothing under a name that is not written there: take it from the list", where)
		}
	}
	if losses < 100 {
		t.Errorf("only %d losses were found", losses)
	}
}

// sources are the Go files below some folders, without tests.
func sources(t *testing.T, roots ...string) (paths []string) {
	t.Helper()
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// losers are what losing something is called.
var losers = []string{"Lose", "Name", "Unmap", "lose", "loseIf", "Named", "name", "loseNumber"}

// lossesOf are the names under which a function loses something; "" for one that is not written there.
func lossesOf(f *ast.FuncDecl) (names []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 || !slices.Contains(losers, calleeOf(call)) {
			return true
		}
		name := ""
		for _, arg := range call.Args {
			if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				name, _ = strconv.Unquote(lit.Value)
			}
		}
		names = append(names, name)
		return true
	})
	return names
}

func calleeOf(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// funcName is a function's name, behind its receiver's.
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	kind := f.Recv.List[0].Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	if id, ok := kind.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
