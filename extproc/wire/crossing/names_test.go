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

	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/jsonx"
)

// ofAnswers are members that are read only in answers and, in the last line, in a query or in an object with its own form.
var ofAnswers = strings.Fields(`choices delta message finish_reason error transcript bool_value
	usage prompt_tokens completion_tokens total_tokens prompt_tokens_details completion_tokens_details cached_tokens reasoning_tokens audio_tokens
	accepted_prediction_tokens rejected_prediction_tokens cache_write_tokens cache_creation_tokens cache_creation_input_tokens prompt_cache_hit_tokens
	num_search_queries server_tool_use web_search_requests web_search_citations
	citation content_block input_tokens output_tokens thinking_tokens stop_reason stop_sequence
	ephemeral_1h_input_tokens ephemeral_5m_input_tokens cache_creation output_tokens_details input_tokens_details incomplete_details item
	candidates content usageMetadata promptFeedback blockReason webSearchQueries groundingMetadata
	groundingChunks groundingSupports segment startIndex endIndex groundingChunkIndices retrievedContext web uri citationSources modelVersion responseId finishReason response delta code
	alt $alt user_id thinking`)

// TestD85EveryParsedMemberIsListed: a member that a decoder reads by name is in the list of its dialect, so that the same name in another
// case is refused.
func TestD85EveryParsedMemberIsListed(t *testing.T) {
	for _, d := range []struct {
		folder string
		names  *jsonx.Form
		schema *jsonx.Form
	}{
		{"openai", openai.Names, wire.Schema},
		{"completions", openai.Names, wire.Schema},
		{"anthropic", anthropic.Names, wire.Schema},
		{"responses", responses.Names, wire.Schema},
		{"gemini", gemini.Names, wire.CamelSchema},
	} {
		read := membersRead(t, filepath.Join("..", d.folder))
		if len(read) < 5 {
			t.Errorf("%s: reads %q alone", d.folder, read)
		}
		for _, name := range read {
			if d.folder == "completions" && anthropic.Names.Knows(name) { // it distinguishes the formats
				continue
			}
			if !d.names.Knows(name) && !d.schema.Knows(name) && !slices.Contains(ofAnswers, name) {
				t.Errorf("%s: %q is read, and not known", d.folder, name)
			}
		}
	}
}

// membersRead returns the names in calls of Get, get and Find in a folder's files.
func membersRead(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", folder, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && readsMember(call.Fun) && len(call.Args) > 0 {
				if lit, ok := call.Args[len(call.Args)-1].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if name, err := strconv.Unquote(lit.Value); err == nil && !slices.Contains(names, name) {
						names = append(names, name)
					}
				}
			}
			return true
		})
	}
	return names
}

// readsMember reports whether a function looks up a member: of a value, of a document, or in either spelling.
func readsMember(fun ast.Expr) bool {
	switch f := fun.(type) {
	case *ast.SelectorExpr:
		of, isName := f.X.(*ast.Ident)
		ofHeaders := isName && of.Name == "h"
		return !ofHeaders && (f.Sel.Name == "Get" || f.Sel.Name == "Find")
	case *ast.Ident:
		return f.Name == "get"
	}
	return false
}
