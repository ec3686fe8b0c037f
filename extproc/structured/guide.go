package structured

import (
	"bytes"
	"encoding/json"
	"strings"
)

// guide returns the prompt that asks for the schema where nothing enforces it. beside is true if the model may also call the client's tools.
func (sch *Schema) guide(beside bool) string {
	when := "Respond"
	if beside {
		when = "When you do not call a tool, respond"
	}
	if sch.anyObject {
		return when + " ONLY with a valid JSON object. Do not include any text outside the JSON object."
	}
	return when + " ONLY with valid JSON matching this structure" + ":\n```json\n" + pretty(sch.compact) + "\n```\nDo not include any text outside the JSON block."
}

// pretty is indented JSON.
func pretty(b []byte) string {
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return string(b)
	}
	return out.String()
}

// toolNote returns the description of the tool whose arguments are the answer.
func toolNote(note string) string {
	s := "Use this tool to provide your structured response. Fill in all required fields based on your analysis."
	if note != "" {
		s += " " + note
	}
	return s
}

// toolGuide returns the prompt that asks for a tool call where tool_choice cannot force it.
func toolGuide(tool string, beside bool) string {
	s := "Give your final answer by calling the tool " + tool + " exactly once, with all required fields. Do not write the answer as text."
	if beside {
		s += " Call other tools first where you need them."
	}
	return s
}

// RetryPrompt returns the message to the model that lists what was wrong with its answer.
func (sch *Schema) RetryPrompt(v Validation) string {
	var b strings.Builder
	if v.JSON == nil {
		b.WriteString("Your last answer could not be read as JSON of the structure that was asked for:")
	} else {
		b.WriteString("Your last answer does not follow the structure that was asked for:")
	}
	for _, s := range v.Issues {
		b.WriteString("\n- " + s)
	}
	b.WriteString("\nAnswer again, in full and in the same way, with every one of these corrected.")
	return b.String()
}
