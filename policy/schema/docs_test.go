package schema_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"bardo.money/gateway/policy/profile"
	"bardo.money/gateway/policy/schema"
)

func TestTheDocumentHasEverySchema(t *testing.T) {
	b, err := os.ReadFile("../../docs/structured-outputs.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(b), "\n### ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		sections[name] = text
	}
	for _, s := range schema.All() {
		text, ok := sections[s.Name]
		if !ok {
			t.Errorf("it lacks %s", s.Name)
			continue
		}
		if s.Default != nil && !strings.Contains(text, "\n"+string(s.Default)+"\n") || s.Default == nil && strings.Contains(text, "```json") {
			t.Errorf("it has another default of %s", s.Name)
		}
		for _, subsystem := range s.Subsystems {
			if !strings.Contains(text, "`"+subsystem+"`") {
				t.Errorf("it lacks %s, which answers in %s", subsystem, s.Name)
			}
		}
		var n node
		if err := json.NewDecoder(bytes.NewReader(s.JSON)).Decode(&n); err != nil {
			t.Fatal(err)
		}
		named(t, s.Name, text, &n)
	}
}

func TestPartsOfAnAgentAnswerInTheirSchemas(t *testing.T) {
	listed := 0
	for _, s := range schema.All() {
		for _, subsystem := range s.Subsystems {
			listed++
			if row := profile.RowOf(subsystem); row == nil || row.Profile.SchemaName != s.Name {
				t.Errorf("%s does not answer in %s", subsystem, s.Name)
			}
		}
	}
	if listed != 12 {
		t.Errorf("%d parts of an agent answer in a schema", listed)
	}
}

// named checks that a text has every member and every word of a schema.
func named(t *testing.T, form, text string, n *node) {
	t.Helper()
	for name, member := range n.Properties {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("it lacks %s of %s", name, form)
		}
		named(t, form, text, &member)
	}
	for _, word := range n.Enum {
		if !strings.Contains(text, word) {
			t.Errorf("it lacks %s of %s", word, form)
		}
	}
	for i := range n.AnyOf {
		named(t, form, text, &n.AnyOf[i])
	}
	if n.Items != nil {
		named(t, form, text, n.Items)
	}
}
