package tooleval_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/semeval/model"
	"bardo.money/gateway/e2e/tooleval"
)

func measured(t *testing.T) (ways []tooleval.Way, tools int) {
	t.Helper()
	all, err := tooleval.Tools()
	if err != nil {
		t.Fatal(err)
	}
	host, embedder, err := model.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	ways, err = tooleval.Measure(t.Context(), embedder, all)
	if err != nil {
		t.Fatalf("run `make models`: %v", err)
	}
	return ways, len(all)
}

// TestD36TheToolThatIsNeededIsThere: by meaning more often than by words, and docs/context.md says how often. A quantised model is not quite the same on every processor.
func TestD36TheToolThatIsNeededIsThere(t *testing.T) {
	const may = 2
	page, err := os.ReadFile("../../docs/context.md")
	if err != nil {
		t.Fatal(err)
	}
	ways, tools := measured(t)
	if len(ways) != 4 || tools < 48 {
		t.Fatalf("%d ways, %d tools", len(ways), tools)
	}
	for i := range ways {
		w := &ways[i]
		for _, miss := range w.Missed {
			t.Log(w.Name, miss)
		}
		_, row, _ := strings.Cut(string(page), "\n| "+w.Name+" |")
		var kept, of, saved int
		if _, err := fmt.Sscanf(row, "%d of %d | %d %%", &kept, &of, &saved); err != nil {
			t.Errorf("docs/context.md lacks\n%s", w.Row(tools))
			continue
		}
		if is := 100 * (1 - float64(w.After)/float64(w.Before)); of != tools || math.Abs(float64(kept-w.Kept)) > may || math.Abs(float64(saved)-is) > 1 {
			t.Errorf("docs/context.md says %d of %d, %d %%, measured are\n%s", kept, of, saved, w.Row(tools))
		}
	}
	if words, meaning := ways[0].Kept, ways[1].Kept; meaning < words || meaning*10 < tools*9 {
		t.Errorf("of %d tools, %d are kept by words and %d by meaning", tools, words, meaning)
	}
	if words, meaning := ways[2].Kept, ways[3].Kept; meaning < words || meaning*10 < tools*9 {
		t.Errorf("of %d tools, a search finds %d by words and %d by meaning", tools, words, meaning)
	}
}

// TestTheLabelledTools: each is there once, and no request names its tool.
func TestTheLabelledTools(t *testing.T) {
	all, err := tooleval.Tools()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, tool := range all {
		if seen[tool.Name] || seen[tool.Request] || strings.Contains(tool.Request+tool.Query, tool.Name) || tool.Description == "" {
			t.Errorf("%+v", tool)
		}
		seen[tool.Name], seen[tool.Request] = true, true
	}
}
