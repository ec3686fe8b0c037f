// Package classifyeval measures the classifier of prompts, and makes its prototypes: the labelled prompts of policy/classify go through the local
// embedding model. Nobody is asked, and nothing is random.
package classifyeval

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bardo.money/gateway/policy/classify"
)

// Prompt is a labelled prompt.
type Prompt struct {
	classify.Label
	Language string
	Text     string
}

// Tuning reads the half whose vectors are the prototypes, from the root of the repository.
func Tuning(root string) ([]Prompt, error) {
	return read(filepath.Join(root, "policy", "classify", "prompts.txt"), 3)
}

// Test reads the half that nothing was tuned on.
func Test(root string) ([]Prompt, error) {
	return read(filepath.Join(root, "policy", "classify", "testdata", "test.txt"), 4)
}

func read(path string, fields int) (all []Prompt, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		p, err := parse(line, fields)
		if err != nil {
			return nil, fmt.Errorf("%s: %.60s: %w", path, line, err)
		}
		all = append(all, p)
	}
	return all, nil
}

func parse(line string, n int) (p Prompt, err error) {
	head, text, ok := strings.Cut(line, " | ")
	fields := strings.Fields(head)
	if !ok || len(fields) != n {
		return p, fmt.Errorf("expected %d labels and a prompt", n)
	}
	level := slices.Index(classify.Levels, fields[2])
	if !slices.Contains(classify.Domains, fields[0]) || !slices.Contains(classify.Intents, fields[1]) || level < 0 {
		return p, fmt.Errorf("no such label: %s", head)
	}
	p = Prompt{Label: classify.Label{Domain: fields[0], Intent: fields[1], Level: float64(level)}, Language: "en", Text: text}
	if n > 3 {
		p.Language = fields[3]
	}
	return p, nil
}
