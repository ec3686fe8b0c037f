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

// hints are the names of what a request or an answer may lose between dialects, by kind (D-86). Content is not among them: it is sent, or
// the request is refused; see wire.ClassOf.
var hints = map[string][]string{
	"marks for a provider's prompt cache":          {"cache_control", "prompt_cache_key"},
	"what a model made, in the history":            {"images", "audio", "refusal"},
	"labels of content that itself is carried":     {"detail", "filename", "citations", "search_result", "system", "custom", "caller"},
	"how the model thinks, and what it thought":    {"thinking", "effort", "reasoning_effort", "budget_tokens", "thinking_budget", "reasoning", "reasoning_details", "thinking_blocks", "signature", "encrypted_content"},
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

// unnamed are the functions that degrade something under a name that is not a literal there: an unknown key of the client's, the type of a
// provider's tool, or a name that a caller passes. The value is the reason.
var unnamed = map[string]string{
	"wire.Writer.DegradeAs": "passes names on", "wire.Writer.Functions": "the type of a tool", "wire.Writer.OwnTools": "the type of a tool", "wire.Writer.Degrade": "passes names on", "wire.Writer.DropPart": "a trace", "wire.DegradedNames.Degrade": "passes names on",
	"wire.Unmap": "passes names on", "wire.UnmapUnknown": "the client's own key", "wire.ReadUser": "one of two names of the user", "wire.DegradedWithin": "passes names on",
	"message.envelope.isContent": "of an answer", "message.envelope.translateExtra": "of an answer", "anthropic.writer.degradeNumber": "passes names on",
	"anthropic.writer.request": "passes names on", "anthropic.writer.outputConfig": "response_schema",
	"anthropic.adjuster.degradeAs": "passes names on", "anthropic.readParam": "the client's own key", "anthropic.plan.drop": "passes names on", "anthropic.plan.resolve": "of a profile",
	"anthropic.adjuster.config": "of a profile", "anthropic.plan.resolveSampling": "of a profile", "anthropic.plan.dropConflicts": "of a profile", "anthropic.plan.degradeEffort": "of a profile",
	"gemini.envelope.extra": "of an answer", "gemini.writer.degradeIf": "passes names on", "gemini.writer.resolve": "of a profile",
	"gemini.writer.request": "passes names on", "gemini.reader.member": "the client's own key",
	"gemini.nameUnknown": "the client's own key", "gemini.readParam": "the client's own key",
	"chatcompletion.envelope.placeExtra": "of an answer", "openai.writer.extension": "a parameter", "openai.writer.sampling": "a parameter", "openai.writer.prepare": "passes names on",
	"openai.cutter.degrade": "passes names on", "openai.writer.withSwitch": "reasoning_effort", "openai.writer.request": "passes names on", "openai.adjuster.degrade": "passes names on",
	"openai.resolvedParams.degrade": "passes names on", "openai.readInto": "the client's own key", "openai.readDetails": "reasoning_details", "openai.readParam": "the client's own key",
	"openai.readToolChoice": "tool_choice", "openai.adjuster.adjust": "passes names on", "openai.adjuster.format": "of a profile", "openai.adjuster.think": "of a profile",
	"openai.resolvedParams.sampling": "a parameter", "openai.resolveParams": "of a profile",
	"responses.EncodeRequest": "passes names on", "responses.writer.request": "passes names on", "responses.writer.resolve": "of a profile", "responses.writer.askInPrompt": "of a profile",
	"responses.writer.profileEffort": "of a profile", "responses.writer.sampling": "a parameter",
	"responses.writer.reportDropped": "a parameter",
	"message.envelope.addCitations":  "of an answer", "gemini.envelope.cite": "of an answer", "chatcompletion.envelope.annotationsFor": "of an answer",
	"responses.encoder.cite": "of an answer", "responses.encoder.extra": "of an answer", "responses.adjuster.degrade": "passes names on", "responses.readParam": "the client's own key", "responses.readToolChoice": "tool_choice",
	"responses.adjuster.adjust": "of a profile", "responses.adjuster.dropSampling": "a parameter", "responses.adjuster.sampling": "a parameter", "responses.adjuster.reportUnsupported": "of a profile",
	"compatible.Adapter.fit":       "a parameter",
	"demo.Adapter.Encode":          "a parameter",
	"completions.envelope.degrade": "passes names on", "completions.envelope.note": "of an answer",
}

// TestD86EachDegradedNameHasAKind fails for a name that is not in hints. No name stands for content.
func TestD86EachDegradedNameHasAKind(t *testing.T) {
	var listed []string
	for _, names := range hints {
		listed = append(listed, names...)
	}
	count, seen := 0, map[string]bool{}
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
			for _, name := range degradedIn(f) {
				count++
				where := file.Name.Name + "." + funcName(f)
				seen[where] = seen[where] || name == ""
				switch {
				case name == "" && unnamed[where] == "":
					t.Errorf("%s: %s degrades something under a name that is not a literal", path, where)
				case name != "" && !slices.Contains(listed, name):
					t.Errorf("%s: %s degrades %q: list its kind in hints", path, where, name)
				}
			}
		}
	}
	for where := range unnamed {
		if !seen[where] {
			t.Errorf("%s degrades nothing under a name that is not a literal: remove it from unnamed", where)
		}
	}
	if count < 100 {
		t.Errorf("only %d degraded names were found", count)
	}
}

// sources returns the Go files below some folders, without tests.
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

// degraders are the functions that record a degraded name.
var degraders = []string{"Degrade", "DegradeAs", "Unmap", "degrade", "degradeIf", "AppendDegraded", "degradeAs", "degradeNumber"}

// degradedIn returns the names that a function degrades; "" for one that is not a literal.
func degradedIn(f *ast.FuncDecl) (names []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 || !slices.Contains(degraders, calleeOf(call)) {
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

// funcName returns a function's name after its receiver's.
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
