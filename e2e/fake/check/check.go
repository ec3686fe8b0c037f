// Package check reads requests as the real providers do: what they refuse, in their own words, and in which form an answer is asked for. It
// makes no answers.
package check

import (
	"fmt"
	"net/http"
	"strings"

	"bardo.money/gateway/internal/rawjson"
)

// Provider is what of a provider's settings decides what it refuses. Its zero value has every model.
type Provider struct {
	Models []string // models it has; nil: any
	Allow  []string // top-level parameters that it takes beyond the real provider's
	Only   []string // OpenAI: models that it serves in Responses alone
	Betas  []string // Anthropic: beta flags it knows; nil: any that looks like one
	Signer Signer   // Anthropic: whose signatures it takes
}

// Refusal is an error before it is written in a dialect.
type Refusal struct {
	Status                     int
	Kind, Code, Message, Param string
	Quiet                      bool // OpenAI writes "param": null
}

// object is a JSON object of a request.
type object = rawjson.Object

// Bad is OpenAI's refusal of a request that is not valid.
func Bad(param, code, format string, args ...any) *Refusal {
	return &Refusal{
		Status: http.StatusBadRequest, Kind: "invalid_request_error", Param: param, Code: code, Message: fmt.Sprintf(format, args...),
	}
}

// refused is Anthropic's.
func refused(format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Kind: "invalid_request_error", Message: fmt.Sprintf(format, args...)}
}

// geminiBad is Google's.
func geminiBad(format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Kind: "INVALID_ARGUMENT", Message: fmt.Sprintf(format, args...)}
}

// geminiUnknown is Google's of a member that it does not know.
func geminiUnknown(name, at string) *Refusal {
	if at != "" {
		at = " at '" + at + "'"
	}
	return geminiBad("Invalid JSON payload received. Unknown name %q%s: Cannot find field.", name, at)
}

// firstOf is the first refusal of several checks.
func firstOf(o object, checks ...func(object) *Refusal) *Refusal {
	for _, look := range checks {
		if e := look(o); e != nil {
			return e
		}
	}
	return nil
}

// isJSON says whether a content-type is JSON.
func isJSON(contentType string) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(contentType)), "application/json")
}
