package catalog_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
)

// A model may lack features elsewhere that it has at its vendor. A provider's own list, and then the operator, override that.
func TestWhatModelsLackElsewhere(t *testing.T) {
	said := modelfile.File{Models: []modelfile.Model{
		{ID: "venice/claude-opus-4-6", Capabilities: []policy.Feature{policy.Tools, policy.StructuredOutputs}},
		{ID: "anthropic/claude-opus-4-6", Lacks: []policy.Feature{policy.StructuredOutputs}},
	}}
	listed := catalog.List{Format: catalog.FormVenice, Read: today, Models: []modelfile.Model{
		{ID: "claude-sonnet-4-6", Capabilities: []policy.Feature{policy.Tools, policy.StructuredOutputs}},
		{ID: "claude-opus-4-5", Capabilities: []policy.Feature{policy.Tools}},
	}}
	plain, operator := catalog.New(catalogtest.Embedded()), catalog.New(catalogtest.Embedded(), said)
	withList := plain.With(map[policy.ProviderID]catalog.List{"venice": listed})
	for _, row := range []struct {
		about        string
		c            *catalog.Catalog
		at           policy.ProviderID
		m            modelfile.Model
		schema, tool bool
	}{
		{"at its vendor", plain, "anthropic", modelfile.Model{ID: "claude-opus-4-6"}, true, true},
		{"at Venice", plain, "venice", modelfile.Model{ID: "claude-opus-4-6"}, false, true},
		{"at Venice, under a name of its own", plain, "venice", modelfile.Model{ID: "deepseek-reasoner", UpstreamID: "deepseek-r1-671b"}, false, false},
		{"of another family", plain, "venice", modelfile.Model{ID: "gpt-5.2"}, true, true},
		{"that Venice lists with it", withList, "venice", modelfile.Model{ID: "claude-sonnet-4-6"}, true, true},
		{"that Venice lists without it", withList, "venice", modelfile.Model{ID: "claude-opus-4-5"}, false, true},
		{"of which the operator says that it has it there", operator, "venice", modelfile.Model{ID: "claude-opus-4-6"}, true, true},
		{"of which the operator says that it lacks it here", operator, "anthropic", modelfile.Model{ID: "claude-opus-4-6"}, false, true},
		{"whose configuration says that it lacks tools", plain, "x", modelfile.Model{ID: "gpt-5.2", Lacks: []policy.Feature{policy.Tools}}, true, false},
	} {
		m := row.c.At(row.at, row.m)
		if got := slices.Contains(m.Capabilities, policy.StructuredOutputs); got != row.schema {
			t.Errorf("a model %s: schemas %v of %v", row.about, got, m.Capabilities)
		}
		if got := slices.Contains(m.Capabilities, policy.Tools); got != row.tool {
			t.Errorf("a model %s: tools %v of %v", row.about, got, m.Capabilities)
		}
	}
}

func TestSchemasThatStandAlone(t *testing.T) {
	c := catalog.New(catalogtest.Embedded())
	for id, alone := range map[string]bool{"gemini-2.5-flash": true, "gemini-2.0-flash": true, "gemini-3-pro-preview": false, "gpt-5.2": false} {
		if got := c.At("google", modelfile.Model{ID: id}).SchemaAlone; got != alone {
			t.Errorf("%s: %v", id, got)
		}
	}
}

func TestModelsThatAreServedInResponsesAlone(t *testing.T) {
	c := catalog.New(catalogtest.Embedded())
	for id, only := range map[string]bool{
		"gpt-5-pro": true, "gpt-5.2-pro-2025-12-11": true, "gpt-5.5-pro": true, "gpt-5-codex": true, "gpt-5.1-codex-max": true, "gpt-5.3-codex": true,
		"codex-mini-latest": true, "o1-pro": true, "o3-pro": true, "o3-deep-research": true, "o4-mini-deep-research": true,
		"gpt-5": false, "gpt-5.1": false, "gpt-5.2-chat-latest": false, "o1": false, "o3": false, "o3-mini": false, "o4-mini": false,
	} {
		if m := c.At("openai", modelfile.Model{ID: id}); m.ResponsesOnly != only || only && m.Thinking.Control != policy.ControlEffort {
			t.Errorf("%s: in Responses alone %v, thinking %+v", id, m.ResponsesOnly, m.Thinking)
		}
	}
}

// TestD86WhatNobodySaidIsNotWhatIsLacking: a model with unknown capabilities may have any, except those that it is known to lack.
func TestD86WhatNobodySaidIsNotWhatIsLacking(t *testing.T) {
	c := catalog.New(catalogtest.Embedded(), modelfile.File{
		Models:   []modelfile.Model{{ID: "venice/mystery"}},
		Families: []modelfile.Model{{ID: "venice/quiet*", Lacks: []policy.Feature{policy.StructuredOutputs}}},
	})
	schemas := []policy.Feature{policy.StructuredOutputs}
	for _, row := range []struct {
		about string
		at    policy.ProviderID
		m     modelfile.Model
		known bool
		lacks []policy.Feature
	}{
		{"that nobody described", "x", modelfile.Model{ID: "mystery"}, false, nil},
		{"with an entry that says nothing", "venice", modelfile.Model{ID: "mystery"}, false, nil},
		{"that can do nothing", "x", modelfile.Model{ID: "mystery", Capabilities: []policy.Feature{}}, true, nil},
		{"of which one thing is said", "x", modelfile.Model{ID: "mystery", Lacks: schemas}, false, schemas},
		{"of a family that lacks it there", "venice", modelfile.Model{ID: "quiet-1"}, false, schemas},
		{"that is known", "x", modelfile.Model{ID: "gpt-5.2"}, true, nil},
	} {
		m := c.At(row.at, row.m)
		if known := m.Capabilities != nil; known != row.known || !slices.Equal(m.Lacks, row.lacks) {
			t.Errorf("a model %s: known %v, it lacks %v", row.about, known, m.Lacks)
		}
	}
}
