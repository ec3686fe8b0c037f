package sealed

import (
	"fmt"
	"slices"

	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy/privacy"
)

// Only the enclave can read a sealed request, so the constraints of the tier e2e (docs/privacy.md) are enforced here. A request may only have the members
// listed below: an unknown one could be a provider's tool, search or file.

// outerFields are the fields that are sent unencrypted.
type outerFields struct {
	model     string
	maxTokens int64 // 0: not stated
	stream    bool
}

// errRequest is the error of a request that may not be sent.
type errRequest struct {
	constraint privacy.Constraint // the violated constraint; Met for other errors
	text       string             // names the problem
}

// Error implements error. It includes the constraint's name.
func (e errRequest) Error() string {
	if e.constraint == privacy.Met {
		return e.text
	}
	return e.text + " (" + string(e.constraint) + ")"
}

// The members of a request, by how they are handled.
var (
	// allowed have values that stay inside the enclave.
	allowed = []string{
		"model", "messages", "max_tokens", "max_completion_tokens", "stream", "stream_options", "response_format", "temperature", "top_p", "top_k", "min_p", "n", "stop", "seed",
		"frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias", "logprobs", "top_logprobs", "reasoning", "reasoning_effort", "verbosity", "user", "venice_parameters",
	}
	toolMembers = []string{
		"tools", "functions", "tool_choice", "function_call", "parallel_tool_calls", "tool_calls", "tool_call_id", "tool_resources", "mcp_servers", "plugins", "web_fetch_options",
	}
	searchMembers = []string{"web_search_options", "search_options", "search_parameters", "enable_search", "search_domain_filter", "search_recency_filter", "return_citations", "return_images"}
	fileMembers   = []string{"audio", "modalities", "file_ids", "attachments", "files", "images"}

	allowedVenice = []string{"include_venice_system_prompt", "no_system_prompt", "strip_thinking_response", "disable_thinking", "character_slug"}
	searchVenice  = []string{
		"enable_web_search", "enable_web_scraping", "enable_web_citations", "enable_x_search", "include_search_results_in_stream", "return_search_results_as_documents",
	}

	roles          = []string{"system", "developer", "user", "assistant"}
	allowedMessage = []string{"role", "content", "name", "reasoning_content", "refusal"}
	allowedPart    = []string{"type", "text"}
)

// parseRequest validates a request before it is sealed. The error is an errRequest.
func parseRequest(body []byte) (a outerFields, err error) {
	doc, err := jsonx.Unique.Scan(body)
	if err != nil {
		return a, errRequest{text: "the request has to be a JSON object of a chat completion: " + err.Error()}
	}
	root := doc.Root()
	if err := checkMembers(root, "", allowed); err != nil {
		return a, err
	}
	if a.model, _ = root.Get("model").Str(); a.model == "" {
		return a, errRequest{text: `"model" is missing: the provider's own name of the model`}
	}
	if a.stream, err = boolOf(root, "stream"); err != nil {
		return a, err
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		n, err := tokensOf(root, name)
		if err != nil {
			return a, err
		}
		a.maxTokens = max(a.maxTokens, n)
	}
	for _, check := range []func(jsonx.Value) error{checkParameters, checkMessages, checkSchema} {
		if err := check(root); err != nil {
			return a, err
		}
	}
	return a, nil
}

// isSet reports whether a member has an effect: null and an empty list have none.
func isSet(v jsonx.Value) bool {
	empty := v.Kind() == jsonx.Array
	for range v.Each {
		empty = false
	}
	return !v.IsNull() && !empty
}

// checkMembers rejects the first member of an object that is set and not known. at is the object's path, such as "messages[0].".
func checkMembers(o jsonx.Value, at string, known []string) error {
	for key, v := range o.Members {
		name := string(key)
		if slices.Contains(known, name) || !isSet(v) {
			continue
		}
		return notAllowed(at+name, name)
	}
	return nil
}

// notAllowed is the error of a member that may not be sent.
func notAllowed(place, name string) errRequest {
	switch {
	case slices.Contains(toolMembers, name):
		return errRequest{privacy.ToolCallingAllowed, fmt.Sprintf("an encrypted request has no tools, and so no %q: nobody outside of the enclave could call them", place)}
	case slices.Contains(searchMembers, name):
		return errRequest{privacy.WebSearchAllowed, fmt.Sprintf("an encrypted request has no web search, and so no %q: the search would leave the enclave", place)}
	case slices.Contains(fileMembers, name):
		return errRequest{privacy.FileUploadAllowed, fmt.Sprintf("an encrypted request has no files, and so no %q", place)}
	}
	return errRequest{text: fmt.Sprintf("%q is not known to stay inside of an enclave: an encrypted request may not have it", place)}
}

func boolOf(o jsonx.Value, name string) (bool, error) {
	v := o.Get(name)
	b, ok := v.Bool()
	if !ok && !v.IsNull() {
		return false, errRequest{text: fmt.Sprintf("%q has to be true or false", name)}
	}
	return b, nil
}

func tokensOf(o jsonx.Value, name string) (int64, error) {
	v := o.Get(name)
	n, ok := v.Int()
	if !v.IsNull() && (!ok || n < 1) {
		return 0, errRequest{text: fmt.Sprintf("%q has to be a whole number from 1 on", name)}
	}
	return n, nil
}

// checkParameters rejects Venice's parameters that enable search, whatever their type: only null, false and "off" do not.
func checkParameters(root jsonx.Value) error {
	const name = "venice_parameters"
	p := root.Get(name)
	if p.IsNull() {
		return nil
	}
	if p.Kind() != jsonx.Object {
		return errRequest{text: fmt.Sprintf("%q has to be an object", name)}
	}
	for _, key := range searchVenice {
		v := p.Get(key)
		if on, isBool := v.Bool(); !v.IsNull() && (!isBool || on) && !v.Equal("off") {
			return errRequest{privacy.WebSearchAllowed, fmt.Sprintf(`an encrypted request has no web search: "%s.%s" may only be false or "off"`, name, key)}
		}
	}
	return checkMembers(p, name+".", slices.Concat(allowedVenice, searchVenice))
}

func checkMessages(root jsonx.Value) error {
	const name = "messages"
	list := root.Get(name)
	if list.Kind() != jsonx.Array || !isSet(list) {
		return errRequest{text: fmt.Sprintf("%q has to be a list of messages", name)}
	}
	for i, m := range list.Each {
		if err := checkMessage(m, fmt.Sprintf("%s[%d]", name, i)); err != nil {
			return err
		}
	}
	return nil
}

func checkMessage(m jsonx.Value, at string) error {
	if m.Kind() != jsonx.Object {
		return errRequest{text: fmt.Sprintf("%q has to be an object", at)}
	}
	switch role, _ := m.Get("role").Str(); {
	case role == "tool" || role == "function":
		return errRequest{privacy.ToolCallingAllowed, fmt.Sprintf("an encrypted request has no tools: %q is a tool's result", at)}
	case !slices.Contains(roles, role):
		return errRequest{text: fmt.Sprintf("%q has to be one of %q", at+".role", roles)}
	}
	if err := checkMembers(m, at+".", allowedMessage); err != nil {
		return err
	}
	content := m.Get("content")
	switch content.Kind() { //nolint:exhaustive // other kinds are rejected
	case jsonx.String, jsonx.Null:
		return nil
	case jsonx.Array:
		for i, p := range content.Each {
			if err := checkPart(p, fmt.Sprintf("%s.content[%d]", at, i)); err != nil {
				return err
			}
		}
		return nil
	}
	return errRequest{text: fmt.Sprintf("%q has to be a text, or a list of parts of type \"text\"", at+".content")}
}

func checkPart(p jsonx.Value, at string) error {
	kind, _ := p.Get("type").Str()
	if kind != "text" {
		return errRequest{privacy.FileUploadAllowed, fmt.Sprintf("an encrypted request has no files: %q is a part of type %q", at, kind)}
	}
	if p.Get("text").Kind() != jsonx.String {
		return errRequest{text: fmt.Sprintf("%q has to be a text", at+".text")}
	}
	return checkMembers(p, at+".", allowedPart)
}

// checkSchema rejects a request without a schema for its answer. JSON mode is not a schema.
func checkSchema(root jsonx.Value) error {
	f := root.Get("response_format")
	kind, _ := f.Get("type").Str()
	if kind != "json_schema" || f.Get("json_schema").Get("schema").Kind() != jsonx.Object {
		return errRequest{privacy.StructuredOutputRequired, `an encrypted request needs a schema for its answer: "response_format" of type "json_schema"`}
	}
	return nil
}
