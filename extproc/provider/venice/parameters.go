package venice

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/jsonx"
)

// The member that holds Venice's parameters, and the parameters that the gateway sets.
const (
	parametersKey = "venice_parameters"

	keySystemPrompt = "include_venice_system_prompt"
	keyWebSearch    = "enable_web_search"
	keyCitations    = "enable_web_citations"
	keyStrip        = "strip_thinking_response"
	keyCharacter    = "character_slug"
)

// parameters are the gateway's parameters; those of a client of this format override them.
func parameters(req *chat.Request, at provider.Endpoint) jsonx.Raw {
	own := ownParameters(req)
	b := object(`{`)
	for _, m := range [...]struct{ key, value string }{
		{keySystemPrompt, "false"},
		{keyWebSearch, `"` + webSearch(req.Profile) + `"`},
		{keyCitations, "false"},
		{keyStrip, strip(req)},
		{keyCharacter, character(req.Profile, at)},
	} {
		if m.value != "" && !own.Get(m.key).Exists() {
			b.member(m.key, m.value)
		}
	}
	for key, v := range own.Members {
		b.member(string(key), string(v.Raw))
	}
	return jsonx.Raw(append(b, '}'))
}

// object is a JSON object under construction.
type object []byte

func (o *object) member(key, value string) {
	if len(*o) > 1 {
		*o = append(*o, ',')
	}
	*o = append(jsonx.AppendString(*o, key), ':')
	*o = append(*o, value...)
}

func ownParameters(req *chat.Request) jsonx.Value {
	if req.Dialect != chat.OpenAI {
		return jsonx.Value{}
	}
	if own := req.Doc.Get(parametersKey); own.Kind() == jsonx.Object {
		return own
	}
	return jsonx.Value{}
}

// webSearch is off unless the profile enables it, because each search is charged.
func webSearch(p *chat.Profile) string {
	if p != nil && p.Default.WebSearch != nil && *p.Default.WebSearch {
		return "on"
	}
	return "off"
}

// strip sets whether thinking is removed from the answer, which depends on whether the subsystem examines it. For other requests the client
// decides.
func strip(req *chat.Request) string {
	p := req.Profile
	switch {
	case p == nil:
		return ""
	case p.Default.Visible != nil:
		return boolean(!*p.Default.Visible)
	case p.Subsystem == "":
		return ""
	}
	return boolean(!req.HasThinking() && !p.ExaminesReasoning())
}

func boolean(on bool) string {
	if on {
		return "true"
	}
	return "false"
}

// character returns the configured character for the profile's role; "" for none.
func character(p *chat.Profile, at provider.Endpoint) string {
	if p == nil || at.Characters[p.Role] == "" {
		return ""
	}
	return string(jsonx.AppendString(nil, at.Characters[p.Role]))
}
